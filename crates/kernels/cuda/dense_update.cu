// Sums of gradients over blocks, the bound of their norm, the optimizer of dense parameters, and
// their mean over steps. Bound by memory bandwidth: the gradients of all blocks, then parameters
// and their state.

#include "rules.h"

// One per bit of a count of blocks.
#define LEVELS_MAX 32
// Lanes whose squares are summed in one part, as by the processor, and partial sums of a part.
#define PART_LANES 16384
#define PART_SUMS 16

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

// Squares of the gradient, summed for each part: lane i is added to partial sum i mod 16.
// // sums: (parts, 16)
KERNEL_LANES(dense_squares, IN(float) gradient, OUT(float) sums, u32 count) {
    const u64 parts = (static_cast<u64>(count) + PART_LANES - 1) / PART_LANES;
    for (u64 item = first_item(); item < parts * PART_SUMS; item += items_apart()) {
        const u64 first = item / PART_SUMS * PART_LANES;
        const u64 end = min(first + PART_LANES, static_cast<u64>(count));
        f32 sum = 0.0f;
        for (u64 lane = first + item % PART_SUMS; lane < end; lane += PART_SUMS) {
            const f32 value = gradient[lane];
            sum += value * value;
        }
        sums[item] = sum;
    }
}

// Adds up the partial sums of each part, by halves, into the first of them.
KERNEL_LANES(dense_square_sums, INOUT(float) sums, u32 parts) {
    for (u64 part = first_item(); part < parts; part += items_apart()) {
        f32* of = sums + part * PART_SUMS;
        for (u32 half = PART_SUMS / 2; half > 0; half /= 2) {
            for (u32 lane = 0; lane < half; ++lane) {
                of[lane] += of[lane + half];
            }
        }
    }
}

// The factor that bounds the norm of the whole gradient, from the sums of its parts. One item.
KERNEL_LANES(dense_clip_factor, IN(float) sums, OUT(float) factor, u32 parts, double norm_max) {
    if (first_item() != 0) {
        return;
    }
    f64 total = 0.0;
    for (u32 part = 0; part < parts; ++part) {
        total += static_cast<f64>(sums[static_cast<u64>(part) * PART_SUMS]);
    }
    const f64 norm = sqrt(total);
    factor[0] = norm > norm_max ? static_cast<f32>(norm_max / norm) : 1.0f;
}

// Multiplies the gradient by the factor.
KERNEL_LANES(dense_clip, INOUT(float) gradient, IN(float) factor, u32 count) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        gradient[item] = factor[0] * gradient[item];
    }
}

// Moves the mean of each parameter towards its value.
KERNEL_LANES(dense_average, INOUT(float) mean, IN(float) values, u32 count, float gain) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        mean[item] += gain * (values[item] - mean[item]);
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
