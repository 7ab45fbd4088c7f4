#!/usr/bin/env bash
# compare.sh MODEL.gguf ... - redlite and llama.cpp on the same file, in turns: the ratios of prefill and
# decode with medians and spread.
#
#   LLAMA_BENCH=path  llama.cpp's own llama-bench. Without it, the npm package node-llama-cpp (its
#                     version is pinned in package.json) is installed here, with its linux-x64 binary
#                     alone and without running any of its scripts; needs node and npm.
#   REDLITE=path      default build/redlite       THREADS=2   of both
#   PROMPT=512 GENERATE=32 DEPTH=0                tokens; 0 leaves a test out
#   ROUNDS=5          of turns; each starts both programs anew, and each warms up before it counts
#
# A round gives one ratio, ours over theirs; printed are the medians over the rounds and the least and
# largest of each. Experts are in memory in both (run it where the file fits).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,14p' "$0"; exit 2; }
program=${REDLITE:-$here/../../build/redlite}
threads=${THREADS:-2} prompt=${PROMPT:-512} generate=${GENERATE:-32} depth=${DEPTH:-0} rounds=${ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${LLAMA_BENCH:-}" ]; then
    command -v npm >/dev/null || { echo "compare.sh: set LLAMA_BENCH, or install node and npm" >&2; exit 1; }
    [ -d "$here/node_modules/node-llama-cpp" ] ||
        # Not npm ci: the lock file names no packages of other platforms, and ci would miss them.
        (cd "$here" && npm install --no-save --omit=optional --ignore-scripts --no-audit --no-fund >&2)
fi

# ours MODEL -> "PREFILL DECODE" in tokens per second
ours() {
    "$program" bench -q --json --backend cpu -m "$1" -t "$threads" -s 1 -p "$prompt" -n "$generate" -d "$depth" \
        -r 1 >"$work/row"
    awk 'match($0, /"tok_s_median":[0-9.]*/) { rate = substr($0, RSTART + 15, RLENGTH - 15)
            if (/"test":"pp/) p = rate; else d = rate }
         END { print p + 0, d + 0 }' "$work/row"
}

theirs() {
    if [ -n "${LLAMA_BENCH:-}" ]; then
        "$LLAMA_BENCH" -m "$1" -t "$threads" -ngl 0 -p "$prompt" -n "$generate" -d "$depth" -r 1 -o jsonl \
            2>/dev/null >"$work/row"
        awk 'match($0, /"avg_ts": *[0-9.]*/) { split(substr($0, RSTART, RLENGTH), part, ":")
                if (/"n_gen": *0[,}]/) p = part[2]; else d = part[2] }
             END { print p + 0, d + 0 }' "$work/row"
    else
        (cd "$here" && node llama.mjs "$(realpath "$1")" "$threads" "$prompt" "$generate" "$depth" 1) >"$work/row"
        sed 's/.*"prefill":\[\([0-9.e+]*\)\],"decode":\[\([0-9.e+]*\)\].*/\1 \2/' "$work/row"
    fi
}

report() { # report NAME COLUMN-OF-OURS COLUMN-OF-THEIRS FILE
    awk -v name="$1" -v a="$2" -v b="$3" '
    function sorted(v,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    }
    function median(v) { return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
    { n++; x[n] = $a; y[n] = $b; r[n] = $b ? $a / $b : 0 }
    END {
        sorted(x); sorted(y); sorted(r)
        printf "  %-8s ours %8.2f (%.2f..%.2f)  theirs %8.2f (%.2f..%.2f)  ratio %.2f (%.2f..%.2f)\n", name,
            median(x), x[1], x[n], median(y), y[1], y[n], median(r), r[1], r[n]
    }' "$4"
}

for model in "$@"; do
    echo "$(basename "$model"): $threads threads, prompt $prompt, generated $generate, depth $depth, tokens/s, $rounds rounds, load $(cut -d' ' -f1 /proc/loadavg)"
    : >"$work/rates"
    for round in $(seq "$rounds"); do
        echo "$(ours "$model") $(theirs "$model")" | tee -a "$work/rates" | sed "s/^/    round $round: /" >&2
    done
    [ "$prompt" = 0 ] || report prefill 1 3 "$work/rates"
    [ "$generate" = 0 ] || report decode 2 4 "$work/rates"
    if [ -z "${LLAMA_BENCH:-}" ]; then
        awk '{ print 1000 / $4, $2 }' "$work/rates" | sort -n | awk '{ ms[NR] = $1; ratio[NR] = $2 * ($1 - 20) / 1000 }
        END {
            m = int((NR + 1) / 2)
            printf "  theirs through node-llama-cpp: its JavaScript layer adds about 20 ms to every generated token"
            if (ms[m] < 150)
                print ", which is too much here (a token takes " int(ms[m]) " ms): use LLAMA_BENCH"
            else
                printf " (a token takes %d ms here); without them decode would be at %.2f tokens/s, ratio %.2f\n",
                    ms[m], 1000 / (ms[m] - 20), ratio[m]
        }'
    fi
done
