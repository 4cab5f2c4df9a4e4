// Normalization of columns over the examples of a block, and Dice, which needs it. Bound by memory
// bandwidth; sums over a block, with one thread per column, by the latency of their additions.

#include "dense.h"
#include "smooth.h"

// Mean and inverse deviation of a column.
struct Moments {
    f32 mean;
    f32 inverse;
};

// The moments of a column of a block. // moments: (blocks, 2, columns)
DEVICE Moments moments_of(const f32* moments, u64 block, u32 columns, u32 column) {
    const f32* of = moments + 2 * block * columns + column;
    return Moments{of[0], of[columns]};
}

DEVICE void put_moments(f32* moments, u64 block, u32 columns, u32 column, f32 mean, f32 variance,
                        f64 epsilon) {
    f32* of = moments + 2 * block * columns + column;
    of[0] = mean;
    of[columns] = static_cast<f32>(1.0 / sqrt(static_cast<f64>(variance) + epsilon));
}

// The moments of each block, and its statistics, which are `apart` lanes from the next block's:
// the number of examples, one less, and for each column the sum of values and of squared
// deviations. // [1 | 1 | columns | columns]
KERNEL_LANES(dense_batch_moments, IN(float) input, IN(u32) rows_of, OUT(float) moments,
             OUT(float) statistics, u32 blocks, u32 slot_rows, u32 columns, u32 stride, u64 apart,
             double epsilon) {
    const u64 total = static_cast<u64>(blocks) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 block = place.quotient;
        const u32 column = place.remainder;
        const u32 rows = rows_of[block];
        const f32* lanes = input + element(block * slot_rows, stride, column);
        f32 sum = 0.0f;
        for (u32 row = 0; row < rows; ++row) {
            sum += lanes[element(row, stride, 0)];
        }
        // An empty block has sums of 0.
        const f32 count = static_cast<f32>(max(rows, 1u));
        const f32 mean = sum / count;
        f32 squares = 0.0f;
        for (u32 row = 0; row < rows; ++row) {
            const f32 deviation = lanes[element(row, stride, 0)] - mean;
            squares += deviation * deviation;
        }
        put_moments(moments, block, columns, column, mean, squares / count, epsilon);
        f32* of = statistics + block * apart;
        if (column == 0) {
            of[0] = static_cast<f32>(rows);
            of[1] = rows == 0 ? 0.0f : count - 1.0f;
        }
        of[2 + column] = rows == 0 ? 0.0f : mean * count;
        of[2 + columns + column] = squares;
    }
}

// The moments of each block in evaluations: those of the state. // state: (2, columns)
KERNEL_LANES(dense_batch_moments_of_state, IN(float) state, OUT(float) moments, u32 blocks,
             u32 columns, double epsilon) {
    const u64 total = static_cast<u64>(blocks) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u32 column = place.remainder;
        put_moments(moments, place.quotient, columns, column, state[column],
                    state[columns + column], epsilon);
    }
}

// Moves the state towards the statistics of a step, which are summed over blocks.
KERNEL_LANES(dense_batch_norm_advance, INOUT(float) state, IN(float) statistics, u32 columns,
             float momentum) {
    for (u64 item = first_item(); item < 2 * static_cast<u64>(columns); item += items_apart()) {
        const f32 count = statistics[item < columns ? 0 : 1];
        if (count > 0.0f) {
            state[item] += momentum * (statistics[2 + item] / count - state[item]);
        }
    }
}

// The normalized values, times the scale, plus the shift. // (rows, columns)
KERNEL_LANES(dense_batch_norm, IN(float) input, IN(float) moments, IN(float) scale,
             IN(float) shift, OUT(float) output, u32 rows, u32 slot_rows, u32 columns,
             u32 stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u32 column = place.remainder;
        const Moments of = moments_of(moments, place.quotient / slot_rows, columns, column);
        const f32 x = input[element(place.quotient, stride, column)];
        output[item] = scale[column] * of.inverse * (x - of.mean) + shift[column];
    }
}

// The gradients of scale and shift of each block. // [columns | columns]
KERNEL_LANES(dense_batch_norm_sums, IN(float) input, IN(float) moments, IN(float) d_output,
             IN(u32) rows_of, OUT(float) gradients, u32 blocks, u32 slot_rows, u32 columns,
             u32 stride, u64 apart) {
    const u64 total = static_cast<u64>(blocks) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 block = place.quotient;
        const u32 column = place.remainder;
        const Moments of = moments_of(moments, block, columns, column);
        const u64 first = block * slot_rows;
        f32 d_scale = 0.0f;
        f32 d_shift = 0.0f;
        for (u32 row = 0; row < rows_of[block]; ++row) {
            const f32 d = d_output[element(first + row, columns, column)];
            d_scale += d * (input[element(first + row, stride, column)] - of.mean);
            d_shift += d;
        }
        f32* to = gradients + block * apart + column;
        to[0] = d_scale * of.inverse;
        to[columns] = d_shift;
    }
}

// The gradient of the first `wanted` columns of the input, from the gradients of scale and shift.
KERNEL_LANES(dense_batch_norm_to_input, IN(float) input, IN(float) moments, IN(float) scale,
             IN(float) d_output, IN(float) gradients, IN(u32) rows_of, INOUT(float) d_input,
             u32 rows, u32 slot_rows, u32 columns, u32 stride, u64 apart, u32 wanted,
             u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 row = place.quotient;
        const u32 column = place.remainder;
        const u64 block = row / slot_rows;
        const Moments of = moments_of(moments, block, columns, column);
        const f32* sums = gradients + block * apart + column;
        const f32 count = static_cast<f32>(rows_of[block]);
        const f32 slope = sums[0] / count * of.inverse;
        const f32 offset = sums[columns] / count;
        const f32 deviation = input[element(row, stride, column)] - of.mean;
        const f32 centered = d_output[element(row, columns, column)] - offset - deviation * slope;
        put(d_input + element(row, d_stride, column), scale[column] * of.inverse * centered, adds);
    }
}

// Each value times a + (1 - a) p, with a slope a and the logistic function p of the normalized
// value, which is kept. // (rows, columns)
KERNEL_LANES(dense_dice, IN(float) input, IN(float) moments, IN(float) slopes, OUT(float) output,
             OUT(float) kept, u32 rows, u32 slot_rows, u32 columns, u32 stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u32 column = place.remainder;
        const Moments of = moments_of(moments, place.quotient / slot_rows, columns, column);
        const f32 x = input[element(place.quotient, stride, column)];
        const f64 normal = static_cast<f64>((x - of.mean) * of.inverse);
        const f32 p = static_cast<f32>(smooth_sigmoid(normal));
        const f32 a = slopes[column];
        kept[item] = p;
        output[item] = x * (a + (1.0f - a) * p);
    }
}

// The gradient of a value's normalized value.
DEVICE f32 d_normal_of(f32 d, f32 x, f32 a, f32 p) {
    return d * x * (1.0f - a) * (p * (1.0f - p));
}

// For each block the gradients of slopes, and two sums over its examples: the gradients of the
// normalized values, and their products with these values.
// // gradients: [columns]; sums: (blocks, 2, columns)
KERNEL_LANES(dense_dice_sums, IN(float) input, IN(float) moments, IN(float) slopes, IN(float) kept,
             IN(float) d_output, IN(u32) rows_of, OUT(float) gradients, OUT(float) sums,
             u32 blocks, u32 slot_rows, u32 columns, u32 stride, u64 apart) {
    const u64 total = static_cast<u64>(blocks) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 block = place.quotient;
        const u32 column = place.remainder;
        const Moments of = moments_of(moments, block, columns, column);
        const u64 first = block * slot_rows;
        f32 d_slope = 0.0f;
        f32 sum = 0.0f;
        f32 square = 0.0f;
        for (u32 row = 0; row < rows_of[block]; ++row) {
            const u64 at = element(first + row, columns, column);
            const f32 x = input[element(first + row, stride, column)];
            const f32 d = d_output[at];
            const f32 p = kept[at];
            const f32 d_normal = d_normal_of(d, x, slopes[column], p);
            d_slope += d * x * (1.0f - p);
            sum += d_normal;
            square += d_normal * ((x - of.mean) * of.inverse);
        }
        gradients[block * apart + column] = d_slope;
        f32* to = sums + 2 * block * columns + column;
        to[0] = sum;
        to[columns] = square;
    }
}

// The gradient of the first `wanted` columns of the input of Dice.
KERNEL_LANES(dense_dice_to_input, IN(float) input, IN(float) moments, IN(float) slopes,
             IN(float) kept, IN(float) d_output, IN(float) sums, IN(u32) rows_of,
             INOUT(float) d_input, u32 rows, u32 slot_rows, u32 columns, u32 stride, u32 wanted,
             u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 row = place.quotient;
        const u32 column = place.remainder;
        const u64 block = row / slot_rows;
        const u64 at = element(row, columns, column);
        const Moments of = moments_of(moments, block, columns, column);
        const f32* of_block = sums + 2 * block * columns + column;
        const f32 count = static_cast<f32>(rows_of[block]);
        const f32 x = input[element(row, stride, column)];
        const f32 d = d_output[at];
        const f32 p = kept[at];
        const f32 a = slopes[column];
        const f32 normal = (x - of.mean) * of.inverse;
        const f32 centered = d_normal_of(d, x, a, p) - of_block[0] / count -
                             normal * (of_block[columns] / count);
        put(d_input + element(row, d_stride, column),
            d * (a + (1.0f - a) * p) + of.inverse * centered, adds);
    }
}
