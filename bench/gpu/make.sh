#!/usr/bin/env bash
# Builds the programs that `run.sh` needs on a machine with a GPU but without Rust or a network:
# stepwell, stepwell-lab and the tests that use a GPU, stripped and packed in target/gpu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=target/gpu
rm -rf "$out" && mkdir -p "$out"
cargo build --release -p stepwell -p stepwell-lab
cp target/release/stepwell target/release/stepwell-lab "$out"
for test in device:conformance kernels:twins; do
    program=$(cargo test --release -p "stepwell-${test%:*}" --test "${test#*:}" --no-run 2>&1 |
        sed -n 's/.*Executable .*(\(.*\))$/\1/p')
    strip -o "$out/${test#*:}" "$program"
done
gzip -9 "$out"/*
du -ch "$out"/*
