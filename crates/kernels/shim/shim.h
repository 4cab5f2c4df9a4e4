// The device that a kernel sees when the C++ compiler compiles it for this processor.
//
// A block runs on one system thread. The threads of a block of lanes are iterations of a loop;
// those of a KERNEL_BLOCK are fibers, between which the scheduler (scheduler.cpp) switches where
// they synchronize. Detectable behavior that a device leaves undefined ends the launch with a
// fault.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <utility>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
// The same type as on a device, whose 64-bit atomics take no other.
typedef unsigned long long u64;
typedef int32_t i32;
typedef float f32;
typedef double f64;

#define DEVICE static inline __attribute__((always_inline, unused))
#define DEVICE_MEMBER inline __attribute__((always_inline))

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    u32 x, y;
};
struct alignas(16) uint4 {
    u32 x, y, z, w;
};

DEVICE float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}

namespace shim {

struct Index {
    u32 x;
};

// Indices and sizes of the running thread, for threadIdx and so on.
#define SHIM_LOCAL extern __thread __attribute__((tls_model("initial-exec")))
SHIM_LOCAL Index thread_index;
SHIM_LOCAL Index block_index;
SHIM_LOCAL Index block_size;
SHIM_LOCAL Index grid_size;
// Whether the lanes of this block run from last to first.
SHIM_LOCAL bool backward;
#undef SHIM_LOCAL

// Operations of a warp; all lanes of a mask must be in the same one.
enum Operation : u8 { SYNC, BALLOT, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR };

struct Site {
    const char* file;
    u32 line;
};

void barrier(Site site);
// Takes part in an operation with `value`, of `bytes` bytes, which becomes this lane's result.
void meet(Operation operation, u32 mask, void* value, u32 bytes, i32 operand, Site site);
void* shared(u32 bytes, u32 alignment, Site site);
void* dynamic_shared(Site site);
// Switches to another fiber at random times, as a device might.
void yield();

typedef const void* const* Arguments;

template <auto F>
struct Launch;

template <class... P, void (*F)(P...)>
struct Launch<F> {
    template <size_t... I>
    static void lanes(Arguments arguments, std::index_sequence<I...>) {
        const std::tuple<P...> values(*static_cast<const P*>(arguments[I])...);
        const u32 count = block_size.x;
        for (u32 turn = 0; turn < count; ++turn) {
            thread_index.x = backward ? count - 1 - turn : turn;
            F(std::get<I>(values)...);
        }
    }

    template <size_t... I>
    static void fiber(Arguments arguments, std::index_sequence<I...>) {
        F(*static_cast<const P*>(arguments[I])...);
    }

    static void lanes(Arguments arguments) { lanes(arguments, std::index_sequence_for<P...>()); }
    static void fiber(Arguments arguments) { fiber(arguments, std::index_sequence_for<P...>()); }
};

template <class T>
DEVICE T shuffle(Operation operation, u32 mask, T value, i32 operand, Site site) {
    static_assert(sizeof(T) <= 16, "a warp hands on 16 bytes at most");
    meet(operation, mask, &value, sizeof(T), operand, site);
    return value;
}

template <class T>
DEVICE T* shared_of(u32 count, Site site) {
    return static_cast<T*>(shared(count * sizeof(T), alignof(T), site));
}

}  // namespace shim

#define SHIM_SITE shim::Site{__FILE__, __LINE__}

#define KERNEL_LANES(name, ...)                                                    \
    static inline void name(__VA_ARGS__);                                          \
    extern "C" void stepwell_kernel_##name(shim::Arguments arguments) {            \
        shim::Launch<&name>::lanes(arguments);                                     \
    }                                                                              \
    static inline void name(__VA_ARGS__)
#define KERNEL_BLOCK(name, threads, ...)                                           \
    static void name(__VA_ARGS__);                                                 \
    extern "C" void stepwell_kernel_##name(shim::Arguments arguments) {            \
        shim::Launch<&name>::fiber(arguments);                                     \
    }                                                                              \
    static void name(__VA_ARGS__)
#define SHARED(T, name, count) T* name = shim::shared_of<T>(count, SHIM_SITE)
#define DYN_SHARED(T, name) T* name = static_cast<T*>(shim::dynamic_shared(SHIM_SITE))

#define threadIdx shim::thread_index
#define blockIdx shim::block_index
#define blockDim shim::block_size
#define gridDim shim::grid_size
#define warpSize 32

#define __syncthreads() shim::barrier(SHIM_SITE)
#define __syncwarp(mask) static_cast<void>(shim::shuffle<u32>(shim::SYNC, mask, 0, 0, SHIM_SITE))
#define __ballot_sync(mask, value) \
    shim::shuffle<u32>(shim::BALLOT, mask, (value) ? 1 : 0, 0, SHIM_SITE)
#define __any_sync(mask, value) (__ballot_sync(mask, value) != 0)
#define __all_sync(mask, value) (__ballot_sync(mask, value) == (mask))
#define __shfl_sync(mask, value, lane) \
    shim::shuffle(shim::SHUFFLE, mask, value, static_cast<i32>(lane), SHIM_SITE)
#define __shfl_up_sync(mask, value, by) \
    shim::shuffle(shim::SHUFFLE_UP, mask, value, static_cast<i32>(by), SHIM_SITE)
#define __shfl_down_sync(mask, value, by) \
    shim::shuffle(shim::SHUFFLE_DOWN, mask, value, static_cast<i32>(by), SHIM_SITE)
#define __shfl_xor_sync(mask, value, by) \
    shim::shuffle(shim::SHUFFLE_XOR, mask, value, static_cast<i32>(by), SHIM_SITE)

DEVICE u32 __float_as_uint(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float __uint_as_float(u32 bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE i32 __popc(u32 bits) {
    return __builtin_popcount(bits);
}

DEVICE u32 min(u32 a, u32 b) {
    return a < b ? a : b;
}

DEVICE u32 max(u32 a, u32 b) {
    return a > b ? a : b;
}

template <class T>
DEVICE T atomic_load(const T* from) {
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

template <class T>
DEVICE T atomicCAS(T* at, T expected, T desired) {
    shim::yield();
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

DEVICE u32 atomicAdd(u32* at, u32 value) {
    shim::yield();
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

DEVICE u32 atomicMin(u32* at, u32 value) {
    shim::yield();
    u32 was = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < was && !__atomic_compare_exchange_n(at, &was, value, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
    return was;
}
