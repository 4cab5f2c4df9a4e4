#!/usr/bin/env bash
# Measures a GPU in ten minutes and writes the results to folder $1: tests, kernels, operations in
# plain CUDA, whole runs, PyTorch on the same card, one profiled step, kernels under sanitizers. Run
# `make.sh` first. Device `emulated` as $2 tries the script on a machine without a GPU.
#
#   bench/gpu/run.sh results && python3 bench/gpu/table.py results
#
# Each part has a time limit. If one fails, its status is in status.tsv, and the others still run.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(realpath -m "${1:?a folder for the results}")
device=${2:-cuda:0}
mkdir -p "$out"
: >"$out/status.tsv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for packed in target/gpu/*.gz; do gzip -dc "$packed" >"$work/$(basename "$packed" .gz)"; done
chmod +x "$work"/*
stepwell=$work/stepwell
lab=$work/stepwell-lab

# part NAME SECONDS COMMAND...: runs a command; its output goes to NAME.txt.
part() {
    local name=$1 limit=$2 begin=$SECONDS
    shift 2
    timeout "$limit" "$@" >"$out/$name.txt" 2>&1
    printf '%s\t%s\t%s\n' "$name" $? $((SECONDS - begin)) | tee -a "$out/status.tsv"
}

# run NAME FLAGS...: trains three passes over the packed file; NAME.json is the report, NAME.jsonl
# the log of events.
run() {
    local name=$1
    shift
    part "$name" 60 "$stepwell" train --data "$work/s.packed" --device "$device" \
        --train.dense device --data.epochs 3 --data.eval_fraction 0.01 --tiers.dram 6GiB \
        --report "$out/$name.json" --metrics "$out/$name.jsonl" "$@"
}

# peer NAME FLAGS...: PyTorch's steps on drawn mini-batches with the same number of rows.
peer() {
    local name=$1
    shift
    part "$name" 90 python3 bench/torch_ctr.py --device cuda --draw 200 --draw-rows 3000000 \
        --threads 16 "$@"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$out/gpu.txt"
"$stepwell" device >"$out/device.txt" 2>&1
part draw 120 bash -c '"$0" synth --examples 2000000 --out "$1.tsv" &&
    "$0" convert "$1.tsv" --out "$1.packed" && rm "$1.tsv"' "$stepwell" "$work/s" &
part twins 120 "$work/twins"
part conformance 120 "$work/conformance" devices_of_nvidia
wait
part hbm 90 "$lab" bench hbm --device "$device" --rounds 3 --json "$out/hbm.json"
part nvcc 60 nvcc -O3 -arch=native -o "$work/micro" bench/gpu/micro.cu -lcublasLt
part micro 60 "$work/micro"
run deepfm --model deepfm
run deepfm_again --model deepfm
run dlrm --model dlrm
run deepfm_tenth --model deepfm --tiers.hbm 62MiB
run deepfm_fiftieth --model deepfm --tiers.hbm 32MiB
run deepfm_bf16 --model deepfm --model.precision bf16
for model in deepfm dlrm; do
    peer "torch_$model" --model "$model" --rows-by torch
    peer "manual_$model" --model "$model"
    peer "compiled_$model" --model "$model" --compile
done
peer tf32_deepfm --model deepfm --compile --tf32
peer bf16_deepfm --model deepfm --compile --bf16
part ncu 60 ncu --kill yes --clock-control none --csv --launch-skip 1500 --launch-count 160 \
    --metrics gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed,gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed \
    "$stepwell" train --data "$work/s.packed" --model deepfm --device "$device" --train.dense device
for tool in memcheck racecheck; do
    part "$tool" 180 compute-sanitizer --tool "$tool" --error-exitcode 9 "$work/conformance" \
        devices_of_nvidia
done
