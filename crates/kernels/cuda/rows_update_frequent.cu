// Updates rows that occur often, with one block of threads for each.
//
// A single thread that adds the bags of a row waits for its reads, and one row may have most of the
// bags of a mini-batch. Since the sums of a mini-batch's blocks are separate anyway, each warp sums
// one of these blocks at a time, with one lane per weight. The lanes of a warp first look up one
// bag each; then the reads of all their gradients overlap. Bound by the latency of these rounds, of
// 32 bags each.

#include "update.h"

#define LANES 32
#define WARPS 8
#define WHOLE_WARP 0xffffffff

// A frequent row and its table.
struct Frequent {
    const UpdateTable* table;
    u32 row;
};

DEVICE Frequent frequent_at(const UpdateTable* tables, const u32* lists, u32 number) {
    const UpdateTable* table = tables;
    while (number >= table->frequent_rows) {
        number -= table->frequent_rows;
        ++table;
    }
    return Frequent{table, list_at(lists, table->frequent)[number]};
}

// Index of the first of a row's bags `begin` to `end`, which ascend, that belongs to `example` or a
// later example; `end` if there is none.
DEVICE u32 first_of(const List& bags, u32 begin, u32 end, u64 example, u32 fields) {
    while (begin < end) {
        const u32 middle = begin + (end - begin) / 2;
        if (bags[middle] < example * fields) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// Bags that a warp has looked up, one per lane; in shared memory.
struct Known {
    u32* examples;
    u32* columns;
    f32* factors;
};

// The gradient of weight `weight`, summed over bags `begin` to `end` in order; at least one bag.
DEVICE f32 sum_by_warp(const UpdateTable& table, const u32* lists, const Gradients& gradients,
                       const Known& known, u32 begin, u32 end, u32 weight) {
    const List bags = list_at(lists, table.bags);
    const List columns = list_at(lists, table.columns);
    const u32 lane = threadIdx.x % LANES;
    const bool has_factors = table.bag_factors != NONE;
    const bool is_first_order = weight >= table.dim;
    f32 sum = 0.0f;
    for (u32 at = begin; at < end; at += LANES) {
        __syncwarp(WHOLE_WARP);
        // Lanes past the end repeat the last bag; it is not added again.
        const u32 own = min(at + lane, end - 1);
        const u32 bag = bags[own];
        known.examples[lane] = bag / table.fields;
        known.columns[lane] = columns[bag % table.fields];
        known.factors[lane] =
            has_factors ? list_at(lists, table.bag_factors).number(own) : 1.0f;
        __syncwarp(WHOLE_WARP);
        f32 read[LANES];
        UNROLL
        for (u32 i = 0; i < LANES; ++i) {
            const u64 example = known.examples[i];
            const f32* from = is_first_order
                                  ? gradients.d_first_order + example
                                  : gradients.d_x + example * gradients.columns +
                                        known.columns[i] + weight;
            read[i] = *from;
        }
        UNROLL
        for (u32 i = 0; i < LANES; ++i) {
            if (at + i < end) {
                const f32 value = has_factors ? read[i] * known.factors[i] : read[i];
                sum = at + i == begin ? value : sum + value;
            }
        }
    }
    return sum;
}

// Updates the frequent rows of all tables, one block of threads per row.
KERNEL_BLOCK(rows_update_frequent, 256, INOUT(float) rows, IN(u32) lists, IN(UpdateTable) tables,
             u32 tables_count, u32 frequent_rows, IN(float) d_x, u32 columns,
             IN(float) d_first_order, u32 examples) {
    static_cast<void>(tables_count);
    static_cast<void>(frequent_rows);
    static_cast<void>(examples);
    SHARED(u32, known_examples, WARPS * LANES);
    SHARED(u32, known_columns, WARPS * LANES);
    SHARED(f32, known_factors, WARPS * LANES);
    SHARED(f32, sums, WARPS * LANES);
    SHARED(u32, has_bags, WARPS);
    const Gradients gradients = {d_x, columns, d_first_order};
    const Frequent frequent = frequent_at(tables, lists, blockIdx.x);
    const UpdateTable& table = *frequent.table;
    f32* row = row_to_update(table, lists, rows, frequent.row);
    if (row == nullptr) {
        return;
    }
    const u32 warp = threadIdx.x / LANES;
    const u32 lane = threadIdx.x % LANES;
    const Known known = {known_examples + warp * LANES, known_columns + warp * LANES,
                         known_factors + warp * LANES};
    const List bags = list_at(lists, table.bags);
    const List ends = list_at(lists, table.bag_ends);
    const List block_ends = list_at(lists, table.block_ends);
    const u32 begin = ends.before(frequent.row);
    const u32 end = ends[frequent.row];
    const u32 width = table.dim + table.wide;
    for (u32 first = 0; first < width; first += LANES) {
        const u32 weights = min(LANES, width - first);
        // Lanes without a weight repeat the last one.
        const u32 weight = min(first + lane, width - 1);
        Tree<1> tree;
        tree.depth = 0;
        for (u32 blocks = 0; blocks < table.blocks; blocks += WARPS) {
            const u32 block = blocks + warp;
            const bool is_there = block < table.blocks;
            const u32 from = is_there ? first_of(bags, begin, end, block_ends.before(block),
                                                 table.fields)
                                      : end;
            const u32 to =
                is_there ? first_of(bags, from, end, block_ends[block], table.fields) : end;
            f32 sum = 0.0f;
            if (from < to) {
                sum = sum_by_warp(table, lists, gradients, known, from, to, weight);
            }
            sums[threadIdx.x] = sum;
            if (lane == 0) {
                has_bags[warp] = from < to ? 1 : 0;
            }
            __syncthreads();
            for (u32 i = 0; i < WARPS && warp == 0; ++i) {
                if (has_bags[i] != 0) {
                    tree.put(table.first_block + blocks + i, Sum<1>{{sums[i * LANES + lane]}});
                }
            }
            __syncthreads();
        }
        if (warp == 0) {
            sums[lane] = tree.total().of[0];
        }
        __syncthreads();
        const bool is_f32 = table.storage == STORAGE_F32;
        const u32 units = is_f32 ? weights : (weights + 1) / 2;
        if (threadIdx.x < units && is_f32) {
            step_weights(table, row, first + threadIdx.x, Sum<1>{{sums[threadIdx.x]}});
        } else if (threadIdx.x < units) {
            const u32 low = 2 * threadIdx.x;
            const Sum<2> pair = {{sums[low], low + 1 < weights ? sums[low + 1] : 0.0f}};
            step_pair(table, lists, row, frequent.row, first / 2 + threadIdx.x, pair);
        }
        __syncthreads();
    }
}
