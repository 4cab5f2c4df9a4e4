// The dot products of all pairs of an example's vectors, and their gradients. Vectors are read of
// one matrix, and of another after it. Bound by reads of the first-level cache: a thread has a pair
// or a lane, and an example's vectors are read over and over.
//
// They are no products of matrices for the device's library: half of each would be thrown away, and
// sums here are those of the processor, in the order of lanes.

#include "dense.h"

// The vectors of an example.
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

// Pairs before those whose later vector is number `index`.
DEVICE u32 triangle(u32 index) {
    return index * (index - 1) / 2;
}

// The later vector of pair number `pair`.
DEVICE u32 later_of(u32 pair) {
    u32 index = static_cast<u32>((1.0f + sqrtf(1.0f + 8.0f * static_cast<f32>(pair))) / 2.0f);
    // Rounding may have led to a neighbour.
    while (triangle(index) > pair) {
        --index;
    }
    while (triangle(index + 1) <= pair) {
        ++index;
    }
    return index;
}

// Pair i < j stands at j (j - 1) / 2 + i. // (rows, pairs)
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

// The gradient of the first `wanted` columns of the input that begins with vector `from`: of each
// vector the sum of the others times their pairs' gradients, in their order.
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
