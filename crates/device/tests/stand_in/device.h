// A device that stands in for NVIDIA's: its memory is the host's, and each stream has a thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

// Codes of the driver's library.
enum Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
};

// One lock and one signal for all that happens.
inline std::mutex lock;
inline std::condition_variable moved;

// What every call says from some moment on, as a device that is lost does.
inline int lost = SUCCESS;

struct Context {
    int device = 0;
    int retained = 0;
    size_t used = 0;
};

struct Moments {
    uint64_t recorded = 0;
    uint64_t over = 0;
};

struct Event {
    Context* context;
    std::shared_ptr<Moments> moments = std::make_shared<Moments>();
};

// Operations, one after another.
using Work = std::deque<std::function<void()>>;

struct Stream {
    Context* context;
    Work work;
    bool busy = false;
    bool ended = false;
    // What is captured goes there in place of `work`.
    std::shared_ptr<Work> captured;
    std::thread thread;

    explicit Stream(Context* of) : context(of), thread([this] { drive(); }) {}

    void push(std::function<void()> what) {
        std::lock_guard<std::mutex> held(lock);
        (captured ? *captured : work).push_back(std::move(what));
        moved.notify_all();
    }

    bool idle() const { return work.empty() && !busy; }

    void drive() {
        uint64_t drawn = reinterpret_cast<uintptr_t>(this) | 1;
        std::unique_lock<std::mutex> held(lock);
        for (;;) {
            moved.wait(held, [this] { return ended || !work.empty(); });
            if (work.empty()) {
                return;
            }
            auto what = std::move(work.front());
            work.pop_front();
            busy = true;
            held.unlock();
            // Now and then a stream is late.
            drawn = drawn * 6364136223846793005u + 1442695040888963407u;
            if (drawn >> 59 == 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(drawn >> 40 & 0x1ff));
            }
            what();
            held.lock();
            busy = false;
            moved.notify_all();
        }
    }
};
