#!/usr/bin/env bash
# regress.sh - every end-to-end check, on any machine and any model.
#
# usage: tests/regress.sh [-b "cpu vulkan"] [-n TOKENS] [MODEL.gguf ...]
#   REDLITE=path  the program (default: build/redlite beside this folder)
#
# One line per check: "ok NAME", "FAILED NAME reason" or "skipped NAME reason" (what this machine or
# build cannot do is skipped by name). The last line counts them; exit code 1 on any failure.
# Without a model the shipped one is used. Large models: choose -n small, the oracle is slow.
set -u
here=$(cd "$(dirname "$0")" && pwd)
program=${REDLITE:-$here/../build/redlite}
backends="cpu vulkan"
n=24
while getopts b:n: option; do
    case $option in
    b) backends=$OPTARG ;;
    n) n=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ -x "$program" ] || { echo "regress.sh: $program: not found; build it, or set REDLITE" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

ok() { echo "ok $1"; passed=$((passed + 1)); }
fail() { echo "FAILED $1 $2"; failed=$((failed + 1)); }
skip() { echo "skipped $1 $2"; skipped=$((skipped + 1)); }

# check NAME COMMAND...: it must succeed.
check() {
    local name=$1
    shift
    if "$@" >"$work/out" 2>"$work/err"; then ok "$name"; else fail "$name" "$(tail -n 1 "$work/err")"; fi
}

# same NAME FILE FILE: the two must be equal, and not empty.
same() {
    if [ -s "$2" ] && cmp -s "$2" "$3"; then ok "$1"; else fail "$1" "the outputs differ"; fi
}

# greedy OUT [ENV=..] [options]: token ids of a greedy continuation.
greedy() {
    local out=$1
    shift
    env "${environment[@]}" "$program" generate -m "$model" --backend "$backend" -q --json --temp 0 -n "$n" \
        -p "Once upon a time" "$@" 2>"$work/err" | grep -o '"tokens":\[[^]]*\]' >"$out"
}

usable() { # BACKEND
    "$program" devices --json 2>/dev/null | grep -q "\"backend\":\"$1\"[^}]*\"usable\":true"
}

on_backend() {
    local tag="$1.$backend" reference="$work/reference"
    environment=(LC_ALL=C)
    greedy "$reference"
    if [ ! -s "$reference" ]; then
        fail "$tag.generate" "$(tail -n 1 "$work/err")"
        return
    fi
    ok "$tag.generate"
    greedy "$work/again"
    same "$tag.generate_twice" "$reference" "$work/again"

    # Pools: the smallest that the program accepts (its own error names it), and twice that.
    local minimum
    minimum=$("$program" info -m "$model" --json 2>/dev/null | grep -o '"pool_minimum":[0-9]*' | grep -o '[0-9]*$')
    [ -n "$minimum" ] && minimum=$(((minimum + 1048575) / 1048576))
    if [ -z "$minimum" ]; then
        skip "$tag.pools" "info does not name the smallest pool"
    else
        for mib in "$minimum" $((minimum * 2)); do
            greedy "$work/again" --cache-mib "$mib"
            same "$tag.pool_${mib}_mib" "$reference" "$work/again"
        done
    fi

    local name
    for name in direct buffered; do
        greedy "$work/again" --io $name --cache-mib "${minimum:-0}"
        if [ -s "$work/again" ]; then same "$tag.io_$name" "$reference" "$work/again"
        else skip "$tag.io_$name" "$(tail -n 1 "$work/err")"; fi
    done
    greedy "$work/again" --prefetch off --cache-mib "${minimum:-0}"
    same "$tag.prefetch_off" "$reference" "$work/again"

    if [ "$backend" = vulkan ]; then
        for name in 0 restart resume gated auto; do
            environment=(RL_ENGINE_SPECULATIVE=$name)
            greedy "$work/again"
            if [ -s "$work/again" ]; then same "$tag.speculative_$name" "$reference" "$work/again"
            else skip "$tag.speculative_$name" "$(tail -n 1 "$work/err")"; fi
        done
        environment=(RL_VULKAN_STAGING=1)
        greedy "$work/again"
        same "$tag.staging_ring" "$reference" "$work/again"
        environment=(RL_ENGINE_PRELOAD=0)
        greedy "$work/again"
        same "$tag.no_preload" "$reference" "$work/again"
    fi
    environment=(LC_ALL=C)

    check "$tag.perplexity" "$program" perplexity -m "$model" --backend "$backend" -q -c 64 -f "$work/text"
    check "$tag.bench" "$program" bench -m "$model" --backend "$backend" -q --json -p 32 -n 4 -r 1

    # parity counts its own checks
    "$program" parity -m "$model" --backend "$backend" -q -n "$n" >"$work/parity" 2>"$work/err"
    if [ -s "$work/parity" ]; then
        while read -r verdict check_name rest; do
            case $verdict in
            ok) ok "$tag.$check_name" ;;
            FAILED) fail "$tag.$check_name" "$rest" ;;
            skipped) skip "$tag.$check_name" "$rest" ;;
            esac
        done <"$work/parity"
    else
        fail "$tag.parity" "$(tail -n 1 "$work/err")"
    fi
}

on_cpu_kernels() {
    local isa backend=cpu
    for isa in exact scalar avx2 avx512 avx512vnni neon dotprod i8mm; do
        environment=(RL_CPU=$isa)
        greedy "$work/again"
        if [ -s "$work/again" ]; then ok "$1.cpu.kernels_$isa"
        else skip "$1.cpu.kernels_$isa" "$(tail -n 1 "$work/err")"; fi
    done
}

on_model() {
    local tag
    tag=$(basename "$model" .gguf)
    check "$tag.info" "$program" info -m "$model" --json
    "$program" tokenize -m "$model" -p "The fox, the owl; 3 x 7 = 21." >"$work/ids" 2>"$work/err"
    "$program" detokenize -m "$model" <"$work/ids" >"$work/back" 2>>"$work/err"
    if [ "$(cat "$work/back")" = "The fox, the owl; 3 x 7 = 21." ]; then ok "$tag.tokens_round_trip"
    else fail "$tag.tokens_round_trip" "$(tail -n 1 "$work/err")"; fi
    for backend in $backends; do
        if usable "$backend"; then on_backend "$tag"
        else skip "$tag.$backend" "no usable device for this backend"; fi
    done
    usable cpu && on_cpu_kernels "$tag"
}

for i in $(seq 40); do
    echo "Line $i: the little bear walked $i steps into the wood and counted the stars."
done >"$work/text"
head -c 100 "$program" >"$work/not-a-model.gguf"
if "$program" info -m "$work/not-a-model.gguf" >/dev/null 2>"$work/err"; then
    fail refuses_foreign_file "it was accepted"
else
    ok refuses_foreign_file
fi
if [ $# -eq 0 ]; then set -- "$here/../models/redlite-demo-IQ2_XXS.gguf"; fi
for model in "$@"; do
    on_model
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
