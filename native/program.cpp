#include "program.h"

#include <algorithm>
#include <ctime>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// On this thread, numbers too small for all their digits may become zero for a while. A processor may take a hundred times
// as long for them, and the gradients of a network that has learnt its images are full of them.
class Subnormals {
#if defined(__SSE2__)
    unsigned before = _mm_getcsr();

  public:
    explicit Subnormals(bool are_zero) { _mm_setcsr(are_zero ? before | 0x8040 : before); }
    ~Subnormals() { _mm_setcsr(before); }
#elif defined(__aarch64__)
    uint64_t before;

  public:
    explicit Subnormals(bool are_zero) {
        asm volatile("mrs %0, fpcr" : "=r"(before));
        asm volatile("msr fpcr, %0" : : "r"(are_zero ? before | (uint64_t)1 << 24 : before));
    }
    ~Subnormals() { asm volatile("msr fpcr, %0" : : "r"(before)); }
#else
  public:
    explicit Subnormals(bool) {}
#endif
    Subnormals(const Subnormals &) = delete;
};

// Of this thread alone, so that another program on the same core does not change the choice of a kernel.
static double processor_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// A turn for as many groups as there is memory for, until all items have had theirs.
template <class Operations> static void take_turns(const asni_run &run, asni_run &mine, Operations operations) {
    const int64_t at_once = run.groups * run.group_items;
    for (mine.first = 0; mine.first < run.items; mine.first += at_once) {
        const int64_t left = run.items - mine.first;
        mine.groups = std::min(run.groups, (left + run.group_items - 1) / run.group_items);
        operations();
    }
}

void execute(const asni_kernels &kernels, Team &team, const asni_operation *operations, int64_t count,
             const asni_run &run) {
    Barrier barrier(team.size());
    team.run([&](int64_t part) {
        const Subnormals here(run.subnormals_are_zero);
        asni_run mine = run;
        mine.part = part;
        mine.parts = team.size();
        mine.scratch = run.scratch + part * run.scratch_stride;
        take_turns(run, mine, [&] {
            for (int64_t i = 0; i < count; i++) {
                kernels.kernels[operations[i].kernel](operations[i].parameters, &mine);
                if (mine.parts > 1) barrier.wait();
            }
        });
    });
}

void time_operations(const asni_kernels &kernels, const asni_operation *operations, int64_t count, const asni_run &run,
                     double *seconds) {
    const Subnormals here(run.subnormals_are_zero);
    asni_run mine = run;
    mine.part = 0;
    mine.parts = 1;
    take_turns(run, mine, [&] {
        for (int64_t i = 0; i < count; i++) {
            const double begin = processor_seconds();
            kernels.kernels[operations[i].kernel](operations[i].parameters, &mine);
            seconds[i] = std::min(seconds[i], processor_seconds() - begin);
        }
    });
}

double peak(const asni_kernels &kernels) {
    double best = 0;
    for (int turn = 0; turn < 20; turn++) {
        const double begin = processor_seconds();
        const double done = (double)kernels.multiply_only(20000);
        best = std::max(best, done / (processor_seconds() - begin));
    }
    return best;
}
