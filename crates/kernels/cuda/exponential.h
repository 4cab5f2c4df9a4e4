// exp, log and log1p on the ranges that are needed, in f64, with the same bits as on the processor
// (the crate libm): the same reductions, polynomials and order of operations. A device's own
// functions differ.
//
// Reductions and polynomials come from FreeBSD's msun, e_exp.c, e_log.c and s_log1p.c:
//
//   Copyright (C) 1993, 2004 by Sun Microsystems, Inc. All rights reserved.
//   Developed at SunPro, a Sun Microsystems, Inc. business. Permission to use, copy, modify, and
//   distribute this software is freely granted, provided that this notice is preserved.
#pragma once

#include "prelude.h"

#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10

DEVICE u64 bits_of(f64 value) {
    return static_cast<u64>(__double_as_longlong(value));
}

DEVICE f64 of_bits(u64 bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}

// The upper 32 bits: sign, exponent and the high bits of the significand.
DEVICE u32 high_word(f64 value) {
    return static_cast<u32>(bits_of(value) >> 32);
}

// 2 to the power of `exponent`; the result must not be subnormal.
DEVICE f64 power_of_two(i32 exponent) {
    return of_bits(static_cast<u64>(0x3ff + exponent) << 52);
}

// exp(x) for x <= 0; NaN for NaN.
DEVICE f64 exp_of_negative(f64 x) {
    const u32 magnitude = high_word(x) & 0x7fffffff;
    if (x != x) {
        return x;
    }
    if (x < -745.13321910194110842) {
        return 0.0;
    }
    i32 k = 0;
    f64 high = x;
    f64 low = 0.0;
    if (magnitude > 0x3fd62e42) {
        // |x| > ln 2 / 2: x = k ln 2 + r.
        k = magnitude >= 0x3ff0a2b2 ? static_cast<i32>(1.44269504088896338700e+00 * x - 0.5) : -1;
        high = x - k * LN2_HIGH;
        low = k * LN2_LOW;
    } else if (magnitude <= 0x3e300000) {
        return 1.0 + x;
    }
    const f64 r = high - low;
    const f64 rr = r * r;
    const f64 p45 = -1.65339022054652515390e-06 + rr * 4.13813679705723846039e-08;
    const f64 p3 = 6.61375632143793436117e-05 + rr * p45;
    const f64 p2 = -2.77777777770155933842e-03 + rr * p3;
    const f64 c = r - rr * (1.66666666666666019037e-01 + rr * p2);
    const f64 y = 1.0 + (r * c / (2.0 - c) - low + high);
    if (k < -1022) {
        // Scales in two steps; the first is exact.
        return y * power_of_two(-969) * power_of_two(k + 969);
    }
    return y * power_of_two(k);
}

// A number as 2^k (1 + f), with 1 + f between sqrt(1/2) and sqrt(2).
struct Reduced {
    i32 k;
    f64 f;
};

DEVICE Reduced reduce(f64 u) {
    const u32 shifted = high_word(u) + (0x3ff00000 - 0x3fe6a09e);
    const u64 reduced = (shifted & 0x000fffff) + 0x3fe6a09e;
    const f64 f = of_bits(reduced << 32 | (bits_of(u) & 0xffffffff)) - 1.0;
    return Reduced{static_cast<i32>(shifted >> 20) - 0x3ff, f};
}

// log(2^k (1 + f)) + correction.
DEVICE f64 log_of_reduced(i32 k, f64 f, f64 correction) {
    const f64 half_square = 0.5 * f * f;
    const f64 s = f / (2.0 + f);
    const f64 z = s * s;
    const f64 w = z * z;
    const f64 even = 3.999999999940941908e-01 +
                     w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01);
    const f64 odd = 2.857142874366239149e-01 +
                    w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01);
    const f64 series = z * (6.666666666666735130e-01 + w * odd) + w * even;
    const f64 whole = k;
    return s * (half_square + series) + (whole * LN2_LOW + correction) - half_square + f +
           whole * LN2_HIGH;
}

// log(x) for finite x >= 1; NaN for NaN.
DEVICE f64 log_of(f64 x) {
    if (x != x) {
        return x;
    }
    const Reduced of = reduce(x);
    return log_of_reduced(of.k, of.f, 0.0);
}

// log(1 + x) for x in [0, 2^53]; NaN for NaN.
DEVICE f64 log_of_one_and(f64 x) {
    const u32 high = high_word(x);
    if (x != x || high < 0x3ca00000) {
        return x;
    }
    if (high < 0x3fda827a) {
        // x < sqrt(2) - 1.
        return log_of_reduced(0, x, 0.0);
    }
    const f64 u = 1.0 + x;
    const Reduced of = reduce(u);
    // For the rounding of 1 + x.
    const f64 lost = of.k >= 2 ? 1.0 - (u - x) : x - (u - 1.0);
    return log_of_reduced(of.k, of.f, lost / u);
}
