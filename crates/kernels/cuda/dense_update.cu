// Sums of gradients over blocks, and the optimizer of dense parameters. Bound by the device's
// memory: by the gradients of all blocks, then by parameters and their state.

#include "rules.h"

// One for each bit of a count of blocks.
#define LEVELS_MAX 32

// The sum of the vectors that begin every `apart` lanes, by the tree of stepwell-nn: neighbours are
// added in pairs, level by level, an odd last one waiting for the next level.
KERNEL_LANES(dense_sum, IN(float) vectors, OUT(float) sum, u64 lanes, u64 apart, u32 count) {
    for (u64 lane = first_item(); lane < lanes; lane += items_apart()) {
        // The sums of whole subtrees that wait for their neighbour: of as many vectors as the bits
        // of the count so far say.
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

// Steps each parameter by its gradient. The state is none, a vector, or two one after another; what
// a step's arithmetic needs is what rules.h has it for.
KERNEL_LANES(dense_update, INOUT(float) parameters, INOUT(float) state, IN(float) gradient,
             u32 count, u32 rule, float gain1, float beta2, float gain2, float rate,
             float correction2_root, float eps) {
    UpdateTable table = {};
    table.rule = rule;
    table.dim = count;
    const Step step = {gain1, beta2, gain2, rate, correction2_root, eps};
    for (u64 item = first_item(); item < count; item += items_apart()) {
        const u32 index = static_cast<u32>(item);
        parameters[item] = updated(table, step, state, index, parameters[item], gradient[item]);
    }
}
