// The hash table (table.h): a thread has a key. Bound by the latency of the device's memory: a key
// asks for one line of it, more where the table is nearly full.

#include "table.h"

// An empty table of `capacity` places; both arrays have two places more.
KERNEL_LANES(table_clear, OUT(u64) slots_keys, OUT(u32) values, u32 capacity) {
    const u64 places = static_cast<u64>(capacity) + OWN_PLACES;
    for (u64 place = first_item(); place < places; place += items_apart()) {
        slots_keys[place] = EMPTY;
        values[place] = NONE;
    }
}

// Puts in every key with its value, which is not NONE; a key that is there keeps the one that it
// has. `placed` gets the value that the key has now, NONE where the table is full. counters[0]
// counts keys that were new, counters[1] those for which there was no place.
//
// Equal keys of one launch all get the value of one of them, which one is not said.
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

// The value of every key; NONE where there is none. counters[0] counts those.
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

// Takes keys out; `removed` gets the value that each had, NONE where it was not there. counters[0]
// counts keys that were. Searches go on past the places that they had: a table of which many keys
// were removed is made anew, by table_clear and table_insert, before it becomes slow.
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
        // Of equal keys one goes on.
        if (atomicCAS(slots_keys + place, was, is_own ? EMPTY : REMOVED) == was) {
            removed[item] = values[place];
            values[place] = NONE;
            atomicAdd(counters, 1);
        }
    }
}

// Adds row i of `vectors`, of `lanes` lanes, to the row of `sums` whose number is the value of key
// i. Keys of a launch, and their values, differ, so that every lane has one sum: what launches add
// comes in their order. counters[0] counts keys that the table does not have.
KERNEL_LANES(table_accumulate, IN(u64) slots_keys, IN(u32) values, u32 capacity, IN(u64) keys,
             u32 count, IN(float) vectors, INOUT(float) sums, u32 lanes, ATOMIC(u32) counters) {
    const u64 total = static_cast<u64>(count) * lanes;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided at = divide(item, lanes);
        // Neighbouring threads ask for the same place: one access of a warp.
        const u32 place = find_place(slots_keys, capacity, keys[at.quotient]);
        if (place != NONE) {
            sums[static_cast<u64>(values[place]) * lanes + at.remainder] += vectors[item];
        } else if (at.remainder == 0) {
            atomicAdd(counters, 1);
        }
    }
}
