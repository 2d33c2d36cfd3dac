// A step of SGD, Adam or AdamW on numbers that lie one behind the other, or wherever an index says. The operations are
// those of PyTorch's fused optimisers in their order, so that results are equal to rounding, and mostly bit for bit.
#pragma once
#include "operation.h"
#include "tiles.h"

namespace ASNI_NAMESPACE {

// The order is that of OPTIMISERS in src/asni/sparse/optimizers/torch_optimizers.py.
enum { O_SGD, O_ADAM, O_ADAMW };

// Python fills these before each step.
struct Settings {
    double lr, weight_decay, maximise;
    double momentum, dampening, nesterov, has_buffer;          // of SGD; a first step has no buffer yet, and fills it
    double beta1, beta2, epsilon, correction1, root_correction2;   // of Adam: 1 - beta1^t, and the root of 1 - beta2^t
};

struct Optimise {
    int64_t begin, count;      // of all vectors here
    float *weights;
    const float *gradient;     // [rows], whose sum it is
    int64_t rows, row_stride;
    float *first, *second;     // the momentum buffer, or Adam's averages of the gradient and of its square
    const int64_t *index;      // null: number i lies at i
    int64_t kind;
    const Settings *settings;
};

// Where the numbers of one vector lie. The last one may be short.
template <bool INDEXED> struct Numbers {
    const int64_t *index;
    int64_t at, count;

    ASNI_METHOD int64_t place(int k) const { return INDEXED ? index[at + k] : at + k; }
    ASNI_METHOD Vector<LANES> read(const float *from) const {
        if (!INDEXED && count == LANES) return load<LANES>(from + at);
        Vector<LANES> value = {};
        for (int k = 0; k < count; k++) value[k] = from[place(k)];
        return value;
    }
    ASNI_METHOD void write(float *to, Vector<LANES> value) const {
        if (!INDEXED && count == LANES) return store<LANES>(to + at, value);
        for (int k = 0; k < count; k++) to[place(k)] = value[k];
    }
};

ASNI_INLINE Vector<LANES> roots(Vector<LANES> x) {
    ASNI_UNROLL for (int k = 0; k < LANES; k++) x[k] = sqrtf(x[k]);
    return x;
}

template <class Where> ASNI_INLINE Vector<LANES> gradient_of(const Optimise &p, const Where &where) {
    Vector<LANES> sum = where.read(p.gradient);
    for (int64_t row = 1; row < p.rows; row++) sum += where.read(p.gradient + row * p.row_stride);
    return p.settings->maximise != 0 ? -sum : sum;
}

template <class Where> ASNI_INLINE void sgd(const Optimise &p, const Where &where) {
    const Settings &s = *p.settings;
    const Vector<LANES> weight = where.read(p.weights);
    Vector<LANES> gradient = gradient_of(p, where);
    if (s.weight_decay != 0) gradient += weight * (float)s.weight_decay;
    if (s.momentum != 0) {
        Vector<LANES> buffer = gradient;
        if (s.has_buffer != 0) buffer = gradient * (float)(1 - s.dampening) + where.read(p.first) * (float)s.momentum;
        where.write(p.first, buffer);
        gradient = s.nesterov != 0 ? gradient + buffer * (float)s.momentum : buffer;
    }
    where.write(p.weights, weight + gradient * (float)-s.lr);
}

template <class Where> ASNI_INLINE void adam(const Optimise &p, const Where &where, bool decoupled) {
    const Settings &s = *p.settings;
    Vector<LANES> weight = where.read(p.weights), gradient = gradient_of(p, where);
    if (s.weight_decay != 0) {
        if (decoupled)
            weight *= (float)(1 - s.lr * s.weight_decay);
        else
            gradient += weight * (float)s.weight_decay;
    }
    Vector<LANES> first = where.read(p.first), second = where.read(p.second);
    // Torch's lerp: from the nearer end, so that the result is exact at both.
    const float to_gradient = (float)(1 - s.beta1);
    const Vector<LANES> difference = gradient - first;
    first = to_gradient < 0.5f ? first + difference * to_gradient : gradient + difference * (to_gradient - 1);
    second = gradient * (float)(1 - s.beta2) * gradient + second * (float)s.beta2;
    where.write(p.first, first);
    where.write(p.second, second);
    const Vector<LANES> scale = roots(second) / (float)s.root_correction2 + (float)s.epsilon;
    where.write(p.weights, weight + first * (float)(-s.lr / s.correction1) / scale);
}

template <bool INDEXED> ASNI_INLINE void optimise_range(const Optimise &p, Range range) {
    const auto each = [&](auto step) {
        int64_t at = range.begin;
        for (; at + LANES <= range.end; at += LANES) step(Numbers<INDEXED>{p.index, at, LANES});
        if (at < range.end) step(Numbers<INDEXED>{p.index, at, range.end - at});
    };
    switch (p.kind) {
    case O_SGD: return each([&](const auto &where) { sgd(p, where); });
    case O_ADAM: return each([&](const auto &where) { adam(p, where, false); });
    case O_ADAMW: return each([&](const auto &where) { adam(p, where, true); });
    }
}

static void optimise(const void *parameters, const asni_run *run) {
    const Optimise &p = *(const Optimise *)parameters;
    Range range = share(p.count, run);
    range.begin += p.begin, range.end += p.begin;
    if (p.index)
        optimise_range<true>(p, range);
    else
        optimise_range<false>(p, range);
}

} // namespace ASNI_NAMESPACE
