#!/bin/sh
# pack.sh BUILD OUT - everything that run.sh needs, for a machine that cannot build: the programs, the
# shared libraries that they use, the fixtures, and the shipped model.
set -e
build=$1 out=$2
[ -n "$out" ] || { echo "usage: bench/gpu/pack.sh BUILD OUT" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out/bin" "$out/lib" "$out/models" "$out/fixtures"
for program in redlite bench/micro/bench_vulkan tests/kernel_test_vulkan_matvec \
    tests/kernel_test_vulkan_matmul tests/kernel_test_vulkan_mixer tests/kernel_test_vulkan_moe \
    tests/kernel_test_vulkan_router tests/kernel_test_vulkan_top tests/kernel_test_vulkan_links \
    tests/unit_test_vulkan_device \
    tests/golden_test_vulkan tests/golden_test_sampled; do
  cp "$build/$program" "$out/bin/"
done
# The C library stays behind: the machine has its own.
for program in "$out"/bin/*; do
  ldd "$program" | awk '/=> \//{print $3}' | grep -vE '/(libc|libm|libpthread|libdl|ld-linux.*)\.so' |
    while read -r library; do cp -n "$library" "$out/lib/"; done
done
cp "$root"/models/*.gguf "$root"/models/val.txt "$out/models/"
cp -r "$root/tests/fixtures/quants" "$root/tests/fixtures/models" "$out/fixtures/"
cp "$root/bench/gpu/run.sh" "$out/"
du -sh "$out"
