// What a layer adds to its product: bias and activation, and their gradients. Bound by the device's
// memory, but for sums over a block, which a thread for each column makes in the order of examples:
// they are bound by the latency of as many rows.

#include "dense.h"

// Rows that are read before they are added, one after another: reads wait for nobody.
#define AHEAD 32

// Adds the bias where there is one, and rectifies where that is wanted; no number stays none.
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

// The gradient of the sums from that of what was rectified.
KERNEL_LANES(dense_deactivate, IN(float) output, INOUT(float) gradient, u32 rows, u32 columns) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        if (output[item] <= 0.0f) {
            gradient[item] = 0.0f;
        }
    }
}

// The sum of each column over the examples of each block, in their order: that of block b begins at
// b * apart.
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
