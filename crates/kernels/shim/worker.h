// A worker: the state of the block it runs and of the block's fibers. Only the parts of the
// scheduler access it, on the worker's own thread.
#pragma once

#include <setjmp.h>

#include <vector>

#include "fiber.h"
#include "run.h"
#include "sanitizers.h"

namespace shim {

constexpr u32 THREADS_MAX = 1024;
constexpr u32 WARP = 32;
constexpr u32 NOBODY = 0xffffffff;

enum State : u8 { FRESH, RUNNING, AT_BARRIER, AT_WARP, DONE };

struct Fiber {
    Context context;
    void* stack;
    void* strand;
    State state;
    Operation operation;
    u32 mask;
    i32 operand;
    u32 bytes;
    Site site;
    alignas(16) u8 value[16];
};

struct Warp {
    u32 waiting;
    u32 done;
    u8 meeting;
};

struct Worker {
    const Request* request;
    Fault* fault;
    bool failed;
    u32 current;
    u32 live;
    u32 at_barrier;
    Site barrier;
    Dice dice;
    u32 ready_count;
    u16 ready[THREADS_MAX];
    Warp warps[THREADS_MAX / WARP];
    Fiber fibers[THREADS_MAX];
    std::vector<void*> stacks;
    Context main;
    void* main_strand;
    Context abandoned;
    jmp_buf out_of_lanes;
    SharedMemory shared;
    u8 began, ended, met;
};

// The worker of this system thread.
extern __thread Worker* here;

inline bool same_site(Site a, Site b) {
    return a.line == b.line && strcmp(a.file, b.file) == 0;
}

// Ends the block, which never resumes; does not return.
void leave_block(Worker* worker);

#define FAIL(worker, kind, site, ...)                             \
    do {                                                          \
        describe((worker)->fault, kind, site, __VA_ARGS__);       \
        leave_block(worker);                                      \
    } while (0)

inline void make_ready(Worker* worker, u32 thread) {
    worker->ready[worker->ready_count++] = static_cast<u16>(thread);
}

// Runs other fibers until this one is ready again.
void wait(Worker* worker);

}  // namespace shim
