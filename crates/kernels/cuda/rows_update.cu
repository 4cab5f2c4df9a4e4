// Gradients by row and the row optimizer, in one pass or in two. Bound by the device's memory: by
// the gradients of bags for rows that occur often, by rows and their state for the others.
//
// A thread has one item: a weight of a row, or a pair of 16 bits. Neighbouring threads have
// neighbouring weights, so that a warp reads whole pieces of gradients and of state.

#include "update.h"

// Updates the rows of all tables by the gradients of their bags, but for those that are left to
// rows_update_frequent; `d_x` is (examples, columns).
KERNEL_LANES(rows_update, INOUT(float) rows, IN(u32) lists, IN(UpdateTable) tables,
             u32 tables_count, u32 items, IN(float) d_x, u32 columns, IN(float) d_first_order,
             u32 examples) {
    static_cast<void>(examples);
    const Gradients gradients = {d_x, columns, d_first_order};
    for (u64 number = first_item(); number < items; number += items_apart()) {
        const Item item = item_at(tables, tables_count, static_cast<u32>(number));
        const UpdateTable& table = tables[item.table];
        f32* row = row_to_update(table, lists, rows, item.row);
        if (row == nullptr || is_frequent(table, lists, item.row)) {
            continue;
        }
        if (table.storage == STORAGE_F32) {
            const Sum<1> sum = sum_of<1>(table, lists, gradients, item.row, item.unit);
            step_weight(table, row, item.unit, sum.of[0]);
        } else {
            const Sum<2> sum = sum_of<2>(table, lists, gradients, item.row, 2 * item.unit);
            step_pair(table, lists, row, item.row, item.unit, sum);
        }
    }
}

// The sums of rows_update alone: those of a table, of its width each, one after another from lane
// `table.sums` on. Rows that an update would leave alone have theirs, too.
KERNEL_LANES(rows_sums, IN(u32) lists, IN(UpdateTable) tables, u32 tables_count, u32 items,
             IN(float) d_x, u32 columns, IN(float) d_first_order, u32 examples,
             OUT(float) sums) {
    static_cast<void>(examples);
    const Gradients gradients = {d_x, columns, d_first_order};
    for (u64 number = first_item(); number < items; number += items_apart()) {
        const Item item = item_at(tables, tables_count, static_cast<u32>(number));
        const UpdateTable& table = tables[item.table];
        const u32 width = table.dim + table.wide;
        f32* to = sums + table.sums + static_cast<u64>(item.row) * width;
        if (table.storage == STORAGE_F32) {
            to[item.unit] = sum_of<1>(table, lists, gradients, item.row, item.unit).of[0];
            continue;
        }
        const u32 first = 2 * item.unit;
        const Sum<2> sum = sum_of<2>(table, lists, gradients, item.row, first);
        to[first] = sum.of[0];
        if (first + 1 < width) {
            to[first + 1] = sum.of[1];
        }
    }
}

// The optimizer of rows_update alone, by sums that lie as rows_sums lays them.
KERNEL_LANES(rows_step, INOUT(float) rows, IN(u32) lists, IN(UpdateTable) tables,
             u32 tables_count, u32 items, IN(float) sums) {
    for (u64 number = first_item(); number < items; number += items_apart()) {
        const Item item = item_at(tables, tables_count, static_cast<u32>(number));
        const UpdateTable& table = tables[item.table];
        f32* row = row_to_update(table, lists, rows, item.row);
        if (row == nullptr) {
            continue;
        }
        const u32 width = table.dim + table.wide;
        const f32* gradient = sums + table.sums + static_cast<u64>(item.row) * width;
        if (table.storage == STORAGE_F32) {
            step_weight(table, row, item.unit, gradient[item.unit]);
        } else {
            const u32 first = 2 * item.unit;
            const f32 second = first + 1 < width ? gradient[first + 1] : 0.0f;
            const Sum<2> pair = {{gradient[first], second}};
            step_pair(table, lists, row, item.row, item.unit, pair);
        }
    }
}

// Counts a step in every row that Adam updated: after rows_update or rows_step, all of whose items
// read the count before.
KERNEL_LANES(rows_count, INOUT(float) rows, IN(u32) lists, IN(UpdateTable) tables,
             u32 tables_count, u32 items) {
    for (u64 number = first_item(); number < items; number += items_apart()) {
        const Item item = item_at(tables, tables_count, static_cast<u32>(number));
        const UpdateTable& table = tables[item.table];
        if (item.unit != 0 || table.rule != RULE_ADAM) {
            continue;
        }
        f32* row = row_to_update(table, lists, rows, item.row);
        if (row != nullptr) {
            u32* counter = reinterpret_cast<u32*>(row) + counter_lane(table);
            *counter = next_step(*counter);
        }
    }
}
