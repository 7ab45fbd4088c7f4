#!/bin/sh
# stream_vs_fio.sh FILE [ROUNDS [SECONDS]] - our streaming beside fio, on the same file, in turns.
#
# Both read expert-sized pieces at random places with direct I/O. The two take turns, so that whatever
# else the machine does hits both alike; the medians of the rounds are compared. Needs fio, and
# `ninja -C build bench_stream` before.
set -eu
file=$1; rounds=${2:-5}; seconds=${3:-3}
bench=${BENCH:-$(dirname "$0")/../build/bench/micro/bench_stream}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for part in 229376 303104; do
  for depth in 1 4 8 16 32; do
    : >"$work/fio"; : >"$work/ours"
    for round in $(seq "$rounds"); do
      fio --name=r --filename="$file" --readonly --rw=randread --ioengine=io_uring --direct=1 \
        --bs=$((part + 512)) --blockalign=512 --norandommap --iodepth="$depth" --time_based \
        --runtime="$seconds" --output-format=terse --terse-version=3 2>/dev/null |
        cut -d';' -f7 | awk '{ print $1 * 1024e-9 }' >>"$work/fio"
      "$bench" "$file" --io direct --part $part --depth "$depth" --batch 0 --seconds "$seconds" |
        sed 's/.*( *\([0-9.]*\) with.*/\1/' >>"$work/ours"
    done
    f=$(median "$work/fio"); o=$(median "$work/ours")
    echo "part $part depth $depth: fio $f GB/s, stream $o GB/s, $(awk "BEGIN { printf \"%.0f\", 100 * $o / $f }") %"
  done
done
