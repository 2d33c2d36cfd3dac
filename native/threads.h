// A team of threads that run the same function side by side, again and again.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

// Waits until all `count` threads have come. The wait between two operations is short: spin before giving way.
class Barrier {
  public:
    explicit Barrier(int64_t count) : count(count) {}
    void wait();

  private:
    const int64_t count;
    std::atomic<int64_t> arrived{0}, round{0};
};

class Team {
  public:
    explicit Team(int64_t threads);
    ~Team();
    int64_t size() const { return (int64_t)workers.size() + 1; }
    // Calls work(part) for every part on a thread of its own, part 0 on this one, and returns when all are done.
    void run(const std::function<void(int64_t)> &work);

  private:
    void serve(int64_t part);

    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable changed;
    const std::function<void(int64_t)> *work = nullptr;
    std::atomic<int64_t> job{0}, done{0};
    bool ending = false;
};
