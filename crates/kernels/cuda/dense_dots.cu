// Dot products of all pairs of an example's vectors, and their gradients. The vectors of an example
// come from two matrices: those of the first, then those of the second. Bound by reads from the
// first-level cache: each thread computes one pair or one lane, so vectors are read repeatedly.
//
// The device's matrix product is not used: half of each product would be discarded, and sums must
// match the processor's, which add in lane order.

#include "dense.h"

// All vectors of an example.
struct Vectors {
    const f32* first;
    const f32* second;
    u32 of_first;
    u32 dim;

    DEVICE_MEMBER const f32* at(u32 index) const {
        return index < of_first ? first + static_cast<u64>(index) * dim
                                : second + static_cast<u64>(index - of_first) * dim;
    }
};

// Number of pairs among the first `index` vectors.
DEVICE u32 triangle(u32 index) {
    return index * (index - 1) / 2;
}

// Index of the later vector of pair `pair`.
DEVICE u32 later_of(u32 pair) {
    u32 index = static_cast<u32>((1.0f + sqrtf(1.0f + 8.0f * static_cast<f32>(pair))) / 2.0f);
    // Rounding may be off by one.
    while (triangle(index) > pair) {
        --index;
    }
    while (triangle(index + 1) <= pair) {
        ++index;
    }
    return index;
}

// The pair (i, j), i < j, is output j (j - 1) / 2 + i. // (rows, pairs)
KERNEL_LANES(dense_dots, IN(float) first, IN(float) second, OUT(float) output, u32 rows,
             u32 vectors, u32 dim, u32 of_first, u32 first_stride, u32 second_stride) {
    const u32 pairs = triangle(vectors);
    const u64 total = static_cast<u64>(rows) * pairs;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, pairs);
        const Vectors of = {first + element(place.quotient, first_stride, 0),
                            second + element(place.quotient, second_stride, 0), of_first, dim};
        const u32 later = later_of(place.remainder);
        const f32* left = of.at(later);
        const f32* right = of.at(place.remainder - triangle(later));
        f32 sum = 0.0f;
        for (u32 lane = 0; lane < dim; ++lane) {
            sum += left[lane] * right[lane];
        }
        output[item] = sum;
    }
}

// The gradient of the first `wanted` columns, starting at vector `from`. For each vector it is the
// sum of all other vectors, each times the gradient of their pair, in vector order.
KERNEL_LANES(dense_dots_backward, IN(float) first, IN(float) second, IN(float) d_output,
             INOUT(float) d_input, u32 rows, u32 vectors, u32 dim, u32 of_first, u32 first_stride,
             u32 second_stride, u32 from, u32 wanted, u32 d_stride, u32 adds) {
    const u32 pairs = triangle(vectors);
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const Vectors of = {first + element(place.quotient, first_stride, 0),
                            second + element(place.quotient, second_stride, 0), of_first, dim};
        const f32* scales = d_output + element(place.quotient, pairs, 0);
        const u32 own = from + place.remainder / dim;
        const u32 lane = place.remainder % dim;
        f32 sum = 0.0f;
        for (u32 other = 0; other < own; ++other) {
            sum += scales[triangle(own) + other] * of.at(other)[lane];
        }
        for (u32 other = own + 1; other < vectors; ++other) {
            sum += scales[triangle(other) + own] * of.at(other)[lane];
        }
        put(d_input + element(place.quotient, d_stride, place.remainder), sum, adds);
    }
}
