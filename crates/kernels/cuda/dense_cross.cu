// The elementwise parts of a cross layer y = x0 * (p + b) + x; the matrix product p is computed
// elsewhere. Bound by memory bandwidth.

#include "dense.h"

// The output y. // (rows, columns)
KERNEL_LANES(dense_cross, IN(float) base, IN(float) product, IN(float) bias, IN(float) input,
             OUT(float) output, u32 rows, u32 columns, u32 base_stride, u32 input_stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u32 column = place.remainder;
        const f32 x0 = base[element(place.quotient, base_stride, column)];
        const f32 x = input[element(place.quotient, input_stride, column)];
        output[item] = x0 * (product[item] + bias[column]) + x;
    }
}

// The gradient of the first `wanted` columns of x0: dy * (p + b).
KERNEL_LANES(dense_cross_to_base, IN(float) product, IN(float) bias, IN(float) d_output,
             INOUT(float) d_base, u32 rows, u32 columns, u32 wanted, u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 at = element(place.quotient, columns, place.remainder);
        const f32 value = d_output[at] * (product[at] + bias[place.remainder]);
        put(d_base + element(place.quotient, d_stride, place.remainder), value, adds);
    }
}

// Turns the gradient of the output into that of the product: dp = dy * x0.
KERNEL_LANES(dense_cross_to_product, IN(float) base, INOUT(float) gradient, u32 rows, u32 columns,
             u32 base_stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        gradient[item] *= base[element(place.quotient, base_stride, place.remainder)];
    }
}
