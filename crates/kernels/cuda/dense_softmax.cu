// The softmax of each row, in f64, and its gradient: a thread has a row. Rows are short, so kernels
// are bound by the latency of their exponentials.

#include "dense.h"
#include "smooth.h"

// Bits of minus infinity in f64.
#define MINUS_INFINITY 0xfff0000000000000ull

// The softmax. // (rows, columns)
KERNEL_LANES(dense_softmax, IN(float) logits, OUT(float) softmax, u32 rows, u32 columns,
             u32 stride) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f32* of_row = logits + element(row, stride, 0);
        // NaN is never the largest, but propagates through the sum.
        f64 most = __longlong_as_double(static_cast<long long>(MINUS_INFINITY));
        for (u32 column = 0; column < columns; ++column) {
            const f64 logit = static_cast<f64>(of_row[column]);
            most = logit > most ? logit : most;
        }
        f64 all = 0.0;
        for (u32 column = 0; column < columns; ++column) {
            all += smooth_exp(static_cast<f64>(of_row[column]) - most);
        }
        for (u32 column = 0; column < columns; ++column) {
            const f64 power = smooth_exp(static_cast<f64>(of_row[column]) - most);
            softmax[element(row, columns, column)] = static_cast<f32>(power / all);
        }
    }
}

// The gradient of the first `wanted` logits from that of the softmax.
KERNEL_LANES(dense_softmax_backward, IN(float) softmax, IN(float) d_softmax, INOUT(float) d_logits,
             u32 rows, u32 columns, u32 wanted, u32 d_stride, u32 adds) {
    for (u64 row = first_item(); row < rows; row += items_apart()) {
        const f32* p = softmax + element(row, columns, 0);
        const f32* dp = d_softmax + element(row, columns, 0);
        f32 mean = 0.0f;
        for (u32 column = 0; column < columns; ++column) {
            mean += p[column] * dp[column];
        }
        for (u32 column = 0; column < wanted; ++column) {
            put(d_logits + element(row, d_stride, column), p[column] * (dp[column] - mean), adds);
        }
    }
}
