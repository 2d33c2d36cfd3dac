#include "program.h"

#include <algorithm>
#include <chrono>

void execute(const asni_kernels &kernels, Team &team, const asni_operation *operations, int64_t count,
             const asni_run &run) {
    Barrier barrier(team.size());
    team.run([&](int64_t part) {
        asni_run mine = run;
        mine.part = part;
        mine.parts = team.size();
        mine.scratch = run.scratch + part * run.scratch_stride;
        for (int64_t i = 0; i < count; i++) {
            kernels.kernels[operations[i].kernel](operations[i].parameters, &mine);
            barrier.wait();
        }
    });
}

void time_operations(const asni_kernels &kernels, const asni_operation *operations, int64_t count, const asni_run &run,
                     double *seconds) {
    asni_run mine = run;
    mine.part = 0;
    mine.parts = 1;
    for (int64_t i = 0; i < count; i++) {
        const auto begin = std::chrono::steady_clock::now();
        kernels.kernels[operations[i].kernel](operations[i].parameters, &mine);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        seconds[i] = std::min(seconds[i], taken.count());
    }
}
