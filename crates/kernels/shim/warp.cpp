// Operations of a warp: all lanes of a mask join the same one, and each gets its result.

#include "worker.h"

namespace shim {

// Computes each lane's result of an operation and makes the fibers ready.
static void resolve(Worker* worker, u32 first, u32 mask) {
    u8 results[WARP][16];
    u32 ballot = 0;
    for (u32 lane = 0; lane < WARP; ++lane) {
        u32 vote = 0;
        if (mask >> lane & 1) {
            memcpy(&vote, worker->fibers[first + lane].value, sizeof vote);
        }
        ballot |= (vote != 0 ? 1u : 0u) << lane;
    }
    for (u32 lane = 0; lane < WARP; ++lane) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        const Fiber& fiber = worker->fibers[first + lane];
        const i32 own = static_cast<i32>(lane);
        i32 source = own;
        switch (fiber.operation) {
            case SYNC: break;
            case BALLOT: break;
            case SHUFFLE: source = fiber.operand; break;
            case SHUFFLE_UP: source = own < fiber.operand ? own : own - fiber.operand; break;
            case SHUFFLE_DOWN: source = own + fiber.operand > 31 ? own : own + fiber.operand; break;
            case SHUFFLE_XOR: source = own ^ fiber.operand; break;
        }
        if (source < 0 || source > 31 || !(mask >> source & 1)) {
            FAIL(worker, BAD_SOURCE, fiber.site, "lane %u takes the value of lane %d, mask %08x",
                 lane, source, mask);
        }
        memcpy(results[lane], worker->fibers[first + static_cast<u32>(source)].value, 16);
        if (fiber.operation == BALLOT) {
            memcpy(results[lane], &ballot, sizeof ballot);
        }
    }
    for (u32 lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1) {
            memcpy(worker->fibers[first + lane].value, results[lane], 16);
            make_ready(worker, first + lane);
        }
    }
}

static void check_mask(Worker* worker, u32 mask, Site site) {
    const u32 self = worker->current;
    const u32 first = self / WARP * WARP;
    const u32 lanes = min(WARP, worker->request->threads - first);
    const u32 there = lanes == WARP ? 0xffffffff : (1u << lanes) - 1;
    const u32 absent = mask & (~there | worker->warps[self / WARP].done);
    if (absent != 0) {
        FAIL(worker, BAD_MASK, site, "mask %08x names lanes that there are not: %08x", mask,
             absent);
    }
    if (!(mask >> self % WARP & 1)) {
        FAIL(worker, BAD_MASK, site, "lane %u is not in its own mask %08x", self % WARP, mask);
    }
}

void meet(Operation operation, u32 mask, void* value, u32 bytes, i32 operand, Site site) {
    Worker* worker = here;
    if (worker->request->kind == LANES) {
        FAIL(worker, LANES_MEET, site, "an operation of a warp where lanes may not meet");
    }
    check_mask(worker, mask, site);
    const u32 self = worker->current;
    const u32 first = self / WARP * WARP;
    Warp* warp = &worker->warps[self / WARP];
    Fiber* fiber = &worker->fibers[self];
    if (operation == SYNC) {
        arrive(&warp->meeting);
    }
    fiber->state = AT_WARP;
    fiber->operation = operation;
    fiber->mask = mask;
    fiber->operand = operand;
    fiber->bytes = bytes;
    fiber->site = site;
    memcpy(fiber->value, value, bytes);
    warp->waiting |= 1u << self % WARP;
    if ((warp->waiting & mask) == mask) {
        for (u32 lane = 0; lane < WARP; ++lane) {
            const Fiber& other = worker->fibers[first + lane];
            const bool same = other.mask == mask && same_site(other.site, site);
            if ((mask >> lane & 1) && !(same && other.operation == operation)) {
                FAIL(worker, MIXED_WARP, site, "lane %u waits in another operation, at %s:%u",
                     lane, other.site.file, other.site.line);
            }
        }
        warp->waiting &= ~mask;
        resolve(worker, first, mask);
    }
    wait(worker);
    memcpy(value, fiber->value, bytes);
    if (operation == SYNC) {
        depart(&warp->meeting);
    }
}

}  // namespace shim
