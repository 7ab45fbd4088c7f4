#!/usr/bin/env bash
# control_group.sh - inside a memory control group the default pool leaves the group's limit alone.
#
# usage: tests/e2e/control_group.sh PROGRAM SCRATCH_FOLDER
#
# Makes a group of 320 MiB (version 1 or 2, whichever has the memory controller here) and one inside
# it that would allow more, runs a model of about 210 MiB of experts in the inner one, and checks:
# the program says which group decides, nothing is killed, the group's peak stays within the limit
# (its page cache counts), and the text is the one of a run without a group.
# Exit code 77: this system does not let us make groups.
set -u
program=$1 scratch=$2
limit=$((320 << 20))
name=redlite-test-$$
model=$scratch/control-group-$$.gguf
group=

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
clean() {
    rm -f "$model" "$scratch"/control-group-$$.*
    [ -z "$group" ] || rmdir "$group/inner" "$group" 2>/dev/null
}
trap clean EXIT

# Where is the memory controller?
root=/sys/fs/cgroup
if [ -e $root/memory/memory.limit_in_bytes ]; then
    version=1 parent=$root/memory
elif grep -qw memory $root/cgroup.controllers 2>/dev/null; then
    version=2 parent=$root
else
    skip "there is no memory controller below $root"
fi
mkdir "$parent/$name" 2>/dev/null || skip "no right to make a group in $parent"
group=$parent/$name
if [ $version = 1 ]; then
    limit_file=memory.limit_in_bytes
else
    limit_file=memory.max
    grep -qw memory "$group/cgroup.controllers" || skip "$parent does not hand on its memory controller"
    echo +memory >"$group/cgroup.subtree_control" 2>/dev/null || skip "the memory controller cannot be enabled"
fi
mkdir "$group/inner" || skip "no right to make a group in $group"
{ echo $limit >"$group/$limit_file" && echo $((limit * 4)) >"$group/inner/$limit_file"; } 2>/dev/null ||
    skip "no right to set $limit_file"
(echo $BASHPID >"$group/inner/cgroup.procs") 2>/dev/null || skip "no process can be moved into $group"

"$program" synth -q -o "$model" --mix target -s 4 --layers 48 --attention-interval 4 --hidden 1024 \
    --experts 24 --experts-used 8 --expert-width 256 --shared-width 256 || fail "the model was not written"
ids=$(seq -s, 1 260)

run() { # run OUT [OPTION...]
    local out=$1
    shift
    "$program" generate -m "$model" --backend cpu --json --tokens "$ids" -n 8 -s 1 --temp 0 \
        --ignore-eos "$@" >"$out" 2>"$out.err"
}
run "$scratch/control-group-$$.free" || fail "without a group: $(cat "$scratch/control-group-$$.free.err")"
(
    echo $BASHPID >"$group/inner/cgroup.procs"
    run "$scratch/control-group-$$.bound"
) || fail "in the group (code $?): $(cat "$scratch/control-group-$$.bound.err")"

notes=$(cat "$scratch/control-group-$$.bound.err")
echo "$notes"
grep -q "control group .*$name" <<<"$notes" || fail "the group is not named"
grep -q "inner" <<<"$notes" && fail "the inner group does not decide, the outer one does"
grep -q "experts" <<<"$notes" || fail "the pool is not mentioned"
text() { sed -n 's/.*"tokens":\[\([^]]*\)\].*/\1/p' "$1"; }
[ -n "$(text "$scratch/control-group-$$.free")" ] || fail "no tokens"
[ "$(text "$scratch/control-group-$$.free")" = "$(text "$scratch/control-group-$$.bound")" ] ||
    fail "other tokens than without a group"
slots=$(sed -n 's/.*"slots":\([0-9]*\).*/\1/p' "$scratch/control-group-$$.bound")
[ "$slots" -lt $((48 * 24)) ] || fail "every expert is in memory: the limit bounds nothing"

if [ $version = 1 ]; then
    peak=$(cat "$group/memory.max_usage_in_bytes")
    killed=$(sed -n 's/^oom_kill //p' "$group/inner/memory.oom_control")
else
    peak=$(cat "$group/memory.peak" 2>/dev/null || echo 0) # since Linux 5.19
    killed=$(sed -n 's/^oom_kill //p' "$group/inner/memory.events")
fi
[ "${killed:-0}" = 0 ] || fail "$killed processes were killed"
[ "$peak" -le $limit ] || fail "peak $peak above the limit $limit"
echo "version $version, limit $limit, peak $peak bytes (page cache included), $slots of $((48 * 24)) experts"
