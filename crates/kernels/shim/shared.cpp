#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "run.h"
#include "sanitizers.h"

namespace shim {

// Shared memory that a block has on any device without opting in to more.
static constexpr u32 SHARED_BYTES_MAX = 48 << 10;
static constexpr u32 RED_ZONE_BYTES = 256;
static constexpr u8 RED = 0xA5;
// A NaN in every format and an invalid index, so that reads of unwritten memory are noticed.
static constexpr u8 STALE = 0xFF;

SharedMemory::~SharedMemory() {
    for (u32 i = 0; i < count_; ++i) {
        ASAN_UNPOISON_MEMORY_REGION(parts_[i].memory, parts_[i].bytes + 2 * RED_ZONE_BYTES);
        free(parts_[i].memory);
    }
}

// A loop, since ThreadSanitizer would attribute a memset to the fiber that came first.
static void fill(u8* memory, u32 bytes) {
    volatile u8* places = memory;
    for (u32 byte = 0; byte < bytes; ++byte) {
        places[byte] = STALE;
    }
}

void SharedMemory::begin(u32 dynamic_bytes) {
    dynamic_bytes_ = dynamic_bytes;
    used_bytes_ = 0;
    for (u32 i = 0; i < count_; ++i) {
        parts_[i].in_use = false;
    }
}

void* SharedMemory::part(u32 bytes, u32 alignment, Site site, Fault* fault) {
    Part* part = nullptr;
    for (u32 i = 0; i < count_ && part == nullptr; ++i) {
        const bool same = parts_[i].site.line == site.line && parts_[i].site.file == site.file;
        part = same && parts_[i].bytes == bytes ? &parts_[i] : nullptr;
    }
    depart(this);
    if (part != nullptr && part->in_use) {
        return part->memory + RED_ZONE_BYTES;
    }
    used_bytes_ += bytes;
    if (used_bytes_ > SHARED_BYTES_MAX || alignment > RED_ZONE_BYTES) {
        describe(fault, SHARED_SIZE, site, "%u bytes of shared memory, %u at most", used_bytes_,
                 SHARED_BYTES_MAX);
        return nullptr;
    }
    if (part == nullptr) {
        const u32 with_zones = (bytes + 2 * RED_ZONE_BYTES + RED_ZONE_BYTES - 1) / RED_ZONE_BYTES;
        void* memory = count_ < PARTS_MAX
                           ? aligned_alloc(RED_ZONE_BYTES, with_zones * RED_ZONE_BYTES)
                           : nullptr;
        if (memory == nullptr) {
            describe(fault, OUT_OF_MEMORY, site, "no room for %u bytes of shared memory", bytes);
            return nullptr;
        }
        part = &parts_[count_++];
        *part = Part{site, bytes, static_cast<u8*>(memory), false};
        memset(part->memory, RED, bytes + 2 * RED_ZONE_BYTES);
        // To ThreadSanitizer, the fiber that came first did all this.
        arrive(this);
        ASAN_POISON_MEMORY_REGION(part->memory, RED_ZONE_BYTES);
        ASAN_POISON_MEMORY_REGION(part->memory + RED_ZONE_BYTES + bytes, RED_ZONE_BYTES);
    }
    part->in_use = true;
    fill(part->memory + RED_ZONE_BYTES, bytes);
    return part->memory + RED_ZONE_BYTES;
}

void* SharedMemory::dynamic(Site, Fault* fault) {
    // The same part for every site.
    return part(dynamic_bytes_, 16, Site{"dynamic shared memory", 0}, fault);
}

bool SharedMemory::is_intact(Fault* fault) const {
#if !defined(__SANITIZE_ADDRESS__)
    for (u32 i = 0; i < count_; ++i) {
        const Part& part = parts_[i];
        const u8* after = part.memory + RED_ZONE_BYTES + part.bytes;
        for (u32 byte = 0; part.in_use && byte < RED_ZONE_BYTES; ++byte) {
            if (part.memory[byte] != RED || after[byte] != RED) {
                const bool before = part.memory[byte] != RED;
                describe(fault, SHARED_OVERRUN, part.site,
                         "shared memory of %u bytes: written %u bytes %s it", part.bytes,
                         before ? RED_ZONE_BYTES - byte : byte, before ? "before" : "behind");
                return false;
            }
        }
    }
#else
    (void)fault;
#endif
    return true;
}

void describe(Fault* fault, FaultKind kind, Site site, const char* format, ...) {
    fault->kind = kind;
    fault->line = site.line;
    snprintf(fault->file, sizeof fault->file, "%s", site.file);
    va_list values;
    va_start(values, format);
    vsnprintf(fault->text, sizeof fault->text, format, values);
    va_end(values);
}

}  // namespace shim
