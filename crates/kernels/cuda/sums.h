// The gradient of a weight: the sum over the bags of its row, in a fixed order.
//
// Bags are added in example order within a block, and the blocks' sums by one fixed binary tree
// over all blocks of the mini-batch, without blocks in which the row does not occur. A thread keeps
// the sums of its own weights, in registers as long as rows occur in one block.
#pragma once

#include "storage.h"

// One per bit of a block's number, plus one.
#define SUMS_MAX 33
// Number of bags of a row whose gradients are read before any is added, so that reads overlap.
#define BAGS_AT_ONCE 8

// Gradients of a mini-batch, the input of all sums.
struct Gradients {
    const f32* d_x;
    u64 columns;
    const f32* d_first_order;
};

// The sums of `COUNT` consecutive weights of a row.
template <u32 COUNT>
struct Sum {
    f32 of[COUNT];

    DEVICE_MEMBER void add(const Sum& other) {
        UNROLL
        for (u32 i = 0; i < COUNT; ++i) {
            of[i] += other.of[i];
        }
    }
};

// A stack of partial sums of the tree. Two blocks join at the level of the highest bit in which
// their numbers differ. So before a block is pushed, the two topmost sums are joined as long as
// their level is below that of the topmost sum and the new block.
template <u32 COUNT>
struct Tree {
    Sum<COUNT> sums[SUMS_MAX];
    u32 numbers[SUMS_MAX];
    u32 depth;

    // Pushes the sum of block `number`, larger than the numbers before it.
    DEVICE_MEMBER void put(u32 number, const Sum<COUNT>& sum) {
        while (depth > 1 &&
               (numbers[depth - 2] ^ numbers[depth - 1]) < (numbers[depth - 1] ^ number)) {
            --depth;
            sums[depth - 1].add(sums[depth]);
        }
        sums[depth] = sum;
        numbers[depth++] = number;
    }

    // The sum of all blocks; zero if there are none.
    DEVICE_MEMBER Sum<COUNT> total() {
        if (depth == 0) {
            return Sum<COUNT>{};
        }
        while (depth > 1) {
            --depth;
            sums[depth - 1].add(sums[depth]);
        }
        return sums[0];
    }
};

// What `bag`, number `at` of the list of bags, adds to the gradient of weights from `weight` on.
template <u32 COUNT>
DEVICE Sum<COUNT> bag_gradient(const UpdateTable& table, const u32* lists,
                               const Gradients& gradients, u32 weight, u32 at, u32 bag) {
    const u32 example = bag / table.fields;
    const u32 field = bag % table.fields;
    const u64 column = list_at(lists, table.columns)[field];
    const f32* values = gradients.d_x + example * gradients.columns + column;
    const bool has_factor = table.bag_factors != NONE;
    const f32 factor = has_factor ? list_at(lists, table.bag_factors).number(at) : 1.0f;
    Sum<COUNT> sum;
    if (COUNT == 4 && weight + COUNT <= table.dim && is_aligned(values + weight, 16)) {
        const float4 four = *reinterpret_cast<const float4*>(values + weight);
        sum.of[0] = four.x;
        sum.of[1 % COUNT] = four.y;
        sum.of[2 % COUNT] = four.z;
        sum.of[3 % COUNT] = four.w;
    } else {
        UNROLL
        for (u32 i = 0; i < COUNT; ++i) {
            sum.of[i] = 0.0f;
            if (weight + i < table.dim) {
                sum.of[i] = values[weight + i];
            } else if (weight + i < table.dim + table.wide) {
                sum.of[i] = gradients.d_first_order[example];
            }
        }
    }
    if (has_factor) {
        UNROLL
        for (u32 i = 0; i < COUNT; ++i) {
            sum.of[i] *= factor;
        }
    }
    return sum;
}

// The sum over the bags of row `row`, for weights from `weight` on.
template <u32 COUNT>
DEVICE Sum<COUNT> sum_of(const UpdateTable& table, const u32* lists, const Gradients& gradients,
                         u32 row, u32 weight) {
    const List ends = list_at(lists, table.bag_ends);
    const List bags = list_at(lists, table.bags);
    const List block_ends = list_at(lists, table.block_ends);
    const u32 end = ends[row];
    u32 at = ends.before(row);
    Tree<COUNT> tree;
    tree.depth = 0;
    u32 block = 0;
    while (at < end) {
        u32 bag = bags[at];
        while (bag >= static_cast<u64>(block_ends[block]) * table.fields) {
            ++block;
        }
        const u64 block_end = static_cast<u64>(block_ends[block]) * table.fields;
        Sum<COUNT> sum = bag_gradient<COUNT>(table, lists, gradients, weight, at, bag);
        for (++at; at + BAGS_AT_ONCE <= end && bags[at + BAGS_AT_ONCE - 1] < block_end;
             at += BAGS_AT_ONCE) {
            Sum<COUNT> read[BAGS_AT_ONCE];
            UNROLL
            for (u32 i = 0; i < BAGS_AT_ONCE; ++i) {
                read[i] =
                    bag_gradient<COUNT>(table, lists, gradients, weight, at + i, bags[at + i]);
            }
            UNROLL
            for (u32 i = 0; i < BAGS_AT_ONCE; ++i) {
                sum.add(read[i]);
            }
        }
        for (; at < end && (bag = bags[at]) < block_end; ++at) {
            sum.add(bag_gradient<COUNT>(table, lists, gradients, weight, at, bag));
        }
        if (tree.depth == 0 && at == end) {
            return sum;
        }
        tree.put(table.first_block + block, sum);
    }
    return tree.total();
}
