// Lengths of sequences.
#pragma once

#include "prelude.h"

// Number of steps of an example: its length, rounded down, from 0 to `steps_max`.
DEVICE u32 steps_of(f32 length, u32 steps_max) {
    if (!(length < static_cast<f32>(steps_max))) {
        return steps_max;
    }
    return length > 0.0f ? static_cast<u32>(length) : 0;
}
