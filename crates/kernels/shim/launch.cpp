// Runs a launch: its blocks in random order, on the requested number of threads.

#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include <pthread.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "run.h"

namespace shim {

static constexpr u32 BLOCK_THREADS_MAX = 1024;

bool is_failed(const Worker* worker);
Worker* new_worker();

// Workers, which keep their stacks between launches. Failed ones were interrupted midway and are
// never reused.
struct Workers {
    std::vector<Worker*> idle;
    std::vector<Worker*> failed;
};
static std::mutex lock;
static Workers* workers;

Worker* take_worker() {
    const std::lock_guard<std::mutex> held(lock);
    if (workers == nullptr || workers->idle.empty()) {
        return new_worker();
    }
    Worker* worker = workers->idle.back();
    workers->idle.pop_back();
    return worker;
}

void give_back(Worker* worker) {
    if (worker == nullptr) {
        return;
    }
    const std::lock_guard<std::mutex> held(lock);
    if (workers == nullptr) {
        workers = new Workers();
    }
    (is_failed(worker) ? workers->failed : workers->idle).push_back(worker);
}

// Whether floating point on this thread rounds to nearest and keeps subnormal numbers.
static bool is_ieee() {
#if defined(__SSE__)
    constexpr u32 FLUSH_ZERO_AND_ROUNDING = 0xE040;
    return (_mm_getcsr() & FLUSH_ZERO_AND_ROUNDING) == 0;
#else
    return true;
#endif
}

static u64 mix(u64 z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// A random permutation of the blocks: a Feistel network, repeated while its result is no block.
struct Order {
    u64 seed;
    u32 count;
    u32 half_bits;

    Order(u64 seed_of, u32 blocks) : seed(seed_of), count(blocks), half_bits(1) {
        while (half_bits < 16 && (u64{1} << 2 * half_bits) < blocks) {
            ++half_bits;
        }
    }

    u32 at(u32 turn) const {
        const u64 mask = (u64{1} << half_bits) - 1;
        u64 place = turn;
        do {
            u64 left = place >> half_bits, right = place & mask;
            for (u64 round = 1; round <= 4; ++round) {
                const u64 next = left ^ (mix(seed + right * 8 + round) & mask);
                left = right;
                right = next;
            }
            place = left << half_bits | right;
        } while (place >= count);
        return static_cast<u32>(place);
    }
};

struct Shared {
    const Request& request;
    Order order;
    std::atomic<u64> next{0};
    std::atomic<bool> stop{false};
    std::mutex lock;
    Fault* fault;
};

static void work(Shared* of) {
    Fault fault = {};
    Worker* worker = take_worker();
    if (worker == nullptr) {
        describe(&fault, OUT_OF_MEMORY, Site{"", 0}, "no room for a worker");
    } else if (!is_ieee()) {
        describe(&fault, ROUNDING, Site{"", 0},
                 "floating point does not round to nearest, or flushes subnormal numbers to zero");
    }
    while (fault.kind == NO_FAULT && !of->stop.load()) {
        const u64 turn = of->next.fetch_add(1);
        if (turn >= of->request.blocks) {
            break;
        }
        const u32 block = of->order.at(static_cast<u32>(turn));
        const Dice dice{mix(of->request.seed ^ mix(block + u64{1})) | 1};
        run_block(worker, of->request, block, dice, &fault);
    }
    if (fault.kind != NO_FAULT) {
        of->stop.store(true);
        const std::lock_guard<std::mutex> held(of->lock);
        if (of->fault->kind == NO_FAULT) {
            *of->fault = fault;
        }
    }
    give_back(worker);
}

static void* work_of(void* of) {
    work(static_cast<Shared*>(of));
    return nullptr;
}

static bool is_sound(const Request& request, Fault* fault) {
    const Site nowhere{"", 0};
    if (request.blocks == 0 || request.blocks > 0x7fffffff) {
        describe(fault, LAUNCH, nowhere, "%u blocks: a launch has 1 to 2147483647", request.blocks);
    } else if (request.threads == 0 || request.threads > BLOCK_THREADS_MAX) {
        describe(fault, LAUNCH, nowhere, "%u threads: a block has 1 to %u", request.threads,
                 BLOCK_THREADS_MAX);
    } else if (request.kind == BLOCK && request.threads != request.threads_bound) {
        describe(fault, LAUNCH, nowhere, "%u threads: the kernel is written for blocks of %u",
                 request.threads, request.threads_bound);
    } else if (request.kind == LANES && request.threads > request.threads_bound) {
        describe(fault, LAUNCH, nowhere, "%u threads: blocks of this kernel have %u at most",
                 request.threads, request.threads_bound);
    } else if (request.kind == LANES && request.shared_bytes != 0) {
        describe(fault, LAUNCH, nowhere, "%u bytes of shared memory where lanes may not meet",
                 request.shared_bytes);
    }
    return fault->kind == NO_FAULT;
}

// Runs a launch until it ends or a fault occurs.
extern "C" void stepwell_shim_run(const Request* request, Fault* fault) {
    *fault = Fault{};
    if (!is_sound(*request, fault)) {
        return;
    }
    Shared shared{*request, Order(mix(request->seed + 1), request->blocks), {}, {}, {}, fault};
    const u32 threads = min(max(request->workers, 1), request->blocks);
    // If the system refuses threads, blocks run on fewer, at least on this one.
    pthread_t* others = new (std::nothrow) pthread_t[threads];
    u32 made = 0;
    while (others != nullptr && made + 1 < threads &&
           pthread_create(&others[made], nullptr, work_of, &shared) == 0) {
        ++made;
    }
    work(&shared);
    for (u32 number = 0; number < made; ++number) {
        pthread_join(others[number], nullptr);
    }
    delete[] others;
}

}  // namespace shim
