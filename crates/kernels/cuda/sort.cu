// A stable radix sort of 32-bit keys with 32-bit values, 8 bits per pass, lowest first. Bound by
// memory bandwidth: each pass scatters all keys and values to 256 regions.
//
// ```text
// pass: sort_count ─► counts[digit][tile] ─► exclusive sums (scan.cu) ─► starts ─► sort_place
// ```

#include "sort.h"

#define SORT_THREADS 256
#define SORT_ROUNDS 8
#define SORT_TILE (SORT_THREADS * SORT_ROUNDS)
#define WARPS (SORT_THREADS / 32)

// Writes 0, 1, 2, ...: the values of a sort that needs only the order.
KERNEL_LANES(sort_begin, OUT(u32) values, u32 count) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        values[item] = static_cast<u32>(item);
    }
}

// Counts digits, bits `shift` to `shift + 8` of keys, in each tile of 2048 keys, one block each.
KERNEL_BLOCK(sort_count, 256, IN(u32) keys, u32 count, u32 shift, OUT(u32) counts, u32 tiles) {
    SHARED(u32, of_digits, SORT_DIGITS);
    of_digits[threadIdx.x] = 0;
    __syncthreads();
    const u64 first = static_cast<u64>(blockIdx.x) * SORT_TILE + threadIdx.x;
    for (u32 round = 0; round < SORT_ROUNDS; ++round) {
        const u64 item = first + round * SORT_THREADS;
        if (item < count) {
            atomicAdd(of_digits + (keys[item] >> shift) % SORT_DIGITS, 1);
        }
    }
    __syncthreads();
    counts[static_cast<u64>(threadIdx.x) * tiles + blockIdx.x] = of_digits[threadIdx.x];
}

// Mask of the lanes of this warp with the same digit; lanes without a key are left out.
DEVICE u32 lanes_with(u32 digit, bool has_one) {
    u32 same = __ballot_sync(0xffffffff, has_one);
    for (u32 bit = 0; bit < 8; ++bit) {
        const bool is_set = digit >> bit & 1;
        const u32 set = __ballot_sync(0xffffffff, is_set);
        same &= is_set ? set : ~set;
    }
    return same;
}

// Moves keys and values to the regions of their digits, in their previous order. `starts` are the
// exclusive sums of the counts of sort_count.
KERNEL_BLOCK(sort_place, 256, IN(u32) keys, IN(u32) values, u32 count, u32 shift, IN(u32) starts,
             u32 tiles, OUT(u32) to_keys, OUT(u32) to_values) {
    SHARED(u32, next, SORT_DIGITS);
    SHARED(u32, of_warps, WARPS * SORT_DIGITS);
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    next[threadIdx.x] = starts[static_cast<u64>(threadIdx.x) * tiles + blockIdx.x];
    const u64 first = static_cast<u64>(blockIdx.x) * SORT_TILE + threadIdx.x;
    for (u32 round = 0; round < SORT_ROUNDS; ++round) {
        const u64 item = first + round * SORT_THREADS;
        const bool is_there = item < count;
        const u32 key = is_there ? keys[item] : 0;
        const u32 digit = (key >> shift) % SORT_DIGITS;
        for (u32 of = 0; of < WARPS; ++of) {
            of_warps[of * SORT_DIGITS + threadIdx.x] = 0;
        }
        __syncthreads();
        const u32 same = lanes_with(digit, is_there);
        const u32 before = static_cast<u32>(__popc(same & ((1u << lane) - 1)));
        if (is_there && before == 0) {
            of_warps[warp * SORT_DIGITS + digit] = static_cast<u32>(__popc(same));
        }
        __syncthreads();
        // Each thread handles one digit: computes the start of each warp's keys.
        u32 start = next[threadIdx.x];
        for (u32 of = 0; of < WARPS; ++of) {
            u32* place = of_warps + of * SORT_DIGITS + threadIdx.x;
            const u32 here = *place;
            *place = start;
            start += here;
        }
        next[threadIdx.x] = start;
        __syncthreads();
        if (is_there) {
            const u32 place = of_warps[warp * SORT_DIGITS + digit] + before;
            to_keys[place] = key;
            to_values[place] = values[item];
        }
        __syncthreads();
    }
}
