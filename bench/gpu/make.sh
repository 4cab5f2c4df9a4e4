#!/usr/bin/env bash
# Builds here what `run.sh` takes to a machine with a GPU, which has neither Rust nor a network:
# target/gpu/stepwell, stepwell-lab and the tests that a GPU makes a difference to, without symbols.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=target/gpu
rm -rf "$out" && mkdir -p "$out"
cargo build --release -p stepwell -p stepwell-lab
for program in stepwell stepwell-lab; do strip -o "$out/$program" "target/release/$program"; done
for test in device:conformance kernels:twins; do
    program=$(cargo test --release -p "stepwell-${test%:*}" --test "${test#*:}" --no-run 2>&1 |
        sed -n 's/.*Executable .*(\(.*\))$/\1/p')
    strip -o "$out/${test#*:}" "$program"
done
gzip -9 "$out"/*
du -ch "$out"/*
