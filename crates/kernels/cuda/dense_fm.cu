// The second-order term of a factorization machine: half of the sum over lanes d of
// (sum over slots of v_sd)^2 - (sum over slots of v_sd^2). Bound by memory bandwidth: a thread
// processes one lane of an example, so a warp reads whole vectors.

#include "dense.h"

// The term of each lane. // (rows, dim)
KERNEL_LANES(dense_fm_terms, IN(float) input, OUT(float) terms, u32 rows, u32 slots, u32 dim,
             u32 stride) {
    const u64 total = static_cast<u64>(rows) * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        f32 sum = 0.0f;
        f32 squares = 0.0f;
        for (u32 slot = 0; slot < slots; ++slot) {
            const u64 column = static_cast<u64>(slot) * dim + place.remainder;
            const f32 value = input[element(place.quotient, stride, column)];
            sum += value;
            squares += value * value;
        }
        terms[item] = sum * sum - squares;
    }
}

// Half of the sum of each example's terms, in lane order. // (rows)
KERNEL_LANES(dense_fm_total, IN(float) terms, OUT(float) output, u32 rows, u32 dim) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        f32 total = 0.0f;
        for (u32 lane = 0; lane < dim; ++lane) {
            total += terms[element(row, dim, lane)];
        }
        output[row] = 0.5f * total;
    }
}

// The gradient of the first `wanted` columns of the input: the gradient of the output times the sum
// of the other slots.
KERNEL_LANES(dense_fm_backward, IN(float) input, IN(float) d_output, INOUT(float) d_input, u32 rows,
             u32 slots, u32 dim, u32 stride, u32 wanted, u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        const f32* row = input + element(place.quotient, stride, 0);
        f32* d_row = d_input + element(place.quotient, d_stride, 0);
        const f32 scale = d_output[place.quotient];
        f32 sum = 0.0f;
        for (u32 slot = 0; slot < slots; ++slot) {
            sum += row[static_cast<u64>(slot) * dim + place.remainder];
        }
        for (u32 slot = 0; slot < slots; ++slot) {
            const u64 column = static_cast<u64>(slot) * dim + place.remainder;
            if (column < wanted) {
                put(d_row + column, scale * (sum - row[column]), adds);
            }
        }
    }
}
