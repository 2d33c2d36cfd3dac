// From the vector of all trained numbers to the tables that forward kernels walk through, once per step.
#pragma once
#include "tiles.h"

namespace ASNI_NAMESPACE {

struct Refresh {
    const float *from;
    const int32_t *index;              // -1: a zero
    float *to;
    int64_t count;
};

// Winograd's transform of 3x3 kernels: frequency, pack of output channels, input channel, channel in the pack.
struct WinogradWeights {
    const float *from;
    const int32_t *index;              // [outputs][inputs][9]; -1: a zero
    float *to;
    int64_t outputs, inputs, pack;
};

static void refresh(const void *parameters, const asni_run *run) {
    const Refresh &p = *(const Refresh *)parameters;
    const Range mine = share(p.count, run);
    for (int64_t k = mine.begin; k < mine.end; k++) p.to[k] = p.index[k] < 0 ? 0.0f : p.from[p.index[k]];
}

ASNI_INLINE void transform_kernel(float a, float b, float c, float *to, int step) {
    to[0] = a * (1.0f / 4);
    to[step] = (a + b + c) * (-1.0f / 6);
    to[2 * step] = (a - b + c) * (-1.0f / 6);
    to[3 * step] = a * (1.0f / 24) + b * (1.0f / 12) + c * (1.0f / 6);
    to[4 * step] = a * (1.0f / 24) - b * (1.0f / 12) + c * (1.0f / 6);
    to[5 * step] = c;
}

static void winograd_weights(const void *parameters, const asni_run *run) {
    const WinogradWeights &p = *(const WinogradWeights *)parameters;
    const int64_t packs = (p.outputs + p.pack - 1) / p.pack, step = packs * p.inputs * p.pack;
    const Range mine = share(p.outputs, run);
    for (int64_t o = mine.begin; o < mine.end; o++)
        for (int64_t i = 0; i < p.inputs; i++) {
            const int32_t *index = p.index + (o * p.inputs + i) * 9;
            float kernel[9], half[18], whole[36];
            for (int k = 0; k < 9; k++) kernel[k] = index[k] < 0 ? 0.0f : p.from[index[k]];
            for (int k = 0; k < 3; k++) transform_kernel(kernel[k], kernel[3 + k], kernel[6 + k], half + k, 3);
            for (int k = 0; k < 6; k++) transform_kernel(half[3 * k], half[3 * k + 1], half[3 * k + 2], whole + 6 * k, 1);
            float *to = p.to + (o / p.pack * p.inputs + i) * p.pack + o % p.pack;
            for (int k = 0; k < 36; k++) to[k * step] = whole[k];
        }
}

} // namespace ASNI_NAMESPACE
