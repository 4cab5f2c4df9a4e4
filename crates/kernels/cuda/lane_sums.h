// Sums over consecutive lanes in the order of `lane_sums.rs` of stepwell-nn: lane i joins partial
// sum i mod 16, and the partial sums are added in order at the end.
#pragma once

#include "prelude.h"

#define LANE_PARTS 16

struct LaneSum {
    f32 parts[LANE_PARTS];

    // Begins a sum.
    DEVICE_MEMBER void clear() {
        UNROLL
        for (u32 i = 0; i < LANE_PARTS; ++i) {
            parts[i] = 0.0f;
        }
    }

    DEVICE_MEMBER f32 total() const {
        f32 sum = 0.0f;
        UNROLL
        for (u32 i = 0; i < LANE_PARTS; ++i) {
            sum += parts[i];
        }
        return sum;
    }
};

// The sum of `term(lane)` over `count` lanes.
template <class Term>
DEVICE f32 sum_of_lanes(u32 count, const Term& term) {
    LaneSum sum;
    sum.clear();
    u32 lane = 0;
    for (; lane + LANE_PARTS <= count; lane += LANE_PARTS) {
        UNROLL
        for (u32 i = 0; i < LANE_PARTS; ++i) {
            sum.parts[i] += term.at(lane + i);
        }
    }
    UNROLL
    for (u32 i = 0; i < LANE_PARTS; ++i) {
        if (lane + i < count) {
            sum.parts[i] += term.at(lane + i);
        }
    }
    return sum.total();
}

// Terms of a dot product.
struct Products {
    const f32* left;
    const f32* right;

    DEVICE_MEMBER f32 at(u32 lane) const { return left[lane] * right[lane]; }
};

// The dot product of two vectors of `count` lanes.
DEVICE f32 dot_of_lanes(u32 count, const f32* left, const f32* right) {
    return sum_of_lanes(count, Products{left, right});
}
