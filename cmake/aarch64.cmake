# Toolchain file for arm64 on another machine: cmake --toolchain cmake/aarch64.cmake ...
# Debian packages: gcc-aarch64-linux-gnu, qemu-user (to run what was built).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
