// Reports fibers, stacks and red zones to sanitizers; does nothing without a sanitizer.
//
// To ThreadSanitizer a fiber is a thread, and a switch is no synchronization: only barriers and the
// start and end of a block are. So it detects two threads of a block that write to one place
// without a barrier between them.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) static_cast<void>(0)
#endif

namespace shim {

#if defined(SHIM_TSAN)

extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* place);
void __tsan_release(void* place);
}

constexpr bool STACK_OF_ITS_OWN = true;

inline void* current_strand() {
    return __tsan_get_current_fiber();
}
inline void* new_strand() {
    return __tsan_create_fiber(0);
}
inline void change_strand(void* to) {
    constexpr unsigned NO_ORDER = 1;
    __tsan_switch_to_fiber(to, NO_ORDER);
}
inline void arrive(void* place) {
    __tsan_release(place);
}
inline void depart(void* place) {
    __tsan_acquire(place);
}

#else

constexpr bool STACK_OF_ITS_OWN = false;

inline void* current_strand() {
    return nullptr;
}
inline void* new_strand() {
    return nullptr;
}
inline void change_strand(void*) {}
inline void arrive(void*) {}
inline void depart(void*) {}

#endif

}  // namespace shim
