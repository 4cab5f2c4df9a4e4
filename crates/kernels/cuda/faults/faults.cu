// Kernels with one mistake each, which the shim must detect. Only for its tests.

#include "prelude.h"

// Adds the values of neighbors without the required barrier.
KERNEL_BLOCK(missing_barrier, 64, OUT(u32) to) {
    SHARED(u32, values, 64);
    values[threadIdx.x] = threadIdx.x;
    to[threadIdx.x] = values[(threadIdx.x + 1) % 64] + values[(threadIdx.x + 63) % 64];
}

// The correct version.
KERNEL_BLOCK(with_barrier, 64, OUT(u32) to) {
    SHARED(u32, values, 64);
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = values[(threadIdx.x + 1) % 64] + values[(threadIdx.x + 63) % 64];
}

KERNEL_BLOCK(barrier_of_some, 64, u32 some) {
    if (threadIdx.x < some) {
        __syncthreads();
    }
}

KERNEL_BLOCK(two_barriers, 64, OUT(u32) to) {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    to[0] = 1;
}

KERNEL_BLOCK(barrier_against_warp, 64, OUT(u32) to) {
    if (threadIdx.x == 5) {
        __syncthreads();
    }
    to[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
    if (threadIdx.x != 5) {
        __syncthreads();
    }
}

KERNEL_BLOCK(mixed_operations, 32, OUT(u32) to) {
    if (threadIdx.x < 16) {
        to[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
    } else {
        to[threadIdx.x] = __ballot_sync(0xffffffff, threadIdx.x % 2 == 0);
    }
}

KERNEL_BLOCK(mask_of_the_ended, 32, OUT(u32) to) {
    if (threadIdx.x == 3) {
        return;
    }
    to[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
}

KERNEL_BLOCK(mask_of_others, 32, OUT(u32) to) {
    to[threadIdx.x] = __shfl_sync(0x0000fffe, threadIdx.x, 1);
}

KERNEL_BLOCK(mask_of_nobody, 16, OUT(u32) to) {
    to[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 1);
}

KERNEL_BLOCK(source_outside, 32, OUT(u32) to, u32 source) {
    if (threadIdx.x < 16) {
        to[threadIdx.x] = __shfl_sync(0x0000ffff, threadIdx.x, source);
    }
}

KERNEL_BLOCK(shared_overrun, 32, OUT(u32) to, u32 index) {
    SHARED(u32, values, 32);
    SHARED(u32, others, 32);
    values[threadIdx.x] = threadIdx.x;
    others[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 7) {
        values[index] = 1;
    }
    to[threadIdx.x] = others[threadIdx.x];
}

KERNEL_BLOCK(shared_below, 32, OUT(u32) to) {
    DYN_SHARED(u32, values);
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        *(values - 1) = 7;
    }
    to[threadIdx.x] = values[threadIdx.x];
}

KERNEL_BLOCK(stale_shared, 32, OUT(u32) to) {
    SHARED(u32, values, 32);
    to[blockIdx.x * 32 + threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = 1;
}

KERNEL_BLOCK(too_much_shared, 32, OUT(u32) to) {
    SHARED(u32, values, 12289);
    values[threadIdx.x] = 1;
    to[threadIdx.x] = values[threadIdx.x];
}

DEVICE void hidden_barrier() {
    __syncthreads();
}

KERNEL_LANES(lanes_with_barrier, OUT(u32) to) {
    to[threadIdx.x] = 1;
    hidden_barrier();
}

// Uses every warp operation, and counts with atomics.
KERNEL_BLOCK(operations, 64, OUT(u32) to, ATOMIC(u32) count) {
    const u32 all = 0xffffffff;
    const u32 lane = threadIdx.x % 32;
    u32* of = to + threadIdx.x * 8;
    of[0] = __shfl_sync(all, lane, (lane + 5) % 32);
    of[1] = __shfl_up_sync(all, lane, 3);
    of[2] = __shfl_down_sync(all, lane, 4);
    of[3] = __shfl_xor_sync(all, lane, 9);
    of[4] = __ballot_sync(all, lane % 3 == 0);
    of[5] = __any_sync(all, lane == 40) + 2 * __all_sync(all, lane < 32);
    const float4 four = __shfl_sync(all, make_float4(lane, lane + 1, lane + 2, lane + 3), 7);
    of[6] = static_cast<u32>(four.x + four.y + four.z + four.w);
    of[7] = lane < 8 ? __shfl_xor_sync(0xff, lane, 1) : __shfl_sync(0xffffff00, lane, 8);
    atomicAdd(count, 1);
    __syncwarp(all);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count + 1, *count);
    }
}

// Records the order in which threads run, as each draws the next number from `turn`.
KERNEL_BLOCK(order_of_threads, 64, OUT(u32) to, ATOMIC(u32) turn) {
    to[blockIdx.x * 64 + threadIdx.x] = atomicAdd(turn, 1);
}
