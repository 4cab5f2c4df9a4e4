// The softmax within a block: each example's pair of vectors among the pairs of its user with the
// block's other items. Scores are products of matrices, a row of `slot_rows` for each example.
// A thread has a row of scores; bound by reading them.

#include "dense.h"
#include "exponential.h"
#include "lane_sums.h"
#include "smooth.h"

// Lanes kept for each example: the first row with the same item, the logarithm of the sum over the
// other items, and the item's correction.
#define KEPT 3
#define BINS 65536
// Logit of an example without other items.
#define ALONE 104.0f

// Row `row` of a block's slot, if it is an example.
struct Place {
    u64 block;
    u32 row;
    bool is_example;
};

DEVICE Place place_of(u64 row, u32 slot_rows, const u32* rows_of) {
    const Divided at = divide(row, slot_rows);
    return Place{at.quotient, at.remainder, at.remainder < rows_of[at.quotient]};
}

// Whether a lane has a bin, which is then its whole part.
DEVICE bool has_bin(f32 lane) {
    return lane >= 0.0f && lane < static_cast<f32>(BINS);
}

// Numbers each example's item by the first row of its block that has it, with equal values in all
// columns. Initializes what is kept.
KERNEL_LANES(dense_number_items, IN(float) items, IN(u32) rows_of, OUT(float) kept, u32 rows,
             u32 slot_rows, u32 columns, u32 stride) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const Place place = place_of(row, slot_rows, rows_of);
        const f32* own = items + element(row, stride, 0);
        u32 first = place.row;
        for (u32 before = 0; place.is_example && before < first; ++before) {
            const f32* other = items + element(row - place.row + before, stride, 0);
            u32 column = 0;
            while (column < columns && own[column] == other[column]) {
                ++column;
            }
            first = column == columns ? before : first;
        }
        f32* of = kept + row * KEPT;
        of[0] = static_cast<f32>(first);
        of[1] = 0.0f;
        of[2] = 0.0f;
    }
}

// The correction of each item: the logarithm of one more than the count of its bin.
KERNEL_LANES(dense_item_corrections, IN(float) bins, IN(float) counts, INOUT(float) kept, u32 rows,
             u32 stride) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f32 bin = bins[element(row, stride, 0)];
        if (has_bin(bin)) {
            const f64 count = static_cast<f64>(counts[static_cast<u32>(bin)]);
            kept[row * KEPT + 2] = static_cast<f32>(log_of_one_and(count));
        }
    }
}

// Counts the examples of each bin in each block, whose counts are `apart` lanes from the next
// block's and were zero.
KERNEL_LANES(dense_count_items, IN(float) bins, IN(u32) rows_of, INOUT(float) counts, u32 rows,
             u32 slot_rows, u32 stride, u64 apart) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const Place place = place_of(row, slot_rows, rows_of);
        const f32 lane = bins[element(row, stride, 0)];
        if (!place.is_example || !has_bin(lane)) {
            continue;
        }
        const u32 bin = static_cast<u32>(lane);
        u32 count = 0;
        bool is_first = true;
        for (u32 other = 0; other < rows_of[place.block]; ++other) {
            const f32 of = bins[element(row - place.row + other, stride, 0)];
            const bool is_same = has_bin(of) && static_cast<u32>(of) == bin;
            count += is_same ? 1 : 0;
            is_first = is_first && !(is_same && other < place.row);
        }
        if (is_first) {
            counts[place.block * apart + bin] = static_cast<f32>(count);
        }
    }
}

// Adds counts to those of earlier steps.
KERNEL_LANES(dense_add_counts, INOUT(float) counts, IN(float) more, u32 count) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        counts[item] += more[item];
    }
}

// Exponentials of the scores of other items, relative to the largest.
struct OfOthers {
    const f32* scores;
    const f32* kept;
    f32 own;
    f32 most;

    DEVICE_MEMBER f32 at(u32 item) const {
        return kept[static_cast<u64>(item) * KEPT] == own ? 0.0f
                                                          : smooth_exp_f32(scores[item] - most);
    }
};

// Divides scores by the temperature, subtracts the items' corrections, and computes the logits.
KERNEL_LANES(dense_in_batch, INOUT(float) scores, IN(u32) rows_of, INOUT(float) kept,
             OUT(float) output, u32 rows, u32 slot_rows, float factor) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const Place place = place_of(row, slot_rows, rows_of);
        if (!place.is_example) {
            output[row] = 0.0f;
            continue;
        }
        const u32 count = rows_of[place.block];
        f32* of = scores + element(row, slot_rows, 0);
        const f32* items = kept + (row - place.row) * KEPT;
        const f32 own = items[static_cast<u64>(place.row) * KEPT];
        f32 most = -__uint_as_float(0x7f800000);
        bool has_others = false;
        for (u32 item = 0; item < count; ++item) {
            const f32 score = factor * of[item] - items[static_cast<u64>(item) * KEPT + 2];
            of[item] = score;
            const bool is_other = items[static_cast<u64>(item) * KEPT] != own;
            has_others = has_others || is_other;
            most = is_other && score > most ? score : most;
        }
        const f32 sum = sum_of_lanes(count, OfOthers{of, items, own, most});
        const f64 log_sum = static_cast<f64>(most) + log_of(static_cast<f64>(sum));
        const f32 of_others = has_others ? static_cast<f32>(log_sum) : 0.0f;
        kept[row * KEPT + 1] = of_others;
        output[row] = has_others ? of[place.row] - of_others : ALONE;
    }
}

// Turns scores into gradients of the dot products.
KERNEL_LANES(dense_in_batch_backward, INOUT(float) scores, IN(u32) rows_of, IN(float) kept,
             IN(float) d_output, u32 rows, u32 slot_rows, float factor) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const Place place = place_of(row, slot_rows, rows_of);
        if (!place.is_example) {
            continue;
        }
        f32* of = scores + element(row, slot_rows, 0);
        const f32* items = kept + (row - place.row) * KEPT;
        const f32 own = items[static_cast<u64>(place.row) * KEPT];
        const f32 sum = kept[row * KEPT + 1];
        const f32 d = d_output[row];
        bool has_others = false;
        for (u32 item = 0; item < rows_of[place.block]; ++item) {
            const bool is_other = items[static_cast<u64>(item) * KEPT] != own;
            has_others = has_others || is_other;
            const f32 share = is_other ? smooth_exp_f32(of[item] - sum) : 0.0f;
            of[item] = item == place.row ? of[item] : -d * share * factor;
        }
        of[place.row] = (has_others ? d : 0.0f) * factor;
    }
}

// The scores of the pairs themselves, for evaluations.
KERNEL_LANES(dense_pair_scores, IN(float) users, IN(float) items, OUT(float) output, u32 rows,
             u32 columns, u32 user_stride, u32 item_stride, float factor) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f32 dot = dot_of_lanes(columns, users + element(row, user_stride, 0),
                                     items + element(row, item_stride, 0));
        output[row] = factor * dot;
    }
}
