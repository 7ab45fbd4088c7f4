#!/usr/bin/env bash
# bounded.sh MODEL.gguf [GIB [THREADS]] - decoding a model that does not fit, inside a memory control
# group (default 4 GiB, 2 threads), with its figures.
#
# The page cache of the file is dropped before every run and counts against the group. Experts are
# read with direct I/O. Pairs in turns: with and without reading ahead, with and without overlap of
# reading and computing; then pools of a quarter and a half of the experts, without a group (if they
# fit the machine), each beside fio (if it is installed) on the same file with the same sizes and depth:
# as many ranges at once as a layer misses on average, all of them awaited before the next ones, which
# is what "one after the other" does; and the same depth kept all the time.
#   REDLITE=path  the program    TOKENS=16  per run    REPEAT=3  timed runs    ROUNDS=2  of the pairs
#   SHARES="25 50"  percent of the experts
# One row per run: tokens/s (median, least, most), share of the time spent waiting for reads, MB read
# per token and GB/s while something was in flight, hit rate, experts found absent per token, the
# group's peak. The load average stands in front: on a busy machine the figures are too low.
set -eu
[ $# -ge 1 ] || { sed -n '2,4p' "$0"; exit 2; }
model=$1 gib=${2:-4} threads=${3:-2}
here=$(cd "$(dirname "$0")/.." && pwd)
program=${REDLITE:-$here/build/redlite}
tokens=${TOKENS:-16} repeat=${REPEAT:-3} rounds=${ROUNDS:-2} shares=${SHARES-25 50}
work=$(mktemp -d)
group=
trap 'rm -rf "$work"; [ -z "$group" ] || rmdir "$group"' EXIT

root=/sys/fs/cgroup
if [ -e $root/memory/memory.limit_in_bytes ]; then
    group=$root/memory/redlite-bounded-$$ limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    group=$root/redlite-bounded-$$ limit=memory.max peak=memory.peak
fi
mkdir "$group" && echo $((gib << 30)) >"$group/$limit" ||
    { group=; echo "bounded.sh: no right to make a memory control group" >&2; exit 1; }

number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$work/row"; }
drop_cache() { dd of="$model" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; }

# row NAME IN_GROUP [OPTION...]
row() {
    local name=$1 inside=$2
    shift 2
    drop_cache
    [ "$peak" != memory.max_usage_in_bytes ] || echo 0 >"$group/$peak"
    (
        [ "$inside" = no ] || echo $BASHPID >"$group/cgroup.procs"
        exec "$program" bench --json -m "$model" --backend cpu -t "$threads" -s 1 -p 0 -n "$tokens" \
            -r "$repeat" --io direct "$@" >"$work/row" 2>"$work/notes"
    ) || { cat "$work/notes" >&2; exit 1; }
    awk -v name="$name" -v median="$(number tok_s_median)" -v least="$(number tok_s_min)" \
        -v most="$(number tok_s_max)" -v wait="$(number wait_share)" -v bytes="$(number bytes_per_token)" \
        -v all="$(number bytes_read)" -v reading="$(number reading_ms)" -v hits="$(number hit_rate)" \
        -v misses="$(number misses_per_token)" -v slots="$(number n_slots)" -v experts="$(number n_experts)" \
        -v peak="$([ "$inside" = no ] && echo 0 || cat "$group/$peak" 2>/dev/null || echo 0)" \
        -v load="$(cut -d' ' -f1 /proc/loadavg)" 'BEGIN {
        printf "%5s  %-29s %5.2f (%.2f..%.2f) %6.1f %% %8.0f %8.2f %8.1f %% %8.0f %6.1f %% %8.2f\n",
            load, name, median, least, most, 100 * wait, bytes / 1e6, reading ? all / reading / 1e6 : 0,
            100 * hits, misses, 100 * slots / experts, peak / 2 ^ 30 }'
}

echo "$(basename "$model"), group of $gib GiB, $threads threads, $repeat runs of $tokens tokens, $(uname -m)"
printf '%5s  %-29s %-18s %8s %8s %8s %10s %8s %8s %8s\n' load run "tok/s (least..most)" waiting MB/token GB/s \
    "hit rate" misses pool "peak GiB"
for round in $(seq "$rounds"); do
    row "reading ahead" yes
    [ "$round" != 1 ] || grep -h 'expert pool' "$work/notes"
    row "not ahead" yes --prefetch off
    RL_ENGINE_OVERLAP=0 row "one after the other" yes --prefetch off
done

# The last row's misses, by fio.
fio_like() {
    command -v fio >/dev/null || { echo "skipped: fio is not installed"; return; }
    local depth size
    # Three ranges an expert. fio asks for whole blocks.
    read -r depth size < <(awk -v bytes="$(number bytes_per_token)" -v misses="$(number misses_per_token)" \
        -v layers="$layers" 'BEGIN {
        depth = int(3 * misses / layers + 0.5)
        print (depth < 1 ? 1 : depth), 512 * (int(bytes / misses / 3 / 512) + 1) }')
    for pattern in "bursts of" "always"; do
        drop_cache
        batch=()
        [ "$pattern" = always ] ||
            batch=(--iodepth_batch_submit="$depth" --iodepth_batch_complete_min="$depth" --iodepth_low=0)
        fio --name=r --filename="$model" --readonly --rw=randread --ioengine=io_uring --direct=1 --bs="$size" \
            --blockalign=512 --norandommap --iodepth="$depth" "${batch[@]}" --time_based --runtime=5 \
            --output-format=terse --terse-version=3 2>/dev/null |
            awk -F';' -v n="$depth" -v size="$size" -v pattern="$pattern" '{
            printf "%7sfio, %s %d ranges of %d bytes: %.2f GB/s\n", "", pattern, n, size, $7 * 1024e-9 }'
    done
}

info=$("$program" info --json -m "$model")
full=$(sed -n 's/.*"pool_full":\([0-9]*\).*/\1/p' <<<"$info")
layers=$(sed -n 's/.*"n_layer":\([0-9]*\).*/\1/p' <<<"$info")
free=$(awk '/MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
for percent in $shares; do
    if [ $((full / 100 * percent + (3 << 30))) -gt "$free" ]; then
        echo "skipped: a pool of $percent % does not fit this machine"
        continue
    fi
    mib=$((full / 100 * percent >> 20))
    row "$percent % of the experts" no --cache-mib $mib
    row "$percent %, not ahead" no --cache-mib $mib --prefetch off
    RL_ENGINE_OVERLAP=0 row "$percent %, one after the other" no --cache-mib $mib --prefetch off
    fio_like
done
