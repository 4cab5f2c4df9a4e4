// Optimizer rules: the arithmetic of `stepwell-optim`, with the same bits.
//
// ```text
// sgd       [ weights ]
// momentum  [ weights ][ velocity: width ]
// adagrad   [ weights ][ sum: width ]
// ftrl      [ weights ][ sum: width ][ linear: width ]
// adam      [ weights ][ exp_avg: width ][ exp_avg_sq: width ][ step: u32 bits in one lane ]
// ```
#pragma once

#include "storage.h"

// `base` to the power of `exponent` by squaring, multiplying in a fixed order.
DEVICE f64 power(f64 base, u32 exponent) {
    f64 result = 1.0;
    f64 square = base;
    for (u32 bits = exponent; bits > 0; bits >>= 1) {
        if (bits & 1) {
            result *= square;
        }
        square *= square;
    }
    return result;
}

// `x`, or zero if `x` is subnormal.
DEVICE f32 flush(f32 x) {
    const f32 least_normal = __uint_as_float(0x00800000);
    return fabsf(x) < least_normal ? 0.0f : x;
}

// `steps` plus one, saturating.
DEVICE u32 next_step(u32 steps) {
    return steps == 0xffffffff ? steps : steps + 1;
}

// The lane of a row with its step count.
DEVICE u32 counter_lane(const UpdateTable& table) {
    const u32 width = table.dim + table.wide;
    return lanes_of(table.storage, width) + 2 * width;
}

// Coefficients of one step, the same for all weights of a row; beta2 is also momentum's factor.
struct Step {
    f32 gain1;
    f32 beta2;
    f32 gain2;
    f32 rate;
    f32 correction2_root;
    f32 eps;
};

DEVICE Step step_of(const UpdateTable& table, const f32* row) {
    Step step = {};
    step.rate = table.rate;
    step.eps = table.eps;
    step.beta2 = static_cast<f32>(table.beta2);
    if (table.rule == RULE_ADAM) {
        const u32 number = next_step(__float_as_uint(row[counter_lane(table)]));
        const f64 correction1 = 1.0 - power(table.beta1, number);
        const f64 correction2 = 1.0 - power(table.beta2, number);
        step.gain1 = static_cast<f32>(1.0 - table.beta1);
        step.gain2 = static_cast<f32>(1.0 - table.beta2);
        step.rate = static_cast<f32>(-table.lr / correction1);
        step.correction2_root = static_cast<f32>(sqrt(correction2));
    }
    return step;
}

// FTRL-Proximal; at a learning rate of 0, nothing changes. `rate` is the learning rate, `eps` is
// beta.
DEVICE f32 ftrl(const UpdateTable& table, f32* square, f32* linear, f32 weight, f32 gradient) {
    const f32 rate = table.rate;
    if (rate == 0.0f) {
        return weight;
    }
    const f32 l1 = rate * table.l1;
    const f32 beta = table.eps + rate * table.l2;
    const f32 before = sqrtf(*square);
    const f32 sum = *square + gradient * gradient;
    const f32 root = sqrtf(sum);
    const f32 from_weight = -(weight * (beta + before) + (weight < 0.0f ? -l1 : l1));
    const f32 old = weight == 0.0f ? *linear : from_weight;
    const f32 z = old + rate * gradient - (root - before) * weight;
    *square = sum;
    *linear = z;
    if (fabsf(z) <= l1) {
        return 0.0f;
    }
    return ((z < 0.0f ? -l1 : l1) - z) / (beta + root);
}

// Updates the state of weight `index`, of the row with state at `state`; returns the new weight.
DEVICE f32 updated(const UpdateTable& table, const Step& step, f32* state, u32 index, f32 weight,
                   f32 gradient) {
    f32* first = state + index;
    if (table.regularized != 0) {
        weight *= table.keep;
    }
    if (table.rule == RULE_FTRL) {
        return ftrl(table, first, first + table.dim + table.wide, weight, gradient);
    }
    if (table.regularized != 0) {
        gradient = gradient + table.l2 * weight;
    }
    if (table.rule == RULE_SGD) {
        return weight - step.rate * gradient;
    }
    if (table.rule == RULE_MOMENTUM) {
        const f32 velocity = flush(step.beta2 * *first + gradient);
        *first = velocity;
        return weight - step.rate * velocity;
    }
    if (table.rule == RULE_ADAGRAD) {
        const f32 sum = *first + gradient * gradient;
        *first = sum;
        return weight + step.rate * gradient / (sqrtf(sum) + step.eps);
    }
    f32* second = first + table.dim + table.wide;
    const f32 mean = flush(*first + step.gain1 * (gradient - *first));
    const f32 square = flush(*second * step.beta2 + step.gain2 * gradient * gradient);
    const f32 root = sqrtf(square) / step.correction2_root + step.eps;
    *first = mean;
    *second = square;
    return weight + step.rate * mean / root;
}
