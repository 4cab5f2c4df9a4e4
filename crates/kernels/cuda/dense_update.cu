// Sums of gradients over blocks, and the optimizer of dense parameters. Bound by memory bandwidth:
// the gradients of all blocks, then parameters and their state.

#include "rules.h"

// One per bit of a count of blocks.
#define LEVELS_MAX 32

// The sum of `count` vectors, `apart` lanes from each other, in the tree order of stepwell-nn:
// neighbors are added in pairs, level by level; an odd last one moves up to the next level.
KERNEL_LANES(dense_sum, IN(float) vectors, OUT(float) sum, u64 lanes, u64 apart, u32 count) {
    for (u64 lane = first_item(); lane < lanes; lane += items_apart()) {
        // Sums of complete subtrees without their right neighbor yet: level l has 2^l vectors and
        // is in use if bit l of the count so far is set.
        f32 waiting[LEVELS_MAX];
        for (u32 number = 0; number < count; ++number) {
            f32 value = vectors[number * apart + lane];
            u32 level = 0;
            for (; (number >> level & 1) != 0; ++level) {
                value = waiting[level] + value;
            }
            waiting[level] = value;
        }
        f32 total = 0.0f;
        bool has_any = false;
        for (u32 level = 0; count >> level != 0; ++level) {
            if ((count >> level & 1) != 0) {
                total = has_any ? waiting[level] + total : waiting[level];
                has_any = true;
            }
        }
        sum[lane] = total;
    }
}

// Updates each parameter by its gradient. The state is empty, one vector, or two consecutive ones;
// the other arguments are those of `Step` in rules.h and of `UpdateTable`.
KERNEL_LANES(dense_update, INOUT(float) parameters, INOUT(float) state, IN(float) gradient,
             u32 count, u32 rule, float gain1, float beta2, float gain2, float rate,
             float correction2_root, float eps, u32 regularized, float l2, float keep) {
    UpdateTable table = {};
    table.rule = rule;
    table.dim = count;
    table.regularized = regularized;
    table.l2 = l2;
    table.keep = keep;
    const Step step = {gain1, beta2, gain2, rate, correction2_root, eps};
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 index = static_cast<u32>(item);
        parameters[item] = updated(table, step, state, index, parameters[item], gradient[item]);
    }
}
