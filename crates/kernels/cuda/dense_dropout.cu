// Lanes dropped at random. Bound by memory bandwidth.

#include "dense.h"
#include "random.h"

// Computes each lane's factor and the output. The factor is 0 if the upper 53 bits of the lane's
// random number are below `dropped`, else `scale`. Each row has a random stream, `apart` places
// after the previous row's.
KERNEL_LANES(dense_dropout, IN(float) input, IN(u64) streams, OUT(float) output, OUT(float) kept,
             u32 rows, u32 columns, u32 stride, u32 apart, u64 dropped,
             float scale) {
    const u64 total = static_cast<u64>(rows) * columns;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, columns);
        const u64 stream = streams[element(place.quotient, apart, 0)];
        const u64 number = random_at(stream, place.remainder) >> 11;
        const f32 factor = number < dropped ? 0.0f : scale;
        kept[item] = factor;
        output[item] = input[element(place.quotient, stride, place.remainder)] * factor;
    }
}
