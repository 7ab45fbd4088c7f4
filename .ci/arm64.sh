#!/bin/sh
# Cross-compiles the block formats and cpu kernels for arm64 and runs their tests under qemu.
# Needs gcc-aarch64-linux-gnu and qemu-user. About a minute on two cores.
set -e
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build-arm64}
cmake -S "$root/.ci/arm64" -B "$build" -G Ninja --toolchain "$root/cmake/aarch64.cmake" >/dev/null
ninja -C "$build"
cd "$build" && ctest -j2 --output-on-failure
