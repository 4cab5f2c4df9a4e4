// exp, the logistic function and the hyperbolic tangent, in f64, with the same bits as those of
// `exponential.rs` of stepwell-nn: the same reduction, polynomial and order of operations.
#pragma once

#include "prelude.h"

// Adding this to a number rounds it to an integer, which is then in the lowest bits: 1.5 * 2^52.
#define ROUNDING 6755399441055744.0

// exp(x), with x clamped to -700 to 700; NaN stays NaN.
DEVICE f64 smooth_exp(f64 x) {
    x = x > 700.0 ? 700.0 : x;
    x = x < -700.0 ? -700.0 : x;
    const f64 rounded = x * 1.44269504088896340736 + ROUNDING;
    const f64 k = rounded - ROUNDING;
    const f64 r = (x - k * 6.931471803691238e-1) - k * 1.9082149292705877e-10;
    f64 sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const u64 bits = static_cast<u64>(__double_as_longlong(rounded));
    const u64 power = (bits + 1023) << 52;
    return sum * __longlong_as_double(static_cast<long long>(power));
}

// exp(x) in f32, with x clamped to -87 to 87; NaN stays NaN.
DEVICE f32 smooth_exp_f32(f32 x) {
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    const f32 rounded = x * 1.44269504088896340736f + 12582912.0f;
    const f32 k = rounded - 12582912.0f;
    const f32 r = (x - k * (355.0f / 512.0f)) - k * -2.1219444e-4f;
    f32 sum = 1.0f / 5040.0f;
    sum = sum * r + 1.0f / 720.0f;
    sum = sum * r + 1.0f / 120.0f;
    sum = sum * r + 1.0f / 24.0f;
    sum = sum * r + 1.0f / 6.0f;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    return sum * __uint_as_float((__float_as_uint(rounded) + 127) << 23);
}

DEVICE f64 smooth_sigmoid(f64 x) {
    return 1.0 / (1.0 + smooth_exp(-x));
}

DEVICE f64 smooth_tanh(f64 x) {
    return 1.0 - 2.0 / (1.0 + smooth_exp(2.0 * x));
}
