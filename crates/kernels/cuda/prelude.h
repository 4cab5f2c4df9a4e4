// Common definitions for all kernels; the only file that distinguishes compilers.
//
// NVRTC compiles kernels for a device; the C++ compiler compiles them for this processor, with the
// shim. All differences are here: declarations of kernels and parameters, shared memory, and atomic
// loads. UNROLL precedes loops whose reads should overlap; the values they read then stay in
// registers.
#pragma once

// Maximum number of threads of a block of lanes; bounds the registers of each thread.
#define LANES_THREADS_MAX 256

#ifdef __CUDACC__

#define DEVICE __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define KERNEL_LANES(name, ...) \
    extern "C" __global__ void __launch_bounds__(LANES_THREADS_MAX) name(__VA_ARGS__)
#define KERNEL_BLOCK(name, threads, ...) \
    extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
#define UNROLL _Pragma("unroll")
#define SHARED(T, name, count) __shared__ T name[count]
#define DYN_SHARED(T, name)                                     \
    extern __shared__ __align__(16) unsigned char dyn_shared[]; \
    T* name = reinterpret_cast<T*>(dyn_shared)

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef float f32;
typedef double f64;

template <class T>
DEVICE T atomic_load(const T* from) {
    return *static_cast<const volatile T*>(from);
}

#else

#include "shim.h"

#define UNROLL

#endif

// How a kernel accesses the memory behind a parameter. No two parameters overlap.
#define IN(T) const T* __restrict__
#define OUT(T) T* __restrict__
#define INOUT(T) T* __restrict__
#define ATOMIC(T) T*

// A missing slot, list or value.
#define NONE 0xffffffffu

// The first item of this thread; its other items follow at intervals of items_apart().
DEVICE u64 first_item() {
    return static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
}

DEVICE u64 items_apart() {
    return static_cast<u64>(gridDim.x) * blockDim.x;
}

struct Divided {
    u64 quotient;
    u32 remainder;
};

// Divides in 32 bits if `by_what` fits, which is four times as fast on a device.
DEVICE Divided divide(u64 by_what, u32 divisor) {
    if (by_what >> 32 == 0) {
        const u32 dividend = static_cast<u32>(by_what);
        return Divided{dividend / divisor, dividend % divisor};
    }
    return Divided{by_what / divisor, static_cast<u32>(by_what % divisor)};
}

DEVICE bool is_aligned(const void* pointer, u32 bytes) {
    return reinterpret_cast<u64>(pointer) % bytes == 0;
}

// A 64-bit number stored as two words, low first.
DEVICE u64 word_pair(const u32* words) {
    return words[0] | static_cast<u64>(words[1]) << 32;
}
