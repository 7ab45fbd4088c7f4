#!/bin/sh
# old_processor.sh PROGRAM KERNEL-TESTS - the program on a processor of 2008 that knows nothing behind
# SSE4.2: it must write the text that the same portable kernels write here, and meet no instruction that is
# missing there. Stands against a file compiled for newer machines than its users have.
set -eu
command -v qemu-x86_64 >/dev/null || { echo "skipped: no qemu-x86_64"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "skipped: for x86-64 only"; exit 77; }
old() { qemu-x86_64 -cpu Nehalem "$@"; }

want=$(RL_CPU=scalar "$1" generate -q --backend cpu -t 2 --temp 0 -n 12 -p "Once upon a time")
got=$(old "$1" generate -q --backend cpu -t 2 --temp 0 -n 12 -p "Once upon a time")
[ "$got" = "$want" ] || { echo "there: $got"; echo "here:  $want"; exit 1; }
old "$1" devices --json | grep -q 'exact scalar"' || { old "$1" devices; exit 1; }
if RL_CPU=avx2 old "$1" generate -q --backend cpu -n 1 -p a 2>/dev/null; then
    echo "avx2 kernels were not refused"
    exit 1
fi
old "$2" cpu.scalar_matrices
old "$2" cpu.scalar_vectors
old "$2" cpu.exact_vectors
