// Sums of gradients by row and the row optimizer, in one pass or two. Bound by instructions, and by
// memory bandwidth: rows, their state, the gradients of bags.
//
// A thread processes one item: four weights of a row, or a pair of 16-bit weights. Neighboring
// threads have neighboring weights, so the reads of a warp coalesce. Four weights share one walk
// over the bags of their row, which takes more instructions than their step.

#include "update.h"

// Updates the rows of all tables by the gradients of their bags, except rows that are left to
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
            const u32 first = UNIT_WEIGHTS * item.unit;
            step_weights(table, row, first,
                         sum_of<UNIT_WEIGHTS>(table, lists, gradients, item.row, first));
        } else {
            const Sum<2> sum = sum_of<2>(table, lists, gradients, item.row, 2 * item.unit);
            step_pair(table, lists, row, item.row, item.unit, sum);
        }
    }
}

// Stores the sums of weights from `first` on in those of a row, up to its width.
template <u32 COUNT>
DEVICE void put(const Sum<COUNT>& sum, f32* to, u32 first, u32 width) {
    UNROLL
    for (u32 i = 0; i < COUNT; ++i) {
        if (first + i < width) {
            to[first + i] = sum.of[i];
        }
    }
}

// Computes only the sums of rows_update: those of a table's rows are consecutive, `width` lanes
// each, from lane `table.sums` on. Includes rows that an update would skip.
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
            const u32 first = UNIT_WEIGHTS * item.unit;
            put(sum_of<UNIT_WEIGHTS>(table, lists, gradients, item.row, first), to, first, width);
        } else {
            const u32 first = 2 * item.unit;
            put(sum_of<2>(table, lists, gradients, item.row, first), to, first, width);
        }
    }
}

// Runs only the optimizer of rows_update, on sums in the layout of rows_sums.
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
            const u32 first = UNIT_WEIGHTS * item.unit;
            Sum<UNIT_WEIGHTS> sum;
            UNROLL
            for (u32 i = 0; i < UNIT_WEIGHTS; ++i) {
                sum.of[i] = first + i < width ? gradient[first + i] : 0.0f;
            }
            step_weights(table, row, first, sum);
        } else {
            const u32 first = 2 * item.unit;
            const f32 second = first + 1 < width ? gradient[first + 1] : 0.0f;
            const Sum<2> pair = {{gradient[first], second}};
            step_pair(table, lists, row, item.row, item.unit, pair);
        }
    }
}

// Increments the step count of every row that Adam updated. Must run after rows_update or
// rows_step, since all items of a row read the old count.
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
