#!/bin/sh
# install-deps.sh - sees to it that this machine can build and test Red Lite.
#
# usage: tools/install-deps.sh build|test|ci
#   build  what the program needs        (make, make demo)
#   test   and what its tests need       (make test)
#   ci     and what .ci/run needs        (clang, formatter, sanitizers)
#
# Looks for tools, headers and libraries, not for packages, so anything installed by other means
# counts. What is missing comes from apt on Debian 12+ and Ubuntu 24.04+ (root, or sudo). When
# nothing is missing nothing is run and no network is needed.
set -u

# package | how its presence is seen (cmd:NAME, pc:PKG-CONFIG-NAME, file:PATTERN, py:MODULE) | why
need_build='
gcc              cmd:cc                   C compiler
libc6-dev        file:/usr/include/stdio.h  C library headers
make             cmd:make                 entry points
cmake            cmd:cmake                build
ninja-build      cmd:ninja                build
pkg-config       cmd:pkg-config           finds the libraries
libpcre2-dev     pc:libpcre2-8            tokenizer split pattern
libutf8proc-dev  pc:libutf8proc           Unicode
libcjson-dev     pc:libcjson              JSON
libedit-dev      pc:libedit               line editing in chat
liburing-dev     pc:liburing              file reads
libvulkan-dev    pc:vulkan                Vulkan headers
libvulkan-volk-dev file:/usr/include/volk.h  Vulkan loader
glslc            cmd:glslc                shader compiler
'
need_test='
libcmocka-dev    pc:cmocka                unit tests
zlib1g-dev       pc:zlib                  compressed fixtures
python3          cmd:/usr/bin/python3     reference programs
python3-numpy    py:numpy                 reference programs
mesa-vulkan-drivers file:/usr/share/vulkan/icd.d/lvp_icd*.json  Vulkan without a GPU
vulkan-validationlayers file:/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json  checks the use of Vulkan
spirv-tools      cmd:spirv-val            checks shaders
spirv-cross      cmd:spirv-cross          checks that shaders work on Apple GPUs
'
need_ci='
clang            cmd:clang                second compiler, fuzzing
libclang-rt-dev  file:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a  sanitizers, fuzzing
clang-format     cmd:clang-format         formatting
qemu-user        cmd:qemu-x86_64          runs what older and other processors would
gcc-aarch64-linux-gnu cmd:aarch64-linux-gnu-gcc  arm64 kernels
libc6-dev-arm64-cross file:/usr/aarch64-linux-gnu/include/stdio.h  arm64 kernels
'

case ${1:-} in
build) wanted=$need_build ;;
test) wanted=$need_build$need_test ;;
ci) wanted=$need_build$need_test$need_ci ;;
*)
    echo "usage: tools/install-deps.sh build|test|ci" >&2
    exit 2
    ;;
esac

present() { # HOW
    case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    py:*) /usr/bin/python3 -c "import ${1#py:}" >/dev/null 2>&1 ;;
    file:*)
        for found in ${1#file:}; do
            [ -e "$found" ] && return 0
        done
        return 1
        ;;
    esac
}

missing() { # prints the packages that are not there
    echo "$wanted" | while read -r package how why; do
        [ -n "$package" ] || continue
        present "$how" || printf '%s ' "$package"
    done
}

packages=$(missing)
[ -n "$packages" ] || exit 0

refuse() { # SENTENCE
    echo "install-deps: $1" >&2
    echo "install-deps: missing (Debian names): $packages" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 ||
    refuse "there is no apt-get here, so please install the following by hand."
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
        refuse "packages are missing and only root can install them: run this as root, or install sudo."
    if ! sudo -n true 2>/dev/null && ! [ -t 0 ]; then
        refuse "packages are missing and sudo asks for a password, which needs a terminal."
    fi
    as_root=sudo
fi

echo "install-deps: installing $packages" >&2
apt() {
    # stdin stays closed: no package may ask, and a script's own input must not be eaten.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 "$@" </dev/null >&2
}
# Package lists may be absent or old: fetch them, and go on with the old ones when that fails.
apt -qq update || echo "install-deps: the package lists could not be refreshed" >&2
# shellcheck disable=SC2086
apt -qq install -y --no-install-recommends $packages ||
    refuse "apt-get could not install everything (is there a network?)."

packages=$(missing)
[ -z "$packages" ] || refuse "these are still not found after installing them."
