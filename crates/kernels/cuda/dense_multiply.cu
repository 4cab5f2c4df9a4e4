// Products of matrices lane by lane, dot products of their rows, and the elementwise part of cross
// layers with a vector. Bound by memory bandwidth; dot products, in which a thread has a row, by
// reads from the first-level cache.

#include "dense.h"
#include "lane_sums.h"

// Stores left * right in the columns of `to`, or adds it. If `right_columns` is 1, it has a factor
// for each row.
KERNEL_LANES(dense_multiply, IN(float) left, IN(float) right, INOUT(float) to, u32 rows,
             u32 columns, u32 left_stride, u32 right_stride, u32 right_columns, u32 to_stride,
             u32 adds) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 row = place.quotient;
        const u32 column = place.remainder;
        const f32 factor = right[element(row, right_stride, right_columns == 1 ? 0 : column)];
        put(to + element(row, to_stride, column), left[element(row, left_stride, column)] * factor,
            adds);
    }
}

// Stores the dot product of each row of `left` and `right` in column 0 of `to`, or adds it. If
// `right_stride` is 0, all rows of `left` are multiplied by one vector.
KERNEL_LANES(dense_row_dots, IN(float) left, IN(float) right, INOUT(float) to, u32 rows,
             u32 columns, u32 left_stride, u32 right_stride, u32 to_stride, u32 adds) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f32 dot = dot_of_lanes(columns, left + element(row, left_stride, 0),
                                     right + element(row, right_stride, 0));
        put(to + element(row, to_stride, 0), dot, adds);
    }
}

// The output of a cross layer with a vector: y = x0 * s + b + x, where s is a number for each row.
KERNEL_LANES(dense_cross_vector, IN(float) base, IN(float) dots, IN(float) bias, IN(float) input,
             OUT(float) output, u32 rows, u32 columns, u32 base_stride, u32 input_stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u32 column = place.remainder;
        const f32 x0 = base[element(place.quotient, base_stride, column)];
        const f32 x = input[element(place.quotient, input_stride, column)];
        output[item] = x0 * dots[place.quotient] + bias[column] + x;
    }
}

// The gradient of the first `wanted` columns of x: dy + w * ds.
KERNEL_LANES(dense_cross_vector_to_input, IN(float) d_output, IN(float) weight, IN(float) d_dots,
             INOUT(float) d_input, u32 rows, u32 columns, u32 wanted, u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u32 column = place.remainder;
        const f32 dy = d_output[element(place.quotient, columns, column)];
        const f32 value = dy + weight[column] * d_dots[place.quotient];
        put(d_input + element(place.quotient, d_stride, column), value, adds);
    }
}
