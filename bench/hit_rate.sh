#!/bin/sh
# hit_rate.sh [MODEL TEXT] - how many experts a pool of a given size finds in memory, as CSV and SVG.
#
# Reads on in TEXT token by token (redlite bench -f) with pools of 5 to 100 % of the experts, with
# and without reading ahead; four stretches of 1,500 tokens, each from an empty session, after one that is not counted.
# Writes bench/results/hit-rate.csv and docs/hit-rate.svg. The rates depend on the model and the text,
# not on the machine; those with reading ahead a little on how fast it reads.
#   REDLITE=path  the program   TOKENS=1500  per stretch
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
program=${REDLITE:-$here/build/redlite}
model=${1:-$here/models/redlite-demo-IQ2_XXS.gguf}
text=${2:-$here/models/val.txt}
tokens=${TOKENS:-1500}
csv=$here/bench/results/hit-rate.csv
svg=$here/docs/hit-rate.svg

number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"; }
full=$("$program" info --json -m "$model" | number pool_full)

echo "percent,slots,experts,prefetch,hit_rate,misses_per_token,bytes_per_token,distinct_min,distinct_max" >"$csv"
for percent in 5 10 15 25 40 50 60 75 90 100; do
    mib=$(awk "BEGIN { printf \"%.4f\", $full * $percent / 100 / 1048576 + 0.0001 }")
    for prefetch in off auto; do
        row=$("$program" bench -q --json -m "$model" --backend cpu -p 0 -n "$tokens" -r 4 -f "$text" \
            --cache-mib "$mib" --prefetch $prefetch)
        for key in n_slots n_experts hit_rate misses_per_token bytes_per_token distinct_experts_min \
            distinct_experts_max; do
            eval "$key=$(echo "$row" | number $key)"
        done
        # shellcheck disable=SC2154
        echo "$percent,$n_slots,$n_experts,$prefetch,$hit_rate,$misses_per_token,$bytes_per_token,$distinct_experts_min,$distinct_experts_max" |
            tee -a "$csv"
    done
done

awk -F, -v model="$(basename "$model")" -v text="$(basename "$text")" '
function x(v) { return 70 + v * 5.2 }
function y(v) { return 350 - v * 3 }
function curve(which, color,    i, path) {
    for (i = 1; i <= n; i++)
        if (kind[i] == which) path = path (path ? " L" : "M") x(share[i]) " " y(rate[i])
    print "<path d=\"" path "\" fill=\"none\" stroke=\"" color "\" stroke-width=\"2\"/>"
    for (i = 1; i <= n; i++)
        if (kind[i] == which)
            print "<circle cx=\"" x(share[i]) "\" cy=\"" y(rate[i]) "\" r=\"3.5\" fill=\"" color "\"/>"
}
function label(at_x, at_y, anchor, words) {
    print "<text x=\"" at_x "\" y=\"" at_y "\" text-anchor=\"" anchor "\">" words "</text>"
}
NR > 1 { n++; share[n] = 100 * $2 / $3; kind[n] = $4; rate[n] = 100 * $5 }
END {
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"420\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"640\" height=\"420\" fill=\"white\"/>"
    for (i = 0; i <= 100; i += 20) {
        print "<path d=\"M70 " y(i) " H590 M" x(i) " 50 V350\" stroke=\"#ddd\"/>"
        label(62, y(i) + 4, "end", i " %")
        label(x(i), 368, "middle", i " %")
    }
    print "<path d=\"M" x(0) " " y(0) " L" x(100) " " y(100) "\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>"
    curve("auto", "#c2571a")
    curve("off", "#1a5fb4")
    label(330, 28, "middle", "Experts found in memory: " model " reading " text)
    label(330, 394, "middle", "pool, share of all experts")
    print "<g><rect x=\"400\" y=\"262\" width=\"180\" height=\"74\" fill=\"white\" stroke=\"#ccc\"/>"
    print "<path d=\"M410 280 H440\" stroke=\"#1a5fb4\" stroke-width=\"2\"/>"; label(448, 284, "start", "LRU")
    print "<path d=\"M410 300 H440\" stroke=\"#c2571a\" stroke-width=\"2\"/>"; label(448, 304, "start", "LRU, reading ahead")
    print "<path d=\"M410 320 H440\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>"; label(448, 324, "start", "choice at random")
    print "</g></svg>"
}' "$csv" >"$svg"
echo "$svg"
