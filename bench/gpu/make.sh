#!/usr/bin/env bash
# Builds the programs that `run.sh` needs on a machine with a GPU but without Rust or a network:
# stepwell, stepwell-lab and the tests that use a GPU, stripped and packed in target/gpu. Fails if
# they need a newer C library than that machine has, or if they and the tree are too large to send.
set -euo pipefail
glibc_max=2.39
mib_max=60
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
glibc=$(objdump -T "$out"/* | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
if [[ $(printf '%s\n' "${glibc#GLIBC_}" "$glibc_max" | sort -V | tail -1) != "$glibc_max" ]]; then
    echo "make.sh: the programs need $glibc, and the machine has $glibc_max" >&2
    exit 1
fi
gzip -9 "$out"/*
du -ch "$out"/*
bytes=$({ git ls-files -z && printf '%s\0' "$out"/*; } | du -bc --files0-from=- | tail -1 | cut -f1)
echo "with the tree: $((bytes >> 20)) MiB; C library: at least ${glibc#GLIBC_}"
if ((bytes > mib_max << 20)); then
    echo "make.sh: more than the $mib_max MiB that can be sent" >&2
    exit 1
fi
