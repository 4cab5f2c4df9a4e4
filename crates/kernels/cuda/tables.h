// Descriptors of tables. src/layout.rs has the Rust twins and documents the fields.
#pragma once

#include "prelude.h"

#define STORAGE_F32 0
#define STORAGE_F16 1
#define STORAGE_BF16 2

#define RULE_SGD 0
#define RULE_ADAGRAD 1
#define RULE_ADAM 2
#define RULE_MOMENTUM 3
#define RULE_FTRL 4

// A row with more bags than this is updated by a block of threads.
#define FREQUENT_BAGS 32

// Number of f32 weights that a thread updates.
#define UNIT_WEIGHTS 4

struct PoolTable {
    u64 slab;
    u32 row_lanes;
    u32 slots;
    u32 occurrence_rows;
    u32 ends;
    u32 factors;
    u32 fields;
    u32 dim;
    u32 wide;
    u32 storage;
    u32 padding;
};

struct UpdateTable {
    u64 slab;
    u64 sums;
    f64 lr;
    f64 beta1;
    f64 beta2;
    f32 rate;
    f32 eps;
    u32 first_item;
    u32 rows;
    u32 row_lanes;
    u32 slots;
    u32 bag_ends;
    u32 bags;
    u32 bag_factors;
    u32 fields;
    u32 columns;
    u32 dim;
    u32 wide;
    u32 storage;
    u32 rule;
    u32 rounding;
    u32 skip;
    u32 block_ends;
    u32 blocks;
    u32 first_block;
    u32 frequent;
    u32 frequent_rows;
    f32 l1;
    f32 l2;
    f32 keep;
    u32 regularized;
};

// A list of a mini-batch, in words.
struct List {
    const u32* words;

    DEVICE_MEMBER u32 operator[](u64 index) const { return words[index]; }
    DEVICE_MEMBER f32 number(u64 index) const { return __uint_as_float(words[index]); }
    DEVICE_MEMBER u64 wide(u64 index) const { return word_pair(words + 2 * index); }
    // In a list of ends: the start of the range whose end is at `index`.
    DEVICE_MEMBER u32 before(u64 index) const { return index == 0 ? 0 : words[index - 1]; }
};

DEVICE List list_at(const u32* lists, u32 offset) {
    return List{lists + offset};
}
