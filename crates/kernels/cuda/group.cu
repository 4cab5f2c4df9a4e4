// Groups occurrences of keys into rows: distinct keys in order of first occurrence, the row of each
// occurrence, and the bags of each row in example order. Bound by memory bandwidth; look-ups of
// keys are bound by memory latency.
//
// ```text
// keys ─► group_claim ─► places, firsts ─► group_mark ─► marks ─► exclusive sums ─► ranks
//      ─► group_rows ─► distinct, occurrence_rows
// ends ─► group_bags ─► bag of each occurrence
// occurrence_rows ─► stable sort (sort.cu) ─► sorted_rows, order
//      ─► group_ends ─► end of each row's bags;  group_take ─► bags, factors by row
// ```

#include "table.h"

// Claims a place for every key, xored with `salt`, in a table that table_clear prepared, and stores
// the first occurrence of each in `firsts`, the table's values. counters[0] counts occurrences that
// found no place: 0 if the capacity is at least the number of distinct keys.
KERNEL_LANES(group_claim, ATOMIC(u64) slots_keys, ATOMIC(u32) firsts, u32 capacity, IN(u64) keys,
             u64 salt, u32 count, OUT(u32) places, ATOMIC(u32) counters) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 place = claim_place(slots_keys, capacity, keys[item] ^ salt).place;
        places[item] = place;
        if (place == NONE) {
            atomicAdd(counters, 1);
        } else {
            atomicMin(firsts + place, static_cast<u32>(item));
        }
    }
}

// Writes 1 for every first occurrence, 0 for others.
KERNEL_LANES(group_mark, IN(u32) firsts, IN(u32) places, u32 count, OUT(u32) marks) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 place = places[item];
        marks[item] = place != NONE && firsts[place] == item ? 1 : 0;
    }
}

// The row of every occurrence and the key of every row; `ranks` are the exclusive sums of `marks`.
KERNEL_LANES(group_rows, IN(u32) firsts, IN(u32) places, IN(u32) ranks, IN(u64) keys, u64 salt,
             u32 count, OUT(u64) distinct, OUT(u32) occurrence_rows) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 place = places[item];
        if (place == NONE) {
            occurrence_rows[item] = NONE;
            continue;
        }
        const u32 first = firsts[place];
        const u32 row = ranks[first];
        occurrence_rows[item] = row;
        if (first == item) {
            distinct[row] = keys[item] ^ salt;
        }
    }
}

// The bag of every occurrence; `ends` has the end of each of `bags` bags.
KERNEL_LANES(group_bags, IN(u32) ends, u32 bags, u32 count, OUT(u32) bag_of) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        // Finds the first bag that ends after the occurrence.
        u32 low = 0;
        u32 high = bags;
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (ends[middle] <= item) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        bag_of[item] = low;
    }
}

// The end of each row's occurrences, which are sorted by row.
KERNEL_LANES(group_ends, IN(u32) sorted_rows, u32 count, OUT(u32) ends) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 row = sorted_rows[item];
        if (item + 1 == count || sorted_rows[item + 1] != row) {
            ends[row] = static_cast<u32>(item + 1);
        }
    }
}

// Copies word order[i] of `from` to word i of `to`.
KERNEL_LANES(group_take, IN(u32) order, IN(u32) from, u32 count, OUT(u32) to) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        to[item] = from[order[item]];
    }
}
