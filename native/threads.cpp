#include "threads.h"

#include <system_error>

namespace {
// About 10 microseconds: longer than an operation of a small network. If the others have no core of their own, waiting
// longer only keeps them from running.
constexpr int SPINS = 500;

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

template <class Condition> bool spin_until(Condition condition) {
    for (int i = 0; i < SPINS; i++) {
        if (condition()) return true;
        pause();
    }
    return condition();
}
} // namespace

void Barrier::wait() {
    const int64_t current = round.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
        arrived.store(0, std::memory_order_relaxed);
        round.store(current + 1, std::memory_order_release);
        return;
    }
    while (!spin_until([&] { return round.load(std::memory_order_acquire) != current; })) std::this_thread::yield();
}

Team::Team(int64_t threads) {
    try {
        for (int64_t part = 1; part < threads; part++) workers.emplace_back(&Team::serve, this, part);
    } catch (const std::system_error &) {
        // The system gives no more threads: fewer do the same work.
    }
}

Team::~Team() {
    {
        std::lock_guard<std::mutex> lock(mutex);
        ending = true;
        job.fetch_add(1, std::memory_order_release);
    }
    changed.notify_all();
    for (std::thread &worker : workers) worker.join();
}

void Team::run(const std::function<void(int64_t)> &given) {
    if (workers.empty()) return given(0);
    {
        std::lock_guard<std::mutex> lock(mutex);
        work = &given;
        done.store(0, std::memory_order_relaxed);
        job.fetch_add(1, std::memory_order_release);
    }
    changed.notify_all();
    given(0);
    const int64_t others = (int64_t)workers.size();
    while (!spin_until([&] { return done.load(std::memory_order_acquire) == others; })) std::this_thread::yield();
}

void Team::serve(int64_t part) {
    for (int64_t seen = 0;;) {
        if (!spin_until([&] { return job.load(std::memory_order_acquire) != seen; })) {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [&] { return job.load(std::memory_order_acquire) != seen; });
        }
        seen++;
        const std::function<void(int64_t)> *mine;
        {
            std::lock_guard<std::mutex> lock(mutex);
            if (ending) return;
            mine = work;
        }
        (*mine)(part);
        done.fetch_add(1, std::memory_order_release);
    }
}
