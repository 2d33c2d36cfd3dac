// What happens to the sums of a layer before they are stored: the residual, the activation, and a look for NaN.
#pragma once
#include "operation.h"
#include "vector.h"

namespace ASNI_NAMESPACE {

enum { NO_ACTIVATION, RELU, CLIP, LEAKY_RELU };

struct Activation {
    int64_t kind;
    double low, high;
};

// Comparisons are written so that NaN passes through, as it does in PyTorch.
template <int N> ASNI_INLINE Vector<N> activated(Vector<N> x, const Activation &activation) {
    switch (activation.kind) {
    case RELU: return x < 0.0f ? all<N>(0.0f) : x;
    case CLIP: {
        const Vector<N> low = all<N>((float)activation.low), high = all<N>((float)activation.high);
        x = x < low ? low : x;
        return x > high ? high : x;
    }
    case LEAKY_RELU: return x < 0.0f ? x * (float)activation.low : x;
    default: return x;
    }
}

// Collects whether any of many results is NaN or infinite: 0 * x is 0 for all others, and a sum keeps NaN.
template <int N> struct Finiteness {
    Vector<N> poison = all<N>(0.0f);
    ASNI_METHOD void look(Vector<N> results) { poison += results * 0.0f; }
    // At results that lie side by side.
    ASNI_METHOD void look(const float *results, int64_t count) {
        int64_t k = 0;
        // Several sums, so that none has to wait for the one before.
        Finiteness others[3];
        for (; k + 4 * N <= count; k += 4 * N) {
            look(load<N>(results + k));
            ASNI_UNROLL for (int i = 0; i < 3; i++) others[i].look(load<N>(results + k + (i + 1) * N));
        }
        ASNI_UNROLL for (int i = 0; i < 3; i++) poison += others[i].poison;
        for (; k + N <= count; k += N) look(load<N>(results + k));
        for (; k < count; k++) look(all<N>(results[k]));
    }
    ASNI_METHOD void report(const asni_run *run) const {
        const float total = sum<N>(poison);
        // Threads of one call share the flag; all write the same value.
        if (total != total) __atomic_store_n(run->nonfinite, 1, __ATOMIC_RELAXED);
    }
};

} // namespace ASNI_NAMESPACE
