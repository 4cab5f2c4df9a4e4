// A hash table of keys of 64 bits with values of 32: open addressing by linear probing, good to the
// last place.
//
// ```text
// keys     [ place 0 ] ... [ place capacity - 1 ][ of key EMPTY ][ of key REMOVED ]
// values   [       the same places, NONE where there is no key                    ]
// ```
//
// A place holds its key, EMPTY or REMOVED. The two keys that would look like these marks have a
// place of their own behind the others, which is EMPTY or TAKEN. A search begins where the key's
// hash says and ends at the key, at an EMPTY place, or after all places.
//
// Keys that are removed leave their places REMOVED, so that searches go past them. An insertion
// takes such a place again; but of two equal keys in one launch each could take another, so keys
// of a launch that inserts into a table with REMOVED places must differ.
#pragma once

#include "prelude.h"

#define EMPTY 0xffffffffffffffffull
#define REMOVED 0xfffffffffffffffeull
#define TAKEN 0ull

// Places that there are, more than `capacity`.
#define OWN_PLACES 2

// The finalizer of SplitMix64.
DEVICE u64 scatter(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

// Where the search for a key begins: any capacity will do.
DEVICE u32 home_of(u64 key, u32 capacity) {
    return static_cast<u32>(((scatter(key) >> 32) * capacity) >> 32);
}

DEVICE u32 place_after(u32 place, u32 capacity) {
    return place + 1 == capacity ? 0 : place + 1;
}

DEVICE bool has_own_place(u64 key) {
    return key >= REMOVED;
}

DEVICE u32 own_place(u64 key, u32 capacity) {
    return capacity + (key == REMOVED ? 1 : 0);
}

// The place of a key; NONE where the table does not have it.
DEVICE u32 find_place(const u64* keys, u32 capacity, u64 key) {
    if (has_own_place(key)) {
        const u32 own = own_place(key, capacity);
        return atomic_load(keys + own) == EMPTY ? NONE : own;
    }
    u32 place = home_of(key, capacity);
    for (u32 seen = 0; seen < capacity; ++seen) {
        const u64 there = atomic_load(keys + place);
        if (there == key) {
            return place;
        }
        if (there == EMPTY) {
            return NONE;
        }
        place = place_after(place, capacity);
    }
    return NONE;
}

struct Claim {
    // NONE where the table is full.
    u32 place;
    bool is_new;
};

// Takes for `key` the first place from `place` on that has no key.
DEVICE Claim claim_from(u64* keys, u32 capacity, u64 key, u32 place) {
    for (u32 seen = 0; seen < capacity; ++seen) {
        const u64 there = atomic_load(keys + place);
        if (there == EMPTY || there == REMOVED) {
            const u64 was = atomicCAS(keys + place, there, key);
            if (was == there || was == key) {
                return Claim{place, was == there};
            }
        } else if (there == key) {
            return Claim{place, false};
        }
        place = place_after(place, capacity);
    }
    return Claim{NONE, false};
}

// The place of a key, which it takes where it has none.
DEVICE Claim claim_place(u64* keys, u32 capacity, u64 key) {
    if (has_own_place(key)) {
        const u32 own = own_place(key, capacity);
        return Claim{own, atomicCAS(keys + own, EMPTY, TAKEN) == EMPTY};
    }
    u32 removed = NONE;
    u32 place = home_of(key, capacity);
    for (u32 seen = 0; seen < capacity; ++seen) {
        u64 there = atomic_load(keys + place);
        if (there == EMPTY) {
            if (removed != NONE) {
                break;
            }
            there = atomicCAS(keys + place, EMPTY, key);
            if (there == EMPTY) {
                return Claim{place, true};
            }
        }
        if (there == key) {
            return Claim{place, false};
        }
        if (there == REMOVED && removed == NONE) {
            removed = place;
        }
        place = place_after(place, capacity);
    }
    // The key is nowhere: it takes a place that another left, or the next one.
    return removed == NONE ? Claim{NONE, false} : claim_from(keys, capacity, key, removed);
}
