// A function of each value, and its gradient. Bound by memory bandwidth, or by exponentials in f64.

#include "dense.h"
#include "smooth.h"

#define FUNCTION_RELU 0u
#define FUNCTION_SIGMOID 1u
#define FUNCTION_TANH 2u
#define FUNCTION_GELU 3u
#define FUNCTION_SILU 4u
#define FUNCTION_PRELU 5u

// sqrt(2 / pi), as a product of two rounded factors.
#define GELU_SCALE (1.12837916709551257389615890312154517 * 0.707106781186547524400844362104849039)
#define GELU_CUBE 0.044715

DEVICE f64 gelu_tangent(f64 x) {
    return smooth_tanh(GELU_SCALE * (x + GELU_CUBE * (x * x * x)));
}

// The value of a function without slope.
DEVICE f64 value_of(u32 function, f64 x) {
    switch (function) {
        case FUNCTION_SIGMOID:
            return smooth_sigmoid(x);
        case FUNCTION_TANH:
            return smooth_tanh(x);
        case FUNCTION_GELU:
            return 0.5 * x * (1.0 + gelu_tangent(x));
        default:
            return x * smooth_sigmoid(x);
    }
}

// The derivative, from the output of sigmoid and tanh, or the input of the others.
DEVICE f64 slope_of(u32 function, f64 value) {
    switch (function) {
        case FUNCTION_SIGMOID:
            return value * (1.0 - value);
        case FUNCTION_TANH:
            return 1.0 - value * value;
        case FUNCTION_GELU: {
            const f64 t = gelu_tangent(value);
            const f64 of_tangent =
                (1.0 - t * t) * (GELU_SCALE * (1.0 + 3.0 * GELU_CUBE * (value * value)));
            return 0.5 * (1.0 + t) + 0.5 * value * of_tangent;
        }
        default: {
            const f64 s = smooth_sigmoid(value);
            return s + value * (s * (1.0 - s));
        }
    }
}

// The output. // (rows, columns)
KERNEL_LANES(dense_function, IN(float) input, IN(float) slopes, OUT(float) output, u32 function,
             u32 rows, u32 columns, u32 stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const f32 x = input[element(place.quotient, stride, place.remainder)];
        if (function == FUNCTION_RELU) {
            output[item] = x <= 0.0f ? 0.0f : x;
        } else if (function == FUNCTION_PRELU) {
            output[item] = x > 0.0f ? x : slopes[place.remainder] * x;
        } else {
            output[item] = static_cast<f32>(value_of(function, static_cast<f64>(x)));
        }
    }
}

// The gradient of the first `wanted` columns of the input; `values` is the output of ReLU, sigmoid
// and tanh, and the input of other functions.
KERNEL_LANES(dense_function_to_input, IN(float) values, IN(float) slopes, IN(float) d_output,
             INOUT(float) d_input, u32 function, u32 rows, u32 columns, u32 stride, u32 wanted,
             u32 d_stride, u32 adds) {
    const u64 total = static_cast<u64>(rows) * wanted;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, wanted);
        const u32 column = place.remainder;
        const f32 value = values[element(place.quotient, stride, column)];
        f32 d = d_output[element(place.quotient, columns, column)];
        if (function == FUNCTION_RELU) {
            d = value <= 0.0f ? 0.0f : d;
        } else if (function == FUNCTION_PRELU) {
            d = value > 0.0f ? d : slopes[column] * d;
        } else {
            d *= static_cast<f32>(slope_of(function, static_cast<f64>(value)));
        }
        put(d_input + element(place.quotient, d_stride, column), d, adds);
    }
}

// Turns the gradient of the output into what each example adds to that of the learnt slopes.
KERNEL_LANES(dense_function_to_slopes, IN(float) input, INOUT(float) gradient, u32 rows,
             u32 columns, u32 stride) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const f32 x = input[element(place.quotient, stride, place.remainder)];
        gradient[item] = x > 0.0f ? 0.0f : x * gradient[item];
    }
}
