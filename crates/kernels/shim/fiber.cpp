#include "fiber.h"

#include <sys/mman.h>

namespace shim {

#if defined(__x86_64__) && !defined(SHIM_UCONTEXT)

asm(R"(
    .text
    .globl stepwell_shim_switch
    .hidden stepwell_shim_switch
    .type stepwell_shim_switch, @function
stepwell_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
    .size stepwell_shim_switch, . - stepwell_shim_switch
)");

#endif

void* new_stack() {
    constexpr size_t GUARD_BYTES = 16 << 10;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* all = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED || mprotect(all, GUARD_BYTES, PROT_NONE) != 0) {
        return nullptr;
    }
    return static_cast<char*>(all) + GUARD_BYTES;
}

}  // namespace shim
