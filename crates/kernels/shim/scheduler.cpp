// Runs one block: lanes in a loop, fibers in random order between synchronization points.
//
// A fiber that waits switches directly to another that is ready. One that ends hands its stack to a
// thread that has not started yet, so threads that never wait share a stack. If no thread is ready
// but some have not ended, the block is stuck and fails with the reason.

#include <new>

#include "worker.h"

namespace shim {

__thread Index thread_index;
__thread Index block_index;
__thread Index block_size;
__thread Index grid_size;
__thread bool backward;

__thread Worker* here;

static void to_main(Worker* worker) {
    change_strand(worker->main_strand);
    switch_contexts(&worker->abandoned, &worker->main);
}

void leave_block(Worker* worker) {
    worker->failed = true;
    worker->fault->block = block_index.x;
    worker->fault->thread = thread_index.x;
    if (worker->request->kind == LANES) {
        longjmp(worker->out_of_lanes, 1);
    }
    arrive(&worker->ended);
    to_main(worker);
}

// Takes a random ready thread; NOBODY if there is none.
static u32 pick(Worker* worker) {
    if (worker->ready_count == 0) {
        return NOBODY;
    }
    u16* place = &worker->ready[worker->dice.below(worker->ready_count)];
    const u32 picked = *place;
    *place = worker->ready[--worker->ready_count];
    return picked;
}

static void become(Worker* worker, u32 thread) {
    worker->current = thread;
    worker->fibers[thread].state = RUNNING;
    thread_index.x = thread;
}

// Fails with the reason why no thread can run.
static void stuck(Worker* worker) {
    const u32 threads = worker->request->threads;
    const u32 ended = threads - worker->live;
    for (u32 thread = 0; thread < threads; ++thread) {
        const Fiber& fiber = worker->fibers[thread];
        const Warp& warp = worker->warps[thread / WARP];
        if (fiber.state != AT_WARP) {
            continue;
        }
        if (fiber.mask & warp.done) {
            FAIL(worker, BAD_MASK, fiber.site, "thread %u waits for lanes that have ended: %08x",
                 thread, fiber.mask & warp.done);
        }
        for (u32 other = thread + 1; other < threads && other / WARP == thread / WARP; ++other) {
            const Fiber& beside = worker->fibers[other];
            if (beside.state == AT_WARP && (beside.mask & fiber.mask) &&
                !(same_site(beside.site, fiber.site) && beside.mask == fiber.mask)) {
                FAIL(worker, MIXED_WARP, fiber.site,
                     "threads %u and %u of a warp wait in different operations: the other at %s:%u",
                     thread, other, beside.site.file, beside.site.line);
            }
        }
    }
    if (worker->at_barrier > 0 && worker->at_barrier == worker->live) {
        FAIL(worker, DIVERGENT_BARRIER, worker->barrier,
             "%u of %u threads wait at a barrier, the others have ended", worker->at_barrier,
             threads);
    }
    FAIL(worker, DEADLOCK, worker->at_barrier > 0 ? worker->barrier : Site{"", 0},
         "%u threads wait at a barrier, %u in a warp, %u have ended", worker->at_barrier,
         worker->live - worker->at_barrier, ended);
}

static void enter();

// Prepares the stack and context of a thread that has not started.
static void begin(Worker* worker, u32 thread) {
    Fiber* fiber = &worker->fibers[thread];
    if (STACK_OF_ITS_OWN) {
        fiber->stack = fiber->stack == nullptr ? new_stack() : fiber->stack;
        fiber->strand = fiber->strand == nullptr ? new_strand() : fiber->strand;
    } else if (!worker->stacks.empty()) {
        fiber->stack = worker->stacks.back();
        worker->stacks.pop_back();
    } else {
        fiber->stack = new_stack();
    }
    if (fiber->stack == nullptr) {
        FAIL(worker, OUT_OF_MEMORY, (Site{"", 0}), "no room for the stack of a thread");
    }
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, STACK_BYTES);
    prepare(&fiber->context, fiber->stack, STACK_BYTES, enter);
}

static void go_over(Worker* worker, Context* from, u32 to) {
    if (worker->fibers[to].state == FRESH) {
        begin(worker, to);
    }
    become(worker, to);
    change_strand(worker->fibers[to].strand);
    switch_contexts(from, &worker->fibers[to].context);
}

// Runs threads on one stack: when one ends, another that has not started takes over the stack.
static void enter() {
    Worker* worker = here;
    for (;;) {
        const u32 self = worker->current;
        depart(&worker->began);
        worker->request->entry(worker->request->arguments);
        arrive(&worker->ended);
        worker->fibers[self].state = DONE;
        worker->warps[self / WARP].done |= 1u << self % WARP;
        --worker->live;
        const u32 next = pick(worker);
        if (next == NOBODY && worker->live > 0) {
            stuck(worker);
        }
        if (next != NOBODY && worker->fibers[next].state == FRESH && !STACK_OF_ITS_OWN) {
            worker->fibers[next].stack = worker->fibers[self].stack;
            become(worker, next);
            continue;
        }
        if (!STACK_OF_ITS_OWN) {
            worker->stacks.push_back(worker->fibers[self].stack);
        }
        if (next == NOBODY) {
            to_main(worker);
        } else {
            go_over(worker, &worker->abandoned, next);
        }
    }
}

void wait(Worker* worker) {
    const u32 self = worker->current;
    const u32 next = pick(worker);
    if (next == NOBODY) {
        stuck(worker);
    }
    if (next == self) {
        become(worker, self);
        return;
    }
    // This fiber may never resume, since another may fail.
    arrive(&worker->ended);
    go_over(worker, &worker->fibers[self].context, next);
}

void yield() {
    Worker* worker = here;
    if (worker->request->kind == LANES || worker->dice.below(4) != 0) {
        return;
    }
    make_ready(worker, worker->current);
    wait(worker);
}

void barrier(Site site) {
    Worker* worker = here;
    if (worker->request->kind == LANES) {
        FAIL(worker, LANES_MEET, site, "a barrier in a kernel whose lanes may not meet");
    }
    if (worker->at_barrier == 0) {
        worker->barrier = site;
    } else if (!same_site(site, worker->barrier)) {
        FAIL(worker, DIVERGENT_BARRIER, site, "threads wait at another barrier: %s:%u",
             worker->barrier.file, worker->barrier.line);
    }
    arrive(&worker->met);
    worker->fibers[worker->current].state = AT_BARRIER;
    worker->fibers[worker->current].site = site;
    if (++worker->at_barrier == worker->request->threads) {
        worker->at_barrier = 0;
        for (u32 thread = 0; thread < worker->request->threads; ++thread) {
            make_ready(worker, thread);
        }
    }
    wait(worker);
    depart(&worker->met);
}

void* shared(u32 bytes, u32 alignment, Site site) {
    Worker* worker = here;
    if (worker->request->kind == LANES) {
        FAIL(worker, LANES_MEET, site, "shared memory where lanes may not meet");
    }
    void* part = worker->shared.part(bytes, alignment, site, worker->fault);
    if (part == nullptr) {
        leave_block(worker);
    }
    return part;
}

void* dynamic_shared(Site site) {
    Worker* worker = here;
    if (worker->request->kind == LANES) {
        FAIL(worker, LANES_MEET, site, "shared memory where lanes may not meet");
    }
    void* part = worker->shared.dynamic(site, worker->fault);
    if (part == nullptr) {
        leave_block(worker);
    }
    return part;
}

static void run_lanes(Worker* worker) {
    backward = worker->dice.below(2) != 0;
    if (setjmp(worker->out_of_lanes) == 0) {
        worker->request->entry(worker->request->arguments);
    }
}

static void run_fibers(Worker* worker) {
    const u32 threads = worker->request->threads;
    worker->live = threads;
    worker->at_barrier = 0;
    worker->ready_count = 0;
    memset(worker->warps, 0, sizeof worker->warps);
    for (u32 thread = 0; thread < threads; ++thread) {
        worker->fibers[thread].state = FRESH;
        make_ready(worker, thread);
    }
    worker->shared.begin(worker->request->shared_bytes);
    worker->main_strand = current_strand();
    arrive(&worker->began);
    go_over(worker, &worker->main, pick(worker));
    depart(&worker->ended);
    if (!worker->failed && !worker->shared.is_intact(worker->fault)) {
        worker->failed = true;
        worker->fault->block = block_index.x;
    }
}

bool run_block(Worker* worker, const Request& request, u32 block, Dice dice, Fault* fault) {
    here = worker;
    worker->request = &request;
    worker->fault = fault;
    worker->dice = dice;
    block_index.x = block;
    block_size.x = request.threads;
    grid_size.x = request.blocks;
    if (request.kind == LANES) {
        run_lanes(worker);
    } else {
        run_fibers(worker);
    }
    return !worker->failed;
}

bool is_failed(const Worker* worker) {
    return worker->failed;
}

Worker* new_worker() {
    return new (std::nothrow) Worker();
}

}  // namespace shim
