// Copies columns of one matrix into columns of another, overwriting or adding. Bound by memory
// bandwidth.

#include "dense.h"

// Copies `from` to `to`, or adds it; both point to the first column to process.
KERNEL_LANES(dense_copy, IN(float) from, INOUT(float) to, u32 rows, u32 columns, u32 from_stride,
             u32 to_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const f32 value = from[element(place.quotient, from_stride, place.remainder)];
        put(to + element(place.quotient, to_stride, place.remainder), value, adds);
    }
}

// Sets `to` to zero.
KERNEL_LANES(dense_clear, OUT(float) to, u32 rows, u32 columns, u32 to_stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        to[element(place.quotient, to_stride, place.remainder)] = 0.0f;
    }
}
