// Copies rows, or some lanes of each, between the slots of a slab and contiguous memory. Bound by
// memory bandwidth: a thread copies 16 bytes at a time if rows and buffers are aligned for it,
// otherwise 4.

#include "tables.h"

// Copies `pieces` pieces of each row, from `first_piece` on; into the slots if TO_SLOTS. Skips rows
// without a slot.
template <class Piece, bool TO_SLOTS>
DEVICE void move_pieces(Piece* dense, Piece* slab, List slots, u32 count, u32 row_pieces,
                        u32 first_piece, u32 pieces) {
    const u64 total = static_cast<u64>(count) * pieces;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, pieces);
        const u32 slot = slots[place.quotient];
        if (slot == NONE) {
            continue;
        }
        Piece* in_slab =
            slab + static_cast<u64>(slot) * row_pieces + first_piece + place.remainder;
        if (TO_SLOTS) {
            *in_slab = dense[item];
        } else {
            dense[item] = *in_slab;
        }
    }
}

template <bool TO_SLOTS>
DEVICE void move_rows(f32* dense, f32* rows, const u32* lists, u64 slab, u32 slots, u32 count,
                      u32 row_lanes, u32 first_lane, u32 lanes) {
    const List places = list_at(lists, slots);
    const bool in_fours = ((row_lanes | first_lane | lanes | slab) & 3) == 0;
    if (in_fours && is_aligned(dense, 16) && is_aligned(rows, 16)) {
        uint4* in_slab = reinterpret_cast<uint4*>(rows) + slab / 4;
        move_pieces<uint4, TO_SLOTS>(reinterpret_cast<uint4*>(dense), in_slab, places, count,
                                     row_lanes / 4, first_lane / 4, lanes / 4);
    } else {
        u32* in_slab = reinterpret_cast<u32*>(rows) + slab;
        move_pieces<u32, TO_SLOTS>(reinterpret_cast<u32*>(dense), in_slab, places, count,
                                   row_lanes, first_lane, lanes);
    }
}

// Copies row i of `staging` to slot lists[slots + i].
KERNEL_LANES(rows_up, IN(float) staging, INOUT(float) rows, IN(u32) lists, u64 slab, u32 slots,
             u32 count, u32 row_lanes) {
    move_rows<true>(const_cast<f32*>(staging), rows, lists, slab, slots, count, row_lanes, 0,
                    row_lanes);
}

// Copies the row in slot lists[slots + i] to row i of `staging`.
KERNEL_LANES(rows_down, IN(float) rows, OUT(float) staging, IN(u32) lists, u64 slab, u32 slots,
             u32 count, u32 row_lanes) {
    move_rows<false>(staging, const_cast<f32*>(rows), lists, slab, slots, count, row_lanes, 0,
                     row_lanes);
}

// Like rows_down, but copies only `lanes` lanes of each row, from `first_lane` on.
KERNEL_LANES(rows_read, IN(float) rows, OUT(float) to, IN(u32) lists, u64 slab, u32 slots,
             u32 count, u32 row_lanes, u32 first_lane, u32 lanes) {
    move_rows<false>(to, const_cast<f32*>(rows), lists, slab, slots, count, row_lanes, first_lane,
                     lanes);
}

// Like rows_up, but copies only `lanes` lanes of each row, from `first_lane` on.
KERNEL_LANES(rows_write, IN(float) from, INOUT(float) rows, IN(u32) lists, u64 slab, u32 slots,
             u32 count, u32 row_lanes, u32 first_lane, u32 lanes) {
    move_rows<true>(const_cast<f32*>(from), rows, lists, slab, slots, count, row_lanes, first_lane,
                    lanes);
}
