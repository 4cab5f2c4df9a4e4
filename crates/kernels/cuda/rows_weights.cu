// Decodes the weights of rows to f32, or encodes them from it. Bound by memory bandwidth.

#include "storage.h"

// Decodes the first `width` weights of the row in slot lists[slots + i] to row i of `to`.
KERNEL_LANES(rows_weights, IN(float) rows, OUT(float) to, IN(u32) lists, u64 slab, u32 slots,
             u32 count, u32 row_lanes, u32 storage, u32 width) {
    const List places = list_at(lists, slots);
    const u64 total = static_cast<u64>(count) * width;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, width);
        const u32 slot = places[place.quotient];
        if (slot != NONE) {
            const f32* row = rows + slab + static_cast<u64>(slot) * row_lanes;
            to[item] = weight_at(row, storage, place.remainder);
        }
    }
}

// Encodes row i of `from` as the first `width` weights of the row in slot lists[slots + i], rounded
// by the random stream whose state is item i of the list `rounding`.
KERNEL_LANES(rows_set_weights, IN(float) from, INOUT(float) rows, IN(u32) lists, u64 slab,
             u32 slots, u32 count, u32 row_lanes, u32 storage, u32 width, u32 rounding) {
    const List places = list_at(lists, slots);
    const u32 lanes = lanes_of(storage, width);
    const u64 total = static_cast<u64>(count) * lanes;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, lanes);
        const u32 slot = places[place.quotient];
        if (slot == NONE) {
            continue;
        }
        const u32 lane = place.remainder;
        const f32* weights = from + place.quotient * width;
        f32* to = rows + slab + static_cast<u64>(slot) * row_lanes + lane;
        if (storage == STORAGE_F32) {
            *to = weights[lane];
            continue;
        }
        u64 random = 0;
        if (rounding != NONE) {
            random = random_at(list_at(lists, rounding).wide(place.quotient), lane);
        }
        const bool has_second = 2 * lane + 1 < width;
        const f32 second = has_second ? weights[2 * lane + 1] : 0.0f;
        *to = encode_pair(weights[2 * lane], second, has_second, storage, random);
    }
}
