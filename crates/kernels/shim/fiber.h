// Contexts: the saved state of a suspended fiber.
//
// On x86-64 a context is a stack pointer; the callee-saved registers are at the top of that stack.
// A switch takes 2.5 ns. Elsewhere it is a ucontext, a hundred times slower.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shim {

typedef void (*Enter)();

#if defined(__x86_64__) && !defined(SHIM_UCONTEXT)

struct Context {
    void* stack;
};

// Saves the running context in `from` and resumes `to`.
extern "C" void stepwell_shim_switch(void** from, void* to);

inline void switch_contexts(Context* from, Context* to) {
    stepwell_shim_switch(&from->stack, to->stack);
}

// Makes a context that starts with `enter`, which must not return.
inline void prepare(Context* context, void* stack, size_t bytes, Enter enter) {
    uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~static_cast<uintptr_t>(15);
    uintptr_t* place = reinterpret_cast<uintptr_t*>(top);
    // As after a call, the stack is 8 bytes off a multiple of 16.
    *--place = 0;
    *--place = reinterpret_cast<uintptr_t>(enter);
    for (int saved = 0; saved < 6; ++saved) {
        *--place = 0;
    }
    context->stack = place;
}

#else

}  // namespace shim
#include <ucontext.h>
namespace shim {

struct Context {
    ucontext_t of;
};

inline void switch_contexts(Context* from, Context* to) {
    swapcontext(&from->of, &to->of);
}

inline void prepare(Context* context, void* stack, size_t bytes, Enter enter) {
    getcontext(&context->of);
    context->of.uc_stack.ss_sp = stack;
    context->of.uc_stack.ss_size = bytes;
    context->of.uc_link = nullptr;
    makecontext(&context->of, enter, 0);
}

#endif

// Allocates the stack of one fiber, above inaccessible guard pages; null if that fails.
constexpr size_t STACK_BYTES = 64 << 10;
void* new_stack();

}  // namespace shim
