// The update of rows that occur often: a block of threads for each.
//
// A thread that adds the bags of a row one by one waits for each of its reads, and one row may have
// most of the bags of a mini-batch. So all threads of a block read the gradients of some bags at
// once, into shared memory, from where a thread for each weight adds them in their order: bound by
// as many additions, one after another, as the row has bags.

#include "update.h"

// Threads of a block.
#define FREQUENT_THREADS 256
// Bags whose gradients lie in shared memory at once, and weights of each.
#define PIECE_BAGS 128
#define PIECE_WEIGHTS 32
// Gradients that are on their way from there.
#define ADDED_AT_ONCE 8

// A frequent row: number `number` of those of all tables.
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

// The block that has a bag.
DEVICE u32 block_of(const UpdateTable& table, const u32* lists, u32 bag) {
    const List ends = list_at(lists, table.block_ends);
    u32 low = 0;
    u32 high = table.blocks;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (static_cast<u64>(ends[middle]) * table.fields <= bag) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The sum of one weight, of bags that come in their order.
struct Running {
    Tree<1> tree;
    Sum<1> sum;
    u32 block;

    DEVICE_MEMBER void add(f32 gradient, u32 of_block) {
        if (of_block == block) {
            sum.of[0] += gradient;
            return;
        }
        if (block != NONE) {
            tree.put(block, sum);
        }
        sum.of[0] = gradient;
        block = of_block;
    }

    DEVICE_MEMBER f32 total() {
        tree.put(block, sum);
        return tree.total().of[0];
    }
};

// Updates frequent rows of all tables, a block of threads each.
KERNEL_BLOCK(rows_update_frequent, 256, INOUT(float) rows, IN(u32) lists,
             IN(UpdateTable) tables, u32 tables_count, u32 frequent_rows, IN(float) d_x,
             u32 columns, IN(float) d_first_order, u32 examples) {
    static_cast<void>(tables_count);
    static_cast<void>(frequent_rows);
    static_cast<void>(examples);
    SHARED(f32, piece, PIECE_BAGS * PIECE_WEIGHTS);
    SHARED(u32, blocks, PIECE_BAGS);
    SHARED(f32, sums, PIECE_WEIGHTS);
    const Gradients gradients = {d_x, columns, d_first_order};
    const Frequent frequent = frequent_at(tables, lists, blockIdx.x);
    const UpdateTable& table = *frequent.table;
    f32* row = row_to_update(table, lists, rows, frequent.row);
    if (row == nullptr) {
        return;
    }
    const List ends = list_at(lists, table.bag_ends);
    const List bags = list_at(lists, table.bags);
    const u32 begin = ends.before(frequent.row);
    const u32 end = ends[frequent.row];
    const u32 width = table.dim + table.wide;
    for (u32 first = 0; first < width; first += PIECE_WEIGHTS) {
        const u32 weights = min(PIECE_WEIGHTS, width - first);
        Running running;
        running.tree.depth = 0;
        running.block = NONE;
        for (u32 at = begin; at < end; at += PIECE_BAGS) {
            const u32 count = min(PIECE_BAGS, end - at);
            for (u32 i = threadIdx.x; i < count * weights; i += FREQUENT_THREADS) {
                const u32 bag = at + i / weights;
                const u32 weight = first + i % weights;
                piece[i] =
                    bag_gradient<1>(table, lists, gradients, weight, bag, bags[bag]).of[0];
            }
            for (u32 i = threadIdx.x; i < count; i += FREQUENT_THREADS) {
                blocks[i] = table.first_block + block_of(table, lists, bags[at + i]);
            }
            __syncthreads();
            if (threadIdx.x < weights) {
                u32 i = 0;
                for (; i + ADDED_AT_ONCE <= count; i += ADDED_AT_ONCE) {
                    f32 next[ADDED_AT_ONCE];
                    for (u32 j = 0; j < ADDED_AT_ONCE; ++j) {
                        next[j] = piece[(i + j) * weights + threadIdx.x];
                    }
                    for (u32 j = 0; j < ADDED_AT_ONCE; ++j) {
                        running.add(next[j], blocks[i + j]);
                    }
                }
                for (; i < count; ++i) {
                    running.add(piece[i * weights + threadIdx.x], blocks[i]);
                }
            }
            __syncthreads();
        }
        if (threadIdx.x < weights) {
            sums[threadIdx.x] = running.total();
        }
        __syncthreads();
        const bool is_f32 = table.storage == STORAGE_F32;
        const u32 units = is_f32 ? weights : (weights + 1) / 2;
        if (threadIdx.x < units && is_f32) {
            step_weight(table, row, first + threadIdx.x, sums[threadIdx.x]);
        } else if (threadIdx.x < units) {
            const u32 low = 2 * threadIdx.x;
            const Sum<2> pair = {{sums[low], low + 1 < weights ? sums[low + 1] : 0.0f}};
            step_pair(table, lists, row, frequent.row, first / 2 + threadIdx.x, pair);
        }
        __syncthreads();
    }
}
