// A program is a list of operations; every thread of a team takes its part of each of them.
#pragma once
#include "operation.h"
#include "threads.h"

void execute(const asni_kernels &kernels, Team &team, const asni_operation *operations, int64_t count,
             const asni_run &run);

// Runs the program on this thread; seconds[i] becomes the shortest time seen of operation i.
void time_operations(const asni_kernels &kernels, const asni_operation *operations, int64_t count, const asni_run &run,
                     double *seconds);

// Multiplications per second that one core does at best.
double peak(const asni_kernels &kernels);
