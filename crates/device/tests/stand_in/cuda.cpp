// What the driver of Stepwell calls of libcuda, and a little that tests call.
//
// It is stricter than a device where that finds mistakes: calls without a context, or with another
// than the stream's, are refused; memory that is given back is overwritten at once.

#include "device.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace {

const int DEVICES = 2;
const size_t MEMORY = size_t(1) << 30;

Context contexts[DEVICES];
thread_local Context* current = nullptr;

// What a stream may hold: the operations that the driver promises, and events beside them.
const size_t HELD_MAX = 1024 + 100;

struct Piece {
    size_t bytes;
    // None of the host's.
    Context* owner;
};

std::map<uintptr_t, Piece> pieces;

// Whether bytes lie in a piece of this owner.
bool owns(Context* owner, uintptr_t address, size_t bytes) {
    std::lock_guard<std::mutex> held(lock);
    auto after = pieces.upper_bound(address);
    if (after == pieces.begin()) {
        return false;
    }
    const auto& [start, piece] = *--after;
    return piece.owner == owner && address + bytes <= start + piece.bytes;
}

// Runs a kernel, and counts its parameters: what a test gives.
typedef void (*Run)(const char* name, unsigned blocks, unsigned threads, unsigned shared,
                    const void* const* arguments);
typedef unsigned (*Count)(const char* name);
Run run_kernel = nullptr;
Count count_parameters = nullptr;

int number(const char* name, int otherwise) {
    const char* text = getenv(name);
    return text ? atoi(text) : otherwise;
}

// What is said of one device: a variable that has its number behind the name.
int number_of(const char* name, int device, int otherwise) {
    return number((std::string(name) + std::to_string(device)).c_str(), otherwise);
}

int ready() {
    std::lock_guard<std::mutex> held(lock);
    return lost ? lost : current ? SUCCESS : INVALID_CONTEXT;
}

int ready_for(Stream* stream) {
    const int code = ready();
    return code ? code : stream && stream->context == current ? SUCCESS : INVALID_HANDLE;
}

int give(Stream* stream, std::function<void()> what) {
    const int code = ready_for(stream);
    if (code != SUCCESS) {
        return code;
    }
    {
        std::lock_guard<std::mutex> held(lock);
        if (stream->work.size() > HELD_MAX) {
            return INVALID_VALUE;
        }
    }
    stream->push(std::move(what));
    return SUCCESS;
}

int copy(Context* to_owner, uintptr_t to, Context* from_owner, uintptr_t from, size_t bytes,
         Stream* stream) {
    if (bytes == 0 || !owns(to_owner, to, bytes) || !owns(from_owner, from, bytes)) {
        return INVALID_VALUE;
    }
    return give(stream, [=] {
        memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    });
}

void* allocate(size_t bytes, Context* owner) {
    void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(memory, 0xff, bytes);
    std::lock_guard<std::mutex> held(lock);
    pieces[reinterpret_cast<uintptr_t>(memory)] = Piece{bytes, owner};
    return memory;
}

size_t give_back(void* memory) {
    std::lock_guard<std::mutex> held(lock);
    const auto found = pieces.find(reinterpret_cast<uintptr_t>(memory));
    if (found == pieces.end()) {
        abort();
    }
    const size_t bytes = found->second.bytes;
    memset(memory, 0xfd, bytes);
    free(memory);
    pieces.erase(found);
    return bytes;
}

}  // namespace

extern "C" {

void stand_in_kernels(Run run, Count count) {
    run_kernel = run;
    count_parameters = count;
}

void stand_in_lose(int code) {
    std::lock_guard<std::mutex> held(lock);
    lost = code;
}

size_t stand_in_allocations() {
    std::lock_guard<std::mutex> held(lock);
    return pieces.size();
}

int stand_in_contexts() { return contexts[0].retained + contexts[1].retained; }

int cuInit(unsigned) { return number("STAND_IN_INIT", SUCCESS); }

// NVIDIA's own compiler asks the driver for its inner tables, and takes no for an answer.
int cuGetExportTable(const void**, const void*) { return NOT_FOUND; }

int cuDriverGetVersion(int* version) {
    *version = number("STAND_IN_VERSION", 12040);
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    *count = number("STAND_IN_DEVICES", DEVICES);
    return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char* name, int bytes, int) {
    strncpy(name, "stand-in", bytes);
    return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int which, int) {
    switch (which) {
        case 16:  // multiprocessors
            *value = 2;
            return SUCCESS;
        case 75:  // major
            *value = number("STAND_IN_ARCHITECTURE", 90) / 10;
            return SUCCESS;
        case 76:  // minor
            *value = number("STAND_IN_ARCHITECTURE", 90) % 10;
            return SUCCESS;
        default:
            return INVALID_VALUE;
    }
}

int cuDeviceCanAccessPeer(int* can, int device, int other) {
    *can = device != other;
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = MEMORY;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(Context** context, int device) {
    if (const int code = number_of("STAND_IN_HELD_", device, SUCCESS)) {
        return code;
    }
    contexts[device].device = device;
    contexts[device].retained += 1;
    *context = contexts + device;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    contexts[device].retained -= 1;
    return SUCCESS;
}

int cuCtxSetCurrent(Context* context) {
    current = context;
    return lost;
}

int cuCtxEnablePeerAccess(Context* other, unsigned) {
    return other == current ? INVALID_VALUE : ready();
}

int cuMemGetInfo_v2(size_t* free_bytes, size_t* all) {
    *all = MEMORY;
    *free_bytes = 0;
    if (current) {
        // In MiB, where other processes have the rest.
        const size_t mib = number_of("STAND_IN_FREE_", current->device, MEMORY >> 20);
        *free_bytes = std::max(mib << 20, current->used) - current->used;
    }
    return ready();
}

int cuMemAlloc_v2(uintptr_t* address, size_t bytes) {
    if (const int code = ready()) {
        return code;
    }
    if (bytes > MEMORY - current->used) {
        return OUT_OF_MEMORY;
    }
    current->used += bytes;
    *address = reinterpret_cast<uintptr_t>(allocate(bytes, current));
    return SUCCESS;
}

int cuMemFree_v2(uintptr_t address) {
    if (const int code = ready()) {
        return code;
    }
    current->used -= give_back(reinterpret_cast<void*>(address));
    return SUCCESS;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
    if (const int code = ready()) {
        return code;
    }
    *memory = allocate(bytes, nullptr);
    return SUCCESS;
}

int cuMemFreeHost(void* memory) {
    if (const int code = ready()) {
        return code;
    }
    give_back(memory);
    return SUCCESS;
}

int cuStreamCreate(Stream** stream, unsigned) {
    if (const int code = ready()) {
        return code;
    }
    *stream = new Stream(current);
    return SUCCESS;
}

int cuStreamSynchronize(Stream* stream) {
    if (const int code = ready_for(stream)) {
        return code;
    }
    std::unique_lock<std::mutex> held(lock);
    moved.wait(held, [=] { return stream->idle(); });
    return lost;
}

int cuStreamDestroy_v2(Stream* stream) {
    {
        std::lock_guard<std::mutex> held(lock);
        stream->ended = true;
        moved.notify_all();
    }
    stream->thread.join();
    delete stream;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(Stream* stream, unsigned mode) {
    const unsigned relaxed = 2;
    if (const int code = ready_for(stream)) {
        return code;
    }
    std::lock_guard<std::mutex> held(lock);
    if (mode != relaxed || stream->captured) {
        return INVALID_VALUE;
    }
    stream->captured = std::make_shared<Work>();
    return SUCCESS;
}

int cuStreamEndCapture(Stream* stream, std::shared_ptr<Work>** graph) {
    if (const int code = ready_for(stream)) {
        return code;
    }
    std::lock_guard<std::mutex> held(lock);
    if (!stream->captured) {
        return INVALID_VALUE;
    }
    *graph = new std::shared_ptr<Work>(std::move(stream->captured));
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(std::shared_ptr<Work>** exec, std::shared_ptr<Work>* graph,
                                unsigned long long flags) {
    if (flags != 0) {
        return INVALID_VALUE;
    }
    *exec = new std::shared_ptr<Work>(*graph);
    return ready();
}

int cuGraphLaunch(std::shared_ptr<Work>* exec, Stream* stream) {
    const auto work = *exec;
    return give(stream, [=] {
        for (const auto& each : *work) {
            each();
        }
    });
}

int cuGraphDestroy(std::shared_ptr<Work>* graph) {
    delete graph;
    return SUCCESS;
}

int cuGraphExecDestroy(std::shared_ptr<Work>* exec) {
    delete exec;
    return SUCCESS;
}

int cuEventCreate(Event** event, unsigned) {
    if (const int code = ready()) {
        return code;
    }
    *event = new Event{current};
    return SUCCESS;
}

int cuEventDestroy_v2(Event* event) {
    delete event;
    return SUCCESS;
}

int cuEventRecord(Event* event, Stream* stream) {
    if (const int code = ready_for(stream)) {
        return code;
    }
    if (event->context != stream->context) {
        return INVALID_HANDLE;
    }
    const auto moments = event->moments;
    std::lock_guard<std::mutex> held(lock);
    const uint64_t number = ++moments->recorded;
    stream->work.push_back([=] {
        std::lock_guard<std::mutex> held(lock);
        moments->over = number > moments->over ? number : moments->over;
        moved.notify_all();
    });
    moved.notify_all();
    return SUCCESS;
}

int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    if (const int code = ready_for(stream)) {
        return code;
    }
    const auto moments = event->moments;
    std::lock_guard<std::mutex> held(lock);
    const uint64_t number = moments->recorded;
    stream->work.push_back([=] {
        std::unique_lock<std::mutex> held(lock);
        moved.wait(held, [=] { return moments->over >= number; });
    });
    moved.notify_all();
    return SUCCESS;
}

int cuEventQuery(Event* event) {
    std::lock_guard<std::mutex> held(lock);
    const bool over = event->moments->over >= event->moments->recorded;
    return lost ? lost : over ? SUCCESS : NOT_READY;
}

int cuEventSynchronize(Event* event) {
    std::unique_lock<std::mutex> held(lock);
    const auto moments = event->moments;
    const uint64_t number = moments->recorded;
    moved.wait(held, [=] { return moments->over >= number; });
    return lost;
}

int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, Stream* stream) {
    return copy(current, to, nullptr, reinterpret_cast<uintptr_t>(from), bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, Stream* stream) {
    return copy(nullptr, reinterpret_cast<uintptr_t>(to), current, from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, Stream* stream) {
    return copy(current, to, current, from, bytes, stream);
}

int cuMemcpyPeerAsync(uintptr_t to, Context* to_context, uintptr_t from, Context* from_context,
                      size_t bytes, Stream* stream) {
    const bool wrong = to_context != current || from_context == current || !from_context;
    return wrong ? INVALID_VALUE : copy(to_context, to, from_context, from, bytes, stream);
}

int cuMemsetD8Async(uintptr_t to, unsigned char with, size_t bytes, Stream* stream) {
    if (!owns(current, to, bytes)) {
        return INVALID_VALUE;
    }
    return give(stream, [=] { memset(reinterpret_cast<void*>(to), with, bytes); });
}

int cuModuleLoadData(void** module, const void* image) {
    if (const int code = ready()) {
        return code;
    }
    if (memcmp(image, "\x7f" "ELF", 4) != 0) {
        return INVALID_VALUE;
    }
    *module = new int;
    return SUCCESS;
}

int cuModuleUnload(void* module) {
    delete static_cast<int*>(module);
    return SUCCESS;
}

int cuModuleGetFunction(std::string** function, void*, const char* name) {
    if (!run_kernel) {
        return NOT_FOUND;
    }
    static std::map<std::string, std::string> names;
    std::lock_guard<std::mutex> held(lock);
    *function = &(names[name] = name);
    return SUCCESS;
}

int cuFuncSetAttribute(void*, int, int) { return SUCCESS; }

int cuLaunchKernel(std::string* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared, Stream* stream,
                   void** arguments, void**) {
    if (y != 1 || z != 1 || threads_y != 1 || threads_z != 1 || x == 0 || threads == 0) {
        return INVALID_VALUE;
    }
    std::vector<uint64_t> values(count_parameters(function->c_str()));
    for (size_t i = 0; i < values.size(); ++i) {
        memcpy(&values[i], arguments[i], 8);
    }
    return give(stream, [=] {
        std::vector<const void*> places;
        for (const uint64_t& value : values) {
            places.push_back(&value);
        }
        run_kernel(function->c_str(), x, threads, shared, places.data());
    });
}

int cuGetErrorName(int code, const char** text) {
    *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_STAND_IN";
    return SUCCESS;
}

int cuGetErrorString(int code, const char** text) {
    *text = code == 700 ? "an illegal memory access was encountered" : "something else";
    return SUCCESS;
}

}  // extern "C"
