// Exclusive prefix sums of words, modulo 2^32. Bound by memory bandwidth.
//
// ```text
// values ─► scan_tiles ─► sums within tiles, totals of tiles
// totals ─► scan_tiles ─► ... until one tile is left
// scan_add adds the totals of all earlier tiles, from the last level back to the first
// ```

#include "prelude.h"

#define SCAN_THREADS 256
#define SCAN_EACH 8
#define SCAN_TILE (SCAN_THREADS * SCAN_EACH)
#define WARPS (SCAN_THREADS / 32)

// The sum over the lanes of a warp up to and including this one.
DEVICE u32 warp_sum(u32 value, u32 lane) {
    for (u32 by = 1; by < 32; by *= 2) {
        const u32 before = __shfl_up_sync(0xffffffff, value, by);
        value += lane >= by ? before : 0;
    }
    return value;
}

// Exclusive sums within each tile of 2048 words, one block per tile; `totals` gets tiles' totals.
KERNEL_BLOCK(scan_tiles, 256, IN(u32) values, u32 count, OUT(u32) scanned, OUT(u32) totals) {
    SHARED(u32, of_warps, WARPS);
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u64 first = static_cast<u64>(blockIdx.x) * SCAN_TILE + threadIdx.x * SCAN_EACH;
    u32 before[SCAN_EACH];
    u32 own = 0;
    for (u32 i = 0; i < SCAN_EACH; ++i) {
        before[i] = own;
        own += first + i < count ? values[first + i] : 0;
    }
    const u32 of_warp = warp_sum(own, lane);
    if (lane == 31) {
        of_warps[warp] = of_warp;
    }
    __syncthreads();
    u32 base = of_warp - own;
    u32 total = 0;
    for (u32 i = 0; i < WARPS; ++i) {
        base += i < warp ? of_warps[i] : 0;
        total += of_warps[i];
    }
    for (u32 i = 0; i < SCAN_EACH; ++i) {
        if (first + i < count) {
            scanned[first + i] = base + before[i];
        }
    }
    if (threadIdx.x == 0) {
        totals[blockIdx.x] = total;
    }
}

// Adds to every word the total of all tiles before its own.
KERNEL_LANES(scan_add, INOUT(u32) scanned, u32 count, IN(u32) before) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        scanned[item] += before[item / SCAN_TILE];
    }
}
