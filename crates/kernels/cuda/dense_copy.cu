// Columns of one matrix into those of another, side by side or added up, and back. Bound by the
// device's memory.

#include "dense.h"

// `to` becomes `from`, or has it added; both begin at the first column that is meant.
KERNEL_LANES(dense_copy, IN(float) from, INOUT(float) to, u32 rows, u32 columns, u32 from_stride,
             u32 to_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const f32 value = from[element(place.quotient, from_stride, place.remainder)];
        put(to + element(place.quotient, to_stride, place.remainder), value, adds);
    }
}

// `to` becomes zero.
KERNEL_LANES(dense_clear, OUT(float) to, u32 rows, u32 columns, u32 to_stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        to[element(place.quotient, to_stride, place.remainder)] = 0.0f;
    }
}
