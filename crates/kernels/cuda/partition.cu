// Partitions keys among devices by a published hash of the key alone; the keys of a device keep
// their order. Bound by memory bandwidth.
//
// ```text
// keys ─► partition_devices ─► one pass of the stable sort (sort.cu) ─► order, starts
//      ─► partition_keys ─► keys by device;  partition_counts ─► number of keys of each
// ```
//
// The hash is the finalizer of XXH64. It shares neither rounds nor constants with XXH3, which
// assigns keys to ranks and stores, nor with SplitMix64's finalizer, which hash tables use: the
// keys of one device fill a table as evenly as any others. The Rust twin is `device_of`.

#include "sort.h"

DEVICE u64 device_hash(u64 key) {
    u64 z = key;
    z = (z ^ (z >> 33)) * 0xC2B2AE3D27D4EB4F;
    z = (z ^ (z >> 29)) * 0x165667B19E3779F9;
    return z ^ (z >> 32);
}

// The device of every key, below `devices`, which is at most 256.
KERNEL_LANES(partition_devices, IN(u64) keys, u32 count, u32 devices, OUT(u32) device_of) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        device_of[item] = static_cast<u32>(((device_hash(keys[item]) >> 32) * devices) >> 32);
    }
}

// Copies key order[i] of `keys` to key i of `to`.
KERNEL_LANES(partition_keys, IN(u64) keys, IN(u32) order, u32 count, OUT(u64) to) {
    for (u64 item = first_item(); item < count; item += items_apart()) {
        to[item] = keys[order[item]];
    }
}

// The number of keys of each device; `starts` are those of the sort, over `tiles` tiles.
KERNEL_LANES(partition_counts, IN(u32) starts, u32 tiles, u32 count, u32 devices,
             OUT(u32) counts) {
    for (u64 device = first_item(); device < devices; device += items_apart()) {
        const u32 end = device + 1 < SORT_DIGITS ? starts[(device + 1) * tiles] : count;
        counts[device] = end - starts[device * tiles];
    }
}
