// Weights of a row in 32 or 16 bits: the arithmetic of `stepwell-optim`, with the same bits.
//
// Two 16-bit weights share a lane, the first in its lower half; the last half of an odd count is
// zero. They are rounded stochastically: 32 random bits are added below the last place, then the
// bits below it are cut off.
#pragma once

#include "random.h"
#include "tables.h"

#define F32_INFINITY 0x7f800000u
#define F16_INFINITY 0x7c00u
#define F16_QUIET 0x7e00u
// Biased f32 exponent of the smallest normal f16, 2^-14.
#define F16_NORMAL 113u
// Difference of the exponent biases of f32 and f16, at the exponent's place in an f32.
#define F16_REBIAS (112u << 23)

DEVICE u32 to_f16(f32 x, u32 random) {
    const u32 bits = __float_as_uint(x);
    const u32 magnitude = bits & 0x7fffffff;
    const u32 exponent = magnitude >> 23;
    // Sets the leading one even for subnormal x, which is shifted out anyway.
    const u64 significand = static_cast<u64>((magnitude & 0x007fffff) | 0x00800000) << 32;
    const u32 below_normal = exponent < F16_NORMAL ? F16_NORMAL - exponent : 0;
    const u32 shift = min(13 + below_normal, 63);
    const u32 rounded = static_cast<u32>(((significand >> shift) + random) >> 32);
    // The leading one and any carry add to the exponent.
    const u32 finite = rounded + ((max(exponent, F16_NORMAL) - F16_NORMAL) << 10);
    const u32 half = magnitude <= F32_INFINITY ? min(finite, F16_INFINITY) : F16_QUIET;
    return half | (bits >> 16 & 0x8000);
}

DEVICE f32 from_f16(u32 half) {
    const u32 magnitude = half & 0x7fff;
    const f32 last_place = 1.0f / (1 << 24);
    const u32 subnormal = __float_as_uint(static_cast<f32>(magnitude) * last_place);
    const u32 normal = (magnitude << 13) + F16_REBIAS;
    const u32 number = magnitude < 0x400 ? subnormal : normal;
    const u32 whole = magnitude < F16_INFINITY ? number : normal + F16_REBIAS;
    return __uint_as_float(whole | (half & 0x8000) << 16);
}

DEVICE u32 to_bf16(f32 x, u32 random) {
    const u32 bits = __float_as_uint(x);
    const u32 rounded = (bits + (random >> 16)) >> 16;
    // Sets the quiet bit of NaNs: a payload only in the lower half would be cut off.
    return (bits & 0x7fffffff) <= F32_INFINITY ? rounded : (bits >> 16 | 0x40);
}

DEVICE f32 from_bf16(u32 half) {
    return __uint_as_float(half << 16);
}

DEVICE f32 from_half(u32 half, u32 storage) {
    return storage == STORAGE_F16 ? from_f16(half) : from_bf16(half);
}

DEVICE u32 to_half(f32 x, u32 random, u32 storage) {
    return storage == STORAGE_F16 ? to_f16(x, random) : to_bf16(x, random);
}

// Number of lanes of `weights` weights.
DEVICE u32 lanes_of(u32 storage, u32 weights) {
    return storage == STORAGE_F32 ? weights : weights / 2 + weights % 2;
}

// Weight `index` of the row at `row`.
DEVICE f32 weight_at(const f32* row, u32 storage, u32 index) {
    if (storage == STORAGE_F32) {
        return row[index];
    }
    const u32 pair = __float_as_uint(row[index / 2]);
    return from_half(index % 2 == 0 ? pair & 0xffff : pair >> 16, storage);
}

// Two weights in one lane, rounded by the random bits in `random`.
DEVICE f32 encode_pair(f32 first, f32 second, bool has_second, u32 storage, u64 random) {
    const u32 low = to_half(first, static_cast<u32>(random), storage);
    const u32 high = to_half(second, static_cast<u32>(random >> 32), storage);
    return __uint_as_float(has_second ? low | high << 16 : low);
}
