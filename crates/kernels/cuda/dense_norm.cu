// Layer normalization of groups of consecutive columns, and scaling to length 1. Layer
// normalization is y = w * (x - mean) * inverse + b, with the mean and the inverse deviation of
// each group of an example. Bound by memory bandwidth; moments and slopes, where a thread has a
// group, by reads from the first-level cache.

#include "dense.h"
#include "lane_sums.h"

// Added to variances.
#define EPSILON 1e-5

// Lanes of a group, or their deviations from the mean, or squares of these.
struct Lanes {
    const f32* lanes;

    DEVICE_MEMBER f32 at(u32 lane) const { return lanes[lane]; }
};

struct Squares {
    const f32* lanes;
    f32 mean;

    DEVICE_MEMBER f32 at(u32 lane) const {
        return (lanes[lane] - mean) * (lanes[lane] - mean);
    }
};

// Gradients of a group's normalized lanes.
struct Weighted {
    const f32* d_output;
    const f32* weight;

    DEVICE_MEMBER f32 at(u32 lane) const { return d_output[lane] * weight[lane]; }
};

struct WeightedDeviations {
    Weighted weighted;
    const f32* lanes;
    f32 mean;

    DEVICE_MEMBER f32 at(u32 lane) const { return weighted.at(lane) * (lanes[lane] - mean); }
};

// The mean and the inverse deviation of each group. // (rows, groups, 2)
KERNEL_LANES(dense_norm_moments, IN(float) input, OUT(float) moments, u32 rows, u32 groups,
             u32 columns, u32 stride) {
    const u64 total = static_cast<u64>(rows) * groups;
    const f32 count = static_cast<f32>(columns);
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, groups);
        const u64 first = static_cast<u64>(place.remainder) * columns;
        const f32* lanes = input + element(place.quotient, stride, first);
        const f32 mean = sum_of_lanes(columns, Lanes{lanes}) / count;
        const f32 variance = sum_of_lanes(columns, Squares{lanes, mean}) / count;
        moments[2 * item] = mean;
        moments[2 * item + 1] =
            static_cast<f32>(1.0 / sqrt(static_cast<f64>(variance) + EPSILON));
    }
}

// A lane of the input, normalized.
DEVICE f32 normalized(f32 x, const f32* moments) {
    return (x - moments[0]) * moments[1];
}

// The output. // (rows, groups * columns)
KERNEL_LANES(dense_norm, IN(float) input, IN(float) moments, IN(float) weight, IN(float) bias,
             OUT(float) output, u32 rows, u32 groups, u32 columns, u32 stride) {
    const u32 lanes = groups * columns;
    const u64 total = static_cast<u64>(rows) * lanes;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, lanes);
        const u32 lane = place.remainder;
        const f32* of_group = moments + 2 * (place.quotient * groups + lane / columns);
        const f32 z = normalized(input[element(place.quotient, stride, lane)], of_group);
        output[item] = weight[lane] * z + bias[lane];
    }
}

// Two means over each group, (rows, groups, 2): of g = dy * w, and of g times the normalized input.
// The gradient of every lane of the group needs both.
KERNEL_LANES(dense_norm_slopes, IN(float) input, IN(float) moments, IN(float) weight,
             IN(float) d_output, OUT(float) slopes, u32 rows, u32 groups, u32 columns,
             u32 stride) {
    const u64 total = static_cast<u64>(rows) * groups;
    const f32 count = static_cast<f32>(columns);
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, groups);
        const u64 first = static_cast<u64>(place.remainder) * columns;
        const f32* lanes = input + element(place.quotient, stride, first);
        const Weighted weighted = {d_output + item * columns, weight + first};
        const f32 mean = moments[2 * item];
        const f32 product = sum_of_lanes(columns, WeightedDeviations{weighted, lanes, mean});
        slopes[2 * item] = sum_of_lanes(columns, weighted) / count;
        slopes[2 * item + 1] = product * moments[2 * item + 1] / count;
    }
}

// The gradient of the first `wanted` columns of the input.
KERNEL_LANES(dense_norm_to_input, IN(float) input, IN(float) moments, IN(float) weight,
             IN(float) d_output, IN(float) slopes, INOUT(float) d_input, u32 rows, u32 groups,
             u32 columns, u32 stride, u32 wanted, u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u32 lane = place.remainder;
        const u64 group = place.quotient * groups + lane / columns;
        const f32 z = normalized(input[element(place.quotient, stride, lane)], moments + 2 * group);
        const f32 g = d_output[element(place.quotient, groups * columns, lane)] * weight[lane];
        const f32 value =
            moments[2 * group + 1] * (g - slopes[2 * group] - z * slopes[2 * group + 1]);
        put(d_input + element(place.quotient, d_stride, lane), value, adds);
    }
}

// Turns the gradient of the output into what each example adds to that of the weight.
KERNEL_LANES(dense_norm_to_weight, IN(float) input, IN(float) moments, INOUT(float) gradient,
             u32 rows, u32 groups, u32 columns, u32 stride) {
    const u32 lanes = groups * columns;
    const u64 total = static_cast<u64>(rows) * lanes;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, lanes);
        const u32 lane = place.remainder;
        const f32* of_group = moments + 2 * (place.quotient * groups + lane / columns);
        gradient[item] *= normalized(input[element(place.quotient, stride, lane)], of_group);
    }
}

// Added to squared lengths.
#define LENGTH_EPSILON 1e-12

// Turns the squared length of each example's vector into the factor that gives it length 1.
KERNEL_LANES(dense_unit_factors, INOUT(float) factors, u32 rows) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f64 square = static_cast<f64>(factors[row]);
        factors[row] = static_cast<f32>(1.0 / sqrt(square + LENGTH_EPSILON));
    }
}

// The gradient of the first `wanted` columns of the input of a scaled vector; `along` is the dot
// product of the output and its gradient.
KERNEL_LANES(dense_unit_to_input, IN(float) output, IN(float) factors, IN(float) d_output,
             IN(float) along, INOUT(float) d_input, u32 rows, u32 columns, u32 wanted,
             u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u64 row = place.quotient;
        const u64 at = element(row, columns, place.remainder);
        const f32 d = factors[row] * (d_output[at] - along[row] * output[at]);
        put(d_input + element(row, d_stride, place.remainder), d, adds);
    }
}
