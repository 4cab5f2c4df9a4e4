// Multi-head attention to a sequence: averages of its vectors, weighted by the softmax of their dot
// products with the query of each head. Bound by reads of the vectors.

#include "dense.h"
#include "lane_sums.h"
#include "sequence.h"
#include "smooth.h"

// The weight of each step in each head, and the weighted sums.
// // parts: (rows, heads, steps_max); output: (rows, heads, dim)
KERNEL_LANES(dense_heads, IN(float) queries, IN(float) vectors, IN(float) lengths,
             OUT(float) parts, OUT(float) output, u32 rows, u32 heads, u32 dim, u32 steps_max,
             u32 queries_stride, u32 vectors_stride, u32 lengths_stride, float scale) {
    const u64 total = static_cast<u64>(rows) * heads;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, heads);
        const u64 head = place.remainder;
        const u32 steps =
            steps_of(lengths[element(place.quotient, lengths_stride, 0)], steps_max);
        const f32* query = queries + element(place.quotient, queries_stride, head * dim);
        const f32* of_row = vectors + element(place.quotient, vectors_stride, 0);
        f32* weights = parts + item * steps_max;
        f32 most = -__uint_as_float(0x7f800000);
        for (u32 step = 0; step < steps; ++step) {
            const f32* vector = of_row + static_cast<u64>(step) * dim;
            weights[step] = dot_of_lanes(dim, query, vector) * scale;
            most = weights[step] > most ? weights[step] : most;
        }
        f32 sum = 0.0f;
        for (u32 step = 0; step < steps; ++step) {
            weights[step] = smooth_exp_f32(weights[step] - most);
            sum += weights[step];
        }
        for (u32 step = 0; step < steps; ++step) {
            weights[step] = weights[step] / sum;
        }
        for (u32 lane = 0; lane < dim; ++lane) {
            f32 mean = 0.0f;
            for (u32 step = 0; step < steps; ++step) {
                mean += weights[step] * of_row[static_cast<u64>(step) * dim + lane];
            }
            output[item * dim + lane] = mean;
        }
    }
}

// The gradients of the dot products and of the queries.
// // d_scores: (rows, heads, steps_max); d_queries: (rows, heads, dim)
KERNEL_LANES(dense_heads_backward, IN(float) vectors, IN(float) lengths, IN(float) parts,
             IN(float) d_output, OUT(float) d_scores, OUT(float) d_queries, u32 rows, u32 heads,
             u32 dim, u32 steps_max, u32 vectors_stride, u32 lengths_stride, float scale) {
    const u64 total = static_cast<u64>(rows) * heads;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const u64 row = divide(item, heads).quotient;
        const u32 steps = steps_of(lengths[element(row, lengths_stride, 0)], steps_max);
        const f32* of_row = vectors + element(row, vectors_stride, 0);
        const f32* weights = parts + item * steps_max;
        const f32* d = d_output + item * dim;
        f32* scores = d_scores + item * steps_max;
        f32 mean = 0.0f;
        for (u32 step = 0; step < steps; ++step) {
            const f32* vector = of_row + static_cast<u64>(step) * dim;
            scores[step] = dot_of_lanes(dim, d, vector);
            mean += weights[step] * scores[step];
        }
        for (u32 step = 0; step < steps; ++step) {
            scores[step] = weights[step] * (scores[step] - mean) * scale;
        }
        for (u32 lane = 0; lane < dim; ++lane) {
            f32 sum = 0.0f;
            for (u32 step = 0; step < steps; ++step) {
                sum += scores[step] * of_row[static_cast<u64>(step) * dim + lane];
            }
            d_queries[item * dim + lane] = sum;
        }
    }
}

// The gradient of the first `wanted` columns of the vectors; that of steps past the length is zero.
KERNEL_LANES(dense_heads_to_vectors, IN(float) queries, IN(float) lengths, IN(float) parts,
             IN(float) d_scores, IN(float) d_output, INOUT(float) d_vectors, u32 rows, u32 heads,
             u32 dim, u32 steps_max, u32 queries_stride, u32 lengths_stride, u32 wanted,
             u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 row = place.quotient;
        const u32 step = place.remainder / dim;
        const u32 lane = place.remainder % dim;
        const bool counts =
            step < steps_of(lengths[element(row, lengths_stride, 0)], steps_max);
        f32 sum = 0.0f;
        for (u32 head = 0; counts && head < heads; ++head) {
            const u64 of_head = row * heads + head;
            const u64 column = static_cast<u64>(head) * dim + lane;
            const f32 q = queries[element(row, queries_stride, column)];
            sum += parts[of_head * steps_max + step] * d_output[of_head * dim + lane] +
                   d_scores[of_head * steps_max + step] * q;
        }
        put(d_vectors + element(row, d_stride, place.remainder), sum, adds);
    }
}
