// Random numbers that reach the model, as in `stepwell-base`.
#pragma once

#include "prelude.h"

// Number `index` of the SplitMix64 stream with this state.
DEVICE u64 random_at(u64 state, u64 index) {
    u64 z = state + 0x9E3779B97F4A7C15 * (index + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}
