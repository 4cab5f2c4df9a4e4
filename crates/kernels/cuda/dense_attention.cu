// Attention of a target to a sequence, the activation unit of DIN. The steps of all examples of a
// block that count are packed, in order: so products have few rows of padding, which is zero where
// it is summed. Bound by products of matrices, which are not here, and by memory bandwidth.
//
// Packed matrices have `places` rows for each block.

#include "dense.h"
#include "lane_sums.h"
#include "sequence.h"
#include "smooth.h"

// The sums of weights that meet the same values: A for the target, and B for a step and its product
// with the target, from the weight [ q | s | q - s | q s ]. // A: (hidden, dim), B: (hidden, 2 dim)
KERNEL_LANES(dense_attention_weights, IN(float) weight, OUT(float) a, OUT(float) b, u32 hidden,
             u32 dim) {
    const u64 total = static_cast<u64>(hidden) * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        const f32* of = weight + place.quotient * 4 * dim + place.remainder;
        a[item] = of[0] + of[2 * dim];
        f32* to = b + place.quotient * 2 * dim + place.remainder;
        to[0] = of[dim] - of[2 * dim];
        to[dim] = of[3 * dim];
    }
}

// The place of each example's first step among its block's, and for each block the number of steps
// after all examples.
KERNEL_LANES(dense_attention_places, IN(float) lengths, IN(u32) rows_of, OUT(u32) firsts,
             OUT(u32) counts, u32 blocks, u32 slot_rows, u32 stride, u32 steps_max) {
    for (u64 block = first_item(); block < blocks; block += items_apart()) {
        u32 count = 0;
        for (u32 row = 0; row < slot_rows; ++row) {
            const u64 at = block * slot_rows + row;
            firsts[at] = count;
            if (row < rows_of[block]) {
                count += steps_of(lengths[element(at, stride, 0)], steps_max);
            }
        }
        counts[block] = count;
    }
}

// A step of an example, if it counts, and its row in packed matrices.
struct Step {
    u64 row;
    u32 step;
    u64 at;
    bool counts;
};

DEVICE Step step_at(u64 item, const f32* lengths, const u32* firsts, const u32* rows_of,
                    u32 slot_rows, u32 stride, u32 steps_max) {
    const Divided place = divide(item, steps_max);
    const Divided of_block = divide(place.quotient, slot_rows);
    const u64 places = static_cast<u64>(slot_rows) * steps_max;
    const u32 steps = steps_of(lengths[element(place.quotient, stride, 0)], steps_max);
    const u64 at = of_block.quotient * places + firsts[place.quotient] + place.remainder;
    const bool is_example = of_block.remainder < rows_of[of_block.quotient];
    return Step{place.quotient, place.remainder, at, is_example && place.remainder < steps};
}

// The steps of an example that count, from row `first` of packed matrices on.
struct Steps {
    u64 first;
    u32 count;
};

DEVICE Steps steps_at(u64 row, const f32* lengths, const u32* firsts, const u32* rows_of,
                      u32 slot_rows, u32 stride, u32 steps_max) {
    const Step first =
        step_at(row * steps_max, lengths, firsts, rows_of, slot_rows, stride, steps_max);
    const u32 steps = steps_of(lengths[element(row, stride, 0)], steps_max);
    return Steps{first.at, first.counts ? steps : 0};
}

// The features of each step that counts: its vector, and its product with the target.
KERNEL_LANES(dense_attention_features, IN(float) target, IN(float) vectors, IN(float) lengths,
             IN(u32) firsts, IN(u32) rows_of, OUT(float) features, u32 rows, u32 slot_rows,
             u32 dim, u32 steps_max, u32 target_stride, u32 vectors_stride, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * steps_max;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Step of =
            step_at(item, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        if (!of.counts) {
            continue;
        }
        const f32* q = target + element(of.row, target_stride, 0);
        const f32* s =
            vectors + element(of.row, vectors_stride, static_cast<u64>(of.step) * dim);
        f32* to = features + of.at * 2 * dim;
        for (u32 lane = 0; lane < dim; ++lane) {
            to[lane] = s[lane];
            to[dim + lane] = q[lane] * s[lane];
        }
    }
}

// The hidden layer of each step, in place of its products, and the step's weight in the sum.
// `of_targets` has the part of each example's target. // hidden: (places, hidden)
KERNEL_LANES(dense_attention_hidden, INOUT(float) hidden, IN(float) of_targets, IN(float) weight,
             IN(float) lengths, IN(u32) firsts, IN(u32) rows_of, OUT(float) parts, u32 rows,
             u32 slot_rows, u32 width, u32 steps_max, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * steps_max;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Step of =
            step_at(item, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        if (!of.counts) {
            continue;
        }
        f32* h = hidden + of.at * width;
        const f32* u = of_targets + of.row * width;
        for (u32 lane = 0; lane < width; ++lane) {
            h[lane] = 1.0f / (1.0f + smooth_exp_f32(-(h[lane] + u[lane])));
        }
        // The bias follows the weight.
        parts[of.at] = dot_of_lanes(width, h, weight) + weight[width];
    }
}

// The sum of an example's vectors, each times its weight. // (rows, dim)
KERNEL_LANES(dense_attention_sum, IN(float) vectors, IN(float) parts, IN(float) lengths,
             IN(u32) firsts, IN(u32) rows_of, OUT(float) output, u32 rows, u32 slot_rows, u32 dim,
             u32 steps_max, u32 vectors_stride, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        const u64 row = place.quotient;
        const Steps of =
            steps_at(row, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        f32 sum = 0.0f;
        for (u32 step = 0; step < of.count; ++step) {
            const u64 lane = static_cast<u64>(step) * dim + place.remainder;
            sum += parts[of.first + step] * vectors[element(row, vectors_stride, lane)];
        }
        output[item] = sum;
    }
}

// The gradients of each step's weight in the sum and of its hidden sums.
KERNEL_LANES(dense_attention_backward, IN(float) vectors, IN(float) hidden, IN(float) weight,
             IN(float) d_output, IN(float) lengths, IN(u32) firsts, IN(u32) rows_of,
             OUT(float) d_parts, OUT(float) d_hidden, u32 rows, u32 slot_rows, u32 dim, u32 width,
             u32 steps_max, u32 vectors_stride, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * steps_max;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Step of =
            step_at(item, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        if (!of.counts) {
            continue;
        }
        const f32* s =
            vectors + element(of.row, vectors_stride, static_cast<u64>(of.step) * dim);
        const f32 d = dot_of_lanes(dim, d_output + of.row * dim, s);
        d_parts[of.at] = d;
        const f32* h = hidden + of.at * width;
        f32* to = d_hidden + of.at * width;
        for (u32 lane = 0; lane < width; ++lane) {
            to[lane] = d * weight[lane] * h[lane] * (1.0f - h[lane]);
        }
    }
}

// The gradient of each target's part: the sum over the example's steps. // (rows, width)
KERNEL_LANES(dense_attention_to_targets, IN(float) d_hidden, IN(float) lengths, IN(u32) firsts,
             IN(u32) rows_of, OUT(float) d_of_targets, u32 rows, u32 slot_rows, u32 width,
             u32 steps_max, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * width;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, width);
        const u64 row = place.quotient;
        const Steps of =
            steps_at(row, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        f32 sum = 0.0f;
        for (u32 step = 0; step < of.count; ++step) {
            sum += d_hidden[(of.first + step) * width + place.remainder];
        }
        d_of_targets[item] = sum;
    }
}

// The gradients of the weight and the bias of the last sum in each block, over its steps in order.
KERNEL_LANES(dense_attention_to_weight, IN(float) hidden, IN(float) d_parts, IN(u32) counts,
             OUT(float) gradients, u32 blocks, u32 places, u32 width, u64 apart) {
    const u64 total = static_cast<u64>(blocks) * (width + 1);
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, width + 1);
        const u64 block = place.quotient;
        const u32 lane = place.remainder;
        f32 sum = 0.0f;
        for (u32 step = 0; step < counts[block]; ++step) {
            const u64 at = block * places + step;
            const f32 d = d_parts[at];
            sum += lane == width ? d : d * hidden[at * width + lane];
        }
        gradients[block * apart + lane] = sum;
    }
}

// The gradient of the hidden weight in each block, from those of A and B.
KERNEL_LANES(dense_attention_divide, IN(float) d_a, IN(float) d_b, OUT(float) gradients, u32 blocks,
             u32 hidden, u32 dim, u64 apart) {
    const u64 total = static_cast<u64>(blocks) * hidden * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        const Divided of_block = divide(place.quotient, hidden);
        const f32* b = d_b + place.quotient * 2 * dim + place.remainder;
        const u64 row = static_cast<u64>(of_block.remainder) * 4 * dim;
        f32* to = gradients + of_block.quotient * apart + row + place.remainder;
        to[0] = d_a[item];
        to[dim] = b[0];
        to[2 * dim] = d_a[item] - b[0];
        to[3 * dim] = b[dim];
    }
}

// The gradients of the targets by the features. // (rows, dim)
KERNEL_LANES(dense_attention_to_target, IN(float) vectors, IN(float) d_features,
             IN(float) lengths, IN(u32) firsts, IN(u32) rows_of, OUT(float) d_targets, u32 rows,
             u32 slot_rows, u32 dim, u32 steps_max, u32 vectors_stride, u32 lengths_stride) {
    const u64 total = static_cast<u64>(rows) * dim;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, dim);
        const u64 row = place.quotient;
        const Steps of =
            steps_at(row, lengths, firsts, rows_of, slot_rows, lengths_stride, steps_max);
        f32 sum = 0.0f;
        for (u32 step = 0; step < of.count; ++step) {
            const f32 d = d_features[(of.first + step) * 2 * dim + dim + place.remainder];
            const u64 lane = static_cast<u64>(step) * dim + place.remainder;
            sum += d * vectors[element(row, vectors_stride, lane)];
        }
        d_targets[item] = sum;
    }
}

// The gradient of the first `wanted` columns of the vectors; that of steps past the length is zero.
KERNEL_LANES(dense_attention_to_vectors, IN(float) target, IN(float) parts, IN(float) d_features,
             IN(float) d_output, IN(float) lengths, IN(u32) firsts, IN(u32) rows_of,
             INOUT(float) d_vectors, u32 rows, u32 slot_rows, u32 dim, u32 steps_max,
             u32 target_stride, u32 lengths_stride, u32 wanted, u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 row = place.quotient;
        const u32 step = place.remainder / dim;
        const u32 lane = place.remainder % dim;
        const Step of = step_at(row * steps_max + step, lengths, firsts, rows_of, slot_rows,
                                lengths_stride, steps_max);
        f32* to = d_vectors + element(row, d_stride, place.remainder);
        const f32 before = adds != 0 ? *to : 0.0f;
        if (!of.counts) {
            *to = before;
            continue;
        }
        const f32* d = d_features + of.at * 2 * dim + lane;
        const f32 by_product = d[dim] * target[element(row, target_stride, lane)];
        *to = before + (d[0] + by_product + parts[of.at] * d_output[row * dim + lane]);
    }
}
