// Items of an update: which weights of which row a thread updates, and how.
#pragma once

#include "rules.h"
#include "sums.h"

// Unit `unit` of a row: four f32 weights, or a pair of 16-bit weights. The last unit of a row may
// have fewer.
struct Item {
    u32 table;
    u32 row;
    u32 unit;
};

DEVICE u32 units_of(u32 storage, u32 weights) {
    const u32 of_unit = storage == STORAGE_F32 ? UNIT_WEIGHTS : 2;
    return (weights + of_unit - 1) / of_unit;
}

// Item `number`, counted over all tables.
DEVICE Item item_at(const UpdateTable* tables, u32 tables_count, u32 number) {
    // Finds the last table with first_item <= number, which skips tables without items.
    u32 low = 0;
    u32 high = tables_count;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (tables[middle].first_item <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const UpdateTable& table = tables[low];
    const u32 units = units_of(table.storage, table.dim + table.wide);
    const u32 within = number - table.first_item;
    return Item{low, within / units, within % units};
}

// Whether rows_update_frequent updates this row.
DEVICE bool is_frequent(const UpdateTable& table, const u32* lists, u32 row) {
    if (table.frequent_rows == 0) {
        return false;
    }
    const List ends = list_at(lists, table.bag_ends);
    return ends[row] - ends.before(row) > FREQUENT_BAGS;
}

// The row to update; null if it must be skipped.
DEVICE f32* row_to_update(const UpdateTable& table, const u32* lists, f32* rows, u32 row) {
    const u32 slot = list_at(lists, table.slots)[row];
    const bool is_skipped = table.skip != NONE && list_at(lists, table.skip)[row] != 0;
    if (is_skipped || slot == NONE) {
        return nullptr;
    }
    return rows + table.slab + static_cast<u64>(slot) * table.row_lanes;
}

// Updates `COUNT` f32 weights of a row, from `first` on, or as many as the row has.
template <u32 COUNT>
DEVICE void step_weights(const UpdateTable& table, f32* row, u32 first, const Sum<COUNT>& sum) {
    const Step step = step_of(table, row);
    const u32 width = table.dim + table.wide;
    f32* state = row + width;
    UNROLL
    for (u32 i = 0; i < COUNT; ++i) {
        if (first + i < width) {
            f32* weight = row + first + i;
            *weight = updated(table, step, state, first + i, *weight, sum.of[i]);
        }
    }
}

// Updates and rounds two 16-bit weights.
DEVICE void step_pair(const UpdateTable& table, const u32* lists, f32* row, u32 row_number,
                      u32 unit, Sum<2> gradient) {
    const u32 width = table.dim + table.wide;
    const Step step = step_of(table, row);
    f32* state = row + lanes_of(table.storage, width);
    const u32 pair = __float_as_uint(row[unit]);
    const u32 first = 2 * unit;
    const bool has_second = first + 1 < width;
    const f32 low = updated(table, step, state, first, from_half(pair & 0xffff, table.storage),
                            gradient.of[0]);
    f32 high = 0.0f;
    if (has_second) {
        high = updated(table, step, state, first + 1, from_half(pair >> 16, table.storage),
                       gradient.of[1]);
    }
    u64 random = 0;
    if (table.rounding != NONE) {
        random = random_at(list_at(lists, table.rounding).wide(row_number), unit);
    }
    row[unit] = encode_pair(low, high, has_second, table.storage, random);
}
