#!/bin/sh
# run.sh OUT [STEP...] - checks and measures the Vulkan backend on the GPU of this machine.
#
# Runs from the folder that pack.sh made, or from a source tree (BUILD=build). Needs no compiler and no
# network, only a Vulkan driver and loader. Steps, in this order (default: all):
#   devices  what is there
#   kernels  kernel tests; kernel times (kernels.csv), variants of matvec (variants.csv)
#   golden   fixture models against their stored logits; parity on the shipped model
#   synth    makes the full-size synthetic model (MODEL, 19 GB) if it is not there
#   full     parity of the large model against the oracle, every way and pool (2 minutes, 60 GB)
#   decode   decode at depths 0 and 16384, routed and synchronous (decode.jsonl), GPU time per step
#   pools    half and quarter of the experts, every way, page cache warm (pools.jsonl)
#   disk     the same from the disk, shorter (disk.jsonl)
#   prefill  prompt speed (prefill.jsonl)
# MODEL: where the large model is or will be (default /tmp/redlite-80b.gguf). DEVICE: --device.
here=$(cd "$(dirname "$0")" && pwd)
out=$1
[ -n "$out" ] || { sed -n 2,15p "$0"; exit 2; }
shift
mkdir -p "$out"
if [ -d "$here/bin" ]; then
  bin=$here/bin tests=$here/bin micro=$here/bin models=$here/models
  export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH" RL_TEST_FIXTURES="$here/fixtures"
  export RL_TEST_SCRATCH="$out"
else
  root=$(cd "$here/../.." && pwd) build=${BUILD:-$here/../../build}
  bin=$build tests=$build/tests micro=$build/bench/micro models=$root/models
fi
model=${MODEL:-/tmp/redlite-80b.gguf}
small=$models/redlite-demo-IQ2_XXS.gguf
device=${DEVICE:+--device $DEVICE}
steps=${*:-devices kernels golden synth full decode pools disk prefill}
note() { echo "== $* ($(date +%T))"; }
redlite() { "$bin/redlite" "$@"; }
pools() { # BENCH-OPTION...
  for mib in 8658 4329; do
    for speculative in auto gated 0 restart resume; do
      echo "-- pool of $mib MiB, $speculative, $*"
      RL_ENGINE_SPECULATIVE=$speculative redlite bench -m "$model" --backend vulkan $device \
        --cache-mib $mib -p 0 -d 0 -r 2 --json "$@" 2>>"$out/$step.log" | tee -a "$out/$step.jsonl"
    done
  done
}

for step in $steps; do
  note "$step"
  case $step in
  devices) redlite devices | tee "$out/devices.txt" ;;
  kernels)
    for name in unit_test_vulkan_device kernel_test_vulkan_matvec kernel_test_vulkan_matmul \
        kernel_test_vulkan_mixer kernel_test_vulkan_moe kernel_test_vulkan_router \
        kernel_test_vulkan_top kernel_test_vulkan_links; do
      RL_TEST_DEVICE=$DEVICE timeout 120 "$tests/$name" >"$out/$name.log" 2>&1
      echo "$name: exit $?, $(grep -c ' OK ' "$out/$name.log") ok, $(grep -c 'FAILED  \] [a-z_]*\.' "$out/$name.log") failed"
      grep -E 'LINE|expected|differ' "$out/$name.log" | head -5
    done
    timeout 120 "$micro/bench_vulkan" $device >"$out/kernels.csv" && cat "$out/kernels.csv"
    timeout 120 "$micro/bench_vulkan" $device --variants --only target >"$out/variants.csv" &&
      grep rows "$out/variants.csv" ;;
  golden)
    for program in golden_test_vulkan golden_test_sampled; do
      timeout 200 "$tests/$program" >"$out/$program.log" 2>&1
      echo "$program: exit $?, $(grep -c ' OK ' "$out/$program.log") ok"
      grep -E 'FAILED|ERROR|relative' "$out/$program.log" | head -30
    done
    timeout 200 "$bin/redlite" parity -m "$small" --backend vulkan $device --repeat 2 -n 16 \
      -p "Once upon a time there was" 2>&1 | tee "$out/parity.txt" ;;
  synth)
    [ -f "$model" ] || redlite synth --preset qwen3-next-80b-iq2_xxs -s 1 -o "$model" 2>&1 | tail -3
    ls -l "$model" ;;
  full)
    timeout 300 "$bin/redlite" parity -m "$model" --backend vulkan $device --repeat 2 -n 4 \
      --tokens 11,22,33,44,55,66,77,88 2>&1 | tee "$out/parity-full.txt" ;;
  decode)
    # Greedy; from the largest logits that come with the token; from all of them.
    for sampling in "--temp 0" "--temp 0.7" "--temp 0.7 --top-k 0"; do
      echo "-- generate $sampling"
      redlite generate -m "$model" --backend vulkan $device --tokens 1,2,3 -n 256 $sampling --json \
        2>>"$out/decode.log" | grep -o '"timings":{[^}]*}' | tee -a "$out/sampled.jsonl"
    done
    for speculative in auto 0; do
      for depth in 0 16384; do
        echo "-- RL_ENGINE_SPECULATIVE=$speculative depth $depth"
        RL_ENGINE_SPECULATIVE=$speculative redlite bench -m "$model" --backend vulkan $device \
          -c 17000 -p 0 -n 128 -d $depth -r 3 --json 2>>"$out/decode.log" | tee -a "$out/decode.jsonl"
      done
    done
    echo "-- RL_VULKAN_BYTES=0"
    RL_VULKAN_BYTES=0 redlite bench -m "$model" --backend vulkan $device -p 0 -n 128 -d 0 -r 3 --json \
      2>>"$out/decode.log" | tee -a "$out/decode.jsonl"
    # Stages that wait for each other overlap and have one time; with barriers each has its own.
    for links in "" 0; do
      echo "-- --stages${links:+, RL_VULKAN_LINKS=$links}"
      env ${links:+RL_VULKAN_LINKS=$links} "$bin/redlite" bench -m "$model" --backend vulkan $device -p 0 -n 256 -d 0 \
        --stages -r 3 2>>"$out/decode.log" | tee "$out/stages${links:+-barriers}.txt"
    done ;;
  pools) pools --io auto -n 64 ;;
  disk) pools --io direct -n 24 ;;
  prefill)
    redlite bench -m "$model" --backend vulkan $device -p 512,2048 -n 0 -d 0 -r 2 --json \
      2>>"$out/prefill.log" | tee "$out/prefill.jsonl" ;;
  *) echo "unknown step $step" >&2; exit 2 ;;
  esac
done
note done
