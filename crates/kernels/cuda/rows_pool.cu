// Look-up and pooling of all tables in one pass. Bound by memory bandwidth, and by latency if bags
// are long: a thread iterates over a bag, for four columns at once if they are aligned lanes of one
// embedding.
//
// Results have the engine's bits: a sum starts with the bag's first row and adds the others in
// order, each times its factor if the table has factors; an empty bag is zero.

#include "storage.h"

// The occurrences of one or more consecutive bags.
struct Bag {
    List slots;
    List rows;
    List factors;
    bool has_factors;
    u32 begin;
    u32 end;
};

DEVICE Bag bags_of(const PoolTable& table, const u32* lists, u64 first, u32 count) {
    const List ends = list_at(lists, table.ends);
    Bag bag;
    bag.slots = list_at(lists, table.slots);
    bag.rows = list_at(lists, table.occurrence_rows);
    bag.has_factors = table.factors != NONE;
    bag.factors = list_at(lists, bag.has_factors ? table.factors : 0);
    bag.begin = ends.before(first);
    bag.end = count == 0 ? bag.begin : ends[first + count - 1];
    return bag;
}

// The row of an occurrence; null if it has no slot, in which case it is not added.
DEVICE const f32* row_of(const PoolTable& table, const Bag& bag, u32 occurrence, const f32* rows) {
    const u32 slot = bag.slots[bag.rows[occurrence]];
    return slot == NONE ? nullptr : rows + table.slab + static_cast<u64>(slot) * table.row_lanes;
}

// Lane `lane` of a pooled embedding.
DEVICE f32 pool_one(const PoolTable& table, const Bag& bag, const f32* rows, u32 lane) {
    f32 sum = 0.0f;
    bool is_first = true;
    for (u32 at = bag.begin; at < bag.end; ++at) {
        const f32* row = row_of(table, bag, at, rows);
        if (row == nullptr) {
            continue;
        }
        f32 weight = weight_at(row, table.storage, lane);
        weight = bag.has_factors ? weight * bag.factors.number(at) : weight;
        sum = is_first ? weight : sum + weight;
        is_first = false;
    }
    return sum;
}

DEVICE float4 times(float4 a, f32 b) {
    return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}

DEVICE float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Four lanes of a pooled embedding; `lane` is a multiple of 4 and rows are 16-byte aligned.
DEVICE float4 pool_four(const PoolTable& table, const Bag& bag, const f32* rows, u32 lane) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    bool is_first = true;
    for (u32 at = bag.begin; at < bag.end; ++at) {
        const f32* row = row_of(table, bag, at, rows);
        if (row == nullptr) {
            continue;
        }
        float4 four = *reinterpret_cast<const float4*>(row + lane);
        four = bag.has_factors ? times(four, bag.factors.number(at)) : four;
        sum = is_first ? four : plus(sum, four);
        is_first = false;
    }
    return sum;
}

struct Column {
    u32 table;
    u32 field;
    u32 lane;
};

DEVICE Column column_at(const u32* columns_of, u32 column) {
    const u32* words = columns_of + static_cast<u64>(column) * 3;
    return Column{words[0], words[1], words[2]};
}

// Whether this column and the next three are aligned, consecutive f32 lanes of one embedding.
DEVICE bool are_four(const PoolTable* tables, const u32* columns_of, u32 column, const f32* rows) {
    const Column first = column_at(columns_of, column);
    const PoolTable& table = tables[first.table];
    bool is_one = ((first.lane | table.row_lanes | table.slab) & 3) == 0 && is_aligned(rows, 16) &&
                  table.storage == STORAGE_F32;
    for (u32 i = 1; i < 4; ++i) {
        const Column next = column_at(columns_of, column + i);
        is_one = is_one && next.table == first.table && next.field == first.field &&
                 next.lane == first.lane + i;
    }
    return is_one;
}

// Pools up to four columns, from `column` on.
DEVICE void pool_columns(const f32* rows, const u32* lists, const PoolTable* tables,
                         const u32* columns_of, u32 columns, u32 example, u32 column, f32* to) {
    if (column + 4 <= columns && are_four(tables, columns_of, column, rows)) {
        const Column first = column_at(columns_of, column);
        const PoolTable& table = tables[first.table];
        const u64 number = static_cast<u64>(example) * table.fields + first.field;
        const float4 four = pool_four(table, bags_of(table, lists, number, 1), rows, first.lane);
        if (is_aligned(to, 16)) {
            *reinterpret_cast<float4*>(to) = four;
        } else {
            to[0] = four.x;
            to[1] = four.y;
            to[2] = four.z;
            to[3] = four.w;
        }
        return;
    }
    const u32 end = min(column + 4, columns);
    for (u32 each = column; each < end; ++each) {
        const Column of = column_at(columns_of, each);
        const PoolTable& table = tables[of.table];
        const u64 number = static_cast<u64>(example) * table.fields + of.field;
        to[each - column] = pool_one(table, bags_of(table, lists, number, 1), rows, of.lane);
    }
}

// Number of first-order weights read before any is added, so that their reads overlap.
#define WEIGHTS_AT_ONCE 8

// The first-order weight of an occurrence, times its factor. Zero if its row has no slot: a sum
// that starts at zero is never -0, so adding zero keeps its bits.
DEVICE f32 first_order_of(const PoolTable& table, const Bag& bags, const f32* rows, u32 at) {
    const f32* row = row_of(table, bags, at, rows);
    if (row == nullptr) {
        return 0.0f;
    }
    const f32 weight = weight_at(row, table.storage, table.dim);
    return bags.has_factors ? weight * bags.factors.number(at) : weight;
}

// The sum of an example's first-order weights over all tables that have them, in the order of
// tables, fields and occurrences.
DEVICE f32 pool_first_order(const f32* rows, const u32* lists, const PoolTable* tables,
                            u32 tables_count, u32 example) {
    f32 sum = 0.0f;
    for (u32 number = 0; number < tables_count; ++number) {
        const PoolTable& table = tables[number];
        if (table.wide == 0) {
            continue;
        }
        const u64 first = static_cast<u64>(example) * table.fields;
        const Bag bags = bags_of(table, lists, first, table.fields);
        u32 at = bags.begin;
        for (; at + WEIGHTS_AT_ONCE <= bags.end; at += WEIGHTS_AT_ONCE) {
            f32 read[WEIGHTS_AT_ONCE];
            for (u32 i = 0; i < WEIGHTS_AT_ONCE; ++i) {
                read[i] = first_order_of(table, bags, rows, at + i);
            }
            for (u32 i = 0; i < WEIGHTS_AT_ONCE; ++i) {
                sum += read[i];
            }
        }
        for (; at < bags.end; ++at) {
            sum += first_order_of(table, bags, rows, at);
        }
    }
    return sum;
}

// Pools every example into the first `columns` columns of its row of `x`, which has `width`
// columns, and its first-order weights into `first_order`. Column c is lane columns_of[3 c + 2] of
// the embedding of field columns_of[3 c + 1] of table columns_of[3 c].
KERNEL_LANES(rows_pool, IN(float) rows, IN(u32) lists, IN(PoolTable) tables, u32 tables_count,
             IN(u32) columns_of, u32 columns, u32 examples, OUT(float) x, u32 width,
             OUT(float) first_order) {
    const u32 fours = columns / 4 + (columns % 4 != 0);
    const u64 pooled = static_cast<u64>(examples) * fours;
    for (u64 item = first_item(); item < pooled + examples; item += items_apart()) {
        if (item < pooled) {
            const Divided place = divide(item, fours);
            const u32 example = static_cast<u32>(place.quotient);
            const u32 column = place.remainder * 4;
            f32* to = x + static_cast<u64>(example) * width + column;
            pool_columns(rows, lists, tables, columns_of, columns, example, column, to);
        } else {
            const u32 example = static_cast<u32>(item - pooled);
            first_order[example] = pool_first_order(rows, lists, tables, tables_count, example);
        }
    }
}
