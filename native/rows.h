// A linear layer on one item: a row of weights times one vector. There is nothing to share between lanes, so a sparse row
// is a scalar loop with four sums, and a dense row reads weights by vectors.
#pragma once
#include "tiles.h"

namespace ASNI_NAMESPACE {

struct SparseRow {
    int64_t x, y, residual;
    int64_t channels;
    const int32_t *start;
    const void *offset;                // of 16 bits, or of 32 if `wide`: short ones take half of the memory
    int64_t wide;
    const float *value;
    const float *bias;
    Activation activation;
};

struct DenseRow {
    int64_t x, y, residual;
    int64_t channels, inputs;
    const float *weight;
    const float *bias;
    Activation activation;
};

// The compiler would gather the inputs into vectors, which takes longer than the multiplications.
#if defined(__GNUC__) && !defined(__clang__)
#define ASNI_SCALAR __attribute__((optimize("no-tree-vectorize", "no-tree-slp-vectorize")))
#else
#define ASNI_SCALAR
#endif
template <class Offset>
ASNI_SCALAR static float sparse_dot(const float *x, const Offset *offset, const float *value, int64_t count) {
    float a = 0, b = 0, c = 0, d = 0;
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        a += x[offset[k]] * value[k];
        b += x[offset[k + 1]] * value[k + 1];
        c += x[offset[k + 2]] * value[k + 2];
        d += x[offset[k + 3]] * value[k + 3];
    }
    for (; k < count; k++) a += x[offset[k]] * value[k];
    return (a + b) + (c + d);
}

ASNI_INLINE float dense_dot(const float *x, const float *weight, int64_t count) {
    constexpr int CHAINS = 4;
    Vector<LANES> sums[CHAINS];
    ASNI_UNROLL for (int i = 0; i < CHAINS; i++) sums[i] = all<LANES>(0.0f);
    int64_t k = 0;
    for (; k + CHAINS * LANES <= count; k += CHAINS * LANES)
        ASNI_UNROLL for (int i = 0; i < CHAINS; i++)
            sums[i] += load<LANES>(x + k + i * LANES) * load<LANES>(weight + k + i * LANES);
    float total = sum<LANES>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; k < count; k++) total += x[k] * weight[k];
    return total;
}

template <class Layer, class Dot> ASNI_INLINE void each_row(const Layer &layer, const asni_run *run, Dot dot) {
    const Share mine = share_of(layer.channels, run);
    Finiteness<1> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *base = run->arena + g * run->group_stride;
        for (int64_t o = mine.channels.begin; o < mine.channels.end; o++) {
            float total = layer.bias[o] + dot(base + layer.x, o);
            if (layer.residual >= 0) total += base[layer.residual + o];
            finiteness.look(total);
            base[layer.y + o] = activated<1>(total, layer.activation);
        }
    }
    finiteness.report(run);
}

static void sparse_row(const void *parameters, const asni_run *run) {
    const SparseRow &layer = *(const SparseRow *)parameters;
    each_row(layer, run, [&](const float *x, int64_t o) {
        const int32_t begin = layer.start[o];
        const float *value = layer.value + begin;
        const int64_t count = layer.start[o + 1] - begin;
        if (layer.wide) return sparse_dot(x, (const uint32_t *)layer.offset + begin, value, count);
        return sparse_dot(x, (const uint16_t *)layer.offset + begin, value, count);
    });
}

static void dense_row(const void *parameters, const asni_run *run) {
    const DenseRow &layer = *(const DenseRow *)parameters;
    each_row(layer, run, [&](const float *x, int64_t o) {
        return dense_dot(x, layer.weight + o * layer.inputs, layer.inputs);
    });
}

} // namespace ASNI_NAMESPACE
