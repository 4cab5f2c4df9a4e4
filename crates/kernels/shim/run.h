// Interfaces between Rust and the parts of the shim. The Rust twin is src/host.rs.
#pragma once

#include "shim.h"

namespace shim {

enum Kind : u32 { LANES, BLOCK };

enum FaultKind : u32 {
    NO_FAULT,
    LAUNCH,
    DIVERGENT_BARRIER,
    DEADLOCK,
    MIXED_WARP,
    BAD_MASK,
    BAD_SOURCE,
    SHARED_OVERRUN,
    SHARED_SIZE,
    LANES_MEET,
    ROUNDING,
    OUT_OF_MEMORY,
};

struct Fault {
    FaultKind kind;
    u32 block;
    u32 thread;
    u32 line;
    char file[96];
    char text[256];
};

typedef void (*Entry)(Arguments);

struct Request {
    Entry entry;
    Arguments arguments;
    Kind kind;
    u32 blocks;
    u32 threads;
    // Exact number of threads of a KERNEL_BLOCK; maximum for lanes.
    u32 threads_bound;
    u32 shared_bytes;
    u32 workers;
    u64 seed;
};

// The parts of a block's shared memory, each a heap allocation between two red zones.
class SharedMemory {
   public:
    SharedMemory() = default;
    SharedMemory(const SharedMemory&) = delete;
    ~SharedMemory();
    // Starts a block: marks the previous block's parts as unused and their content as stale.
    void begin(u32 dynamic_bytes);
    // The part declared at `site`, the same for all threads; null, with a fault, on failure.
    void* part(u32 bytes, u32 alignment, Site site, Fault* fault);
    void* dynamic(Site site, Fault* fault);
    // Whether all red zones are unchanged.
    bool is_intact(Fault* fault) const;

   private:
    static constexpr u32 PARTS_MAX = 32;
    struct Part {
        Site site;
        u32 bytes;
        u8* memory;
        bool in_use;
    };
    Part parts_[PARTS_MAX] = {};
    u32 count_ = 0;
    u32 used_bytes_ = 0;
    u32 dynamic_bytes_ = 0;
};

void describe(Fault* fault, FaultKind kind, Site site, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// Random numbers of a worker (xorshift), used only for orders.
struct Dice {
    u64 state;
    u32 roll() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<u32>(state >> 32);
    }
    u32 below(u32 count) { return static_cast<u32>((static_cast<u64>(roll()) * count) >> 32); }
};

// Runs the blocks of a launch, one after another, on one system thread.
struct Worker;
Worker* take_worker();
void give_back(Worker* worker);
bool run_block(Worker* worker, const Request& request, u32 block, Dice dice, Fault* fault);

}  // namespace shim
