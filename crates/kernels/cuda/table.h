// A hash table from 64-bit keys to 32-bit values: open addressing with linear probing, which works
// until every place is taken.
//
// ```text
// keys     [ place 0 ] ... [ place capacity - 1 ][ of key EMPTY ][ of key REMOVED ]
// values   [       the same places, NONE without a key                            ]
// ```
//
// A place holds its key, EMPTY or REMOVED. The two keys with the same bits as these marks each have
// a dedicated place after the others, which is EMPTY or TAKEN. A search starts at the place given
// by the key's hash and ends at the key, at an EMPTY place, or after all places.
//
// Removed keys leave their places REMOVED, so that searches continue past them. An insertion reuses
// such a place; but two equal keys of one launch could take different ones, so the keys of a launch
// that inserts into a table with REMOVED places must be distinct.
#pragma once

#include "prelude.h"

#define EMPTY 0xffffffffffffffffull
#define REMOVED 0xfffffffffffffffeull
#define TAKEN 0ull

// Number of dedicated places, in addition to `capacity`.
#define OWN_PLACES 2

// The finalizer of SplitMix64.
DEVICE u64 scatter(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

// The place where the search for a key starts; works for any capacity.
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

// The place of a key; NONE if it is missing.
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
    // NONE if the table is full.
    u32 place;
    bool is_new;
};

// Claims for `key` the first place without a key, from `place` on.
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

// Finds the place of a key, or claims one for it.
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
    // The key is missing: it takes the first REMOVED place or one after it.
    return removed == NONE ? Claim{NONE, false} : claim_from(keys, capacity, key, removed);
}
