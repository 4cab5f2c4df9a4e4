// Shared by the kernels of the dense part: matrices with one example per row.
//
// The examples of a device's mini-batch are in slots of equal numbers of rows, one block per slot;
// rows after a block's examples are arbitrary. Examples don't affect each other, so kernels compute
// these rows, too, except sums over examples, which get the number of rows of each block.
#pragma once

#include "prelude.h"

// Offset of element (row, column) of a matrix with `stride` elements from row to row.
DEVICE u64 element(u64 row, u32 stride, u64 column) {
    return row * stride + column;
}

// Stores `value` at `at`, or adds it to the value there.
DEVICE void put(f32* at, f32 value, u32 adds) {
    *at = adds != 0 ? *at + value : value;
}
