// What kernels of the dense part have in common: matrices whose rows are examples.
//
// The examples of a mini-batch that a device has lie in slots of equally many rows, a block in
// each; rows behind a block's examples hold anything. An example never reaches another, so kernels
// compute these rows, too, but for sums over examples, which are told the rows of each block.
#pragma once

#include "prelude.h"

// Element (row, column) of a matrix whose rows begin every `stride` elements.
DEVICE u64 element(u64 row, u32 stride, u64 column) {
    return row * stride + column;
}

// Puts `value` at `at`, or adds it to what is there.
DEVICE void put(f32* at, f32 value, u32 adds) {
    *at = adds != 0 ? *at + value : value;
}
