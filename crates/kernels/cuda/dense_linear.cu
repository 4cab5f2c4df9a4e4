// Bias and activation of a layer, applied after its matrix product, and their gradients. Bound by
// memory bandwidth, except sums over a block: one thread per column adds rows in example order, so
// they are bound by the latency of the rows.

#include "dense.h"

// Number of rows read before any is added, so that their reads overlap.
#define AHEAD 32

// Adds the bias if `has_bias` and applies ReLU if `rectifies`; NaN stays NaN.
KERNEL_LANES(dense_activate, INOUT(float) values, IN(float) bias, u32 rows, u32 columns,
             u32 has_bias, u32 rectifies) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        f32 value = values[item];
        if (has_bias != 0) {
            value = value + bias[divide(item, columns).remainder];
        }
        if (rectifies != 0) {
            value = value <= 0.0f ? 0.0f : value;
        }
        values[item] = value;
    }
}

// Turns the gradient of a ReLU's output into the gradient of its input.
KERNEL_LANES(dense_deactivate, IN(float) output, INOUT(float) gradient, u32 rows, u32 columns) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        if (output[item] <= 0.0f) {
            gradient[item] = 0.0f;
        }
    }
}

// The sum of each column over the examples of each block, in example order; the sums of block b
// start at b * apart.
KERNEL_LANES(dense_column_sums, IN(float) values, OUT(float) sums, IN(u32) rows_of, u32 blocks,
             u32 slot_rows, u32 columns, u64 apart) {
    const u64 total = static_cast<u64>(blocks) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 block = place.quotient;
        const f32* column = values + element(block * slot_rows, columns, place.remainder);
        const u32 rows = rows_of[block];
        f32 sum = 0.0f;
        u32 row = 0;
        for (; row + AHEAD <= rows; row += AHEAD) {
            f32 next[AHEAD];
            UNROLL
            for (u32 i = 0; i < AHEAD; ++i) {
                next[i] = column[element(row + i, columns, 0)];
            }
            UNROLL
            for (u32 i = 0; i < AHEAD; ++i) {
                sum += next[i];
            }
        }
        for (; row < rows; ++row) {
            sum += column[element(row, columns, 0)];
        }
        sums[block * apart + place.remainder] = sum;
    }
}
