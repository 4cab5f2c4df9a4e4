// Operations on the hash table (table.h), one thread per key. Bound by memory latency: a key reads
// one cache line, more if the table is nearly full.

#include "table.h"

// Makes an empty table of `capacity` places; both arrays have two more.
KERNEL_LANES(table_clear, OUT(u64) slots_keys, OUT(u32) values, u32 capacity) {
    const u64 places = static_cast<u64>(capacity) + OWN_PLACES;
    for (u64 place = first_item(); place < places; place += items_apart()) {
        slots_keys[place] = EMPTY;
        values[place] = NONE;
    }
}

// Inserts every key with its value, which is not NONE; a key already in the table keeps its value.
// `placed` gets the key's value after the insertion, NONE if the table is full. counters[0] counts
// new keys, counters[1] keys that found no place.
//
// Equal keys of one launch all get the value of one of them; which one is unspecified.
KERNEL_LANES(table_insert, ATOMIC(u64) slots_keys, ATOMIC(u32) values, u32 capacity, IN(u64) keys,
             IN(u32) new_values, u32 count, OUT(u32) placed, ATOMIC(u32) counters) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const Claim claim = claim_place(slots_keys, capacity, keys[item]);
        if (claim.place == NONE) {
            atomicAdd(counters + 1, 1);
            placed[item] = NONE;
            continue;
        }
        if (claim.is_new) {
            atomicAdd(counters, 1);
        }
        const u32 value = new_values[item];
        const u32 was = atomicCAS(values + claim.place, NONE, value);
        placed[item] = was == NONE ? value : was;
    }
}

// The value of every key; NONE if it is missing. counters[0] counts missing keys.
KERNEL_LANES(table_get, IN(u64) slots_keys, IN(u32) values, u32 capacity, IN(u64) keys, u32 count,
             OUT(u32) found, ATOMIC(u32) counters) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 place = find_place(slots_keys, capacity, keys[item]);
        found[item] = place == NONE ? NONE : values[place];
        if (place == NONE) {
            atomicAdd(counters, 1);
        }
    }
}

// Removes keys; `removed` gets the value that each had, NONE if it was missing. counters[0] counts
// removed keys. Searches still pass the places of removed keys: after many removals, rebuild the
// table with table_clear and table_insert before it becomes slow.
KERNEL_LANES(table_remove, ATOMIC(u64) slots_keys, ATOMIC(u32) values, u32 capacity, IN(u64) keys,
             u32 count, OUT(u32) removed, ATOMIC(u32) counters) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u64 key = keys[item];
        const u32 place = find_place(slots_keys, capacity, key);
        removed[item] = NONE;
        if (place == NONE) {
            continue;
        }
        const bool is_own = has_own_place(key);
        const u64 was = is_own ? TAKEN : key;
        // Only one of several equal keys succeeds.
        if (atomicCAS(slots_keys + place, was, is_own ? EMPTY : REMOVED) == was) {
            removed[item] = values[place];
            values[place] = NONE;
            atomicAdd(counters, 1);
        }
    }
}

// Adds row i of `vectors`, of `lanes` lanes, to the row of `sums` whose number is the value of key
// i. Keys of a launch, and their values, must be distinct, so each lane gets one addition per
// launch, in launch order. counters[0] counts missing keys.
KERNEL_LANES(table_accumulate, IN(u64) slots_keys, IN(u32) values, u32 capacity, IN(u64) keys,
             u32 count, IN(float) vectors, INOUT(float) sums, u32 lanes, ATOMIC(u32) counters) {
    const u64 total = static_cast<u64>(count) * lanes;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided at = divide(item, lanes);
        // Neighboring threads look up the same key, so a warp's reads coalesce.
        const u32 place = find_place(slots_keys, capacity, keys[at.quotient]);
        if (place != NONE) {
            sums[static_cast<u64>(values[place]) * lanes + at.remainder] += vectors[item];
        } else if (at.remainder == 0) {
            atomicAdd(counters, 1);
        }
    }
}
