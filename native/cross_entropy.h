// The mean cross entropy of a batch and its gradient. It is small: one thread does it.
#pragma once
#include "gradients.h"
#include "pointwise.h"

namespace ASNI_NAMESPACE {

struct CrossEntropy {
    Map x, dx;
    int64_t classes;
    int64_t labels;            // which input: an array of 64-bit integers
    int64_t output;            // which output: one float
    const double *scale;       // of the loss, and so of the gradient
};

// The labels of a group; those that are no class are -1.
ASNI_INLINE Bits<LANES> labels_of(const CrossEntropy &p, const asni_run *run, int64_t g) {
    const int64_t *labels = (const int64_t *)run->inputs[p.labels] + run->first + g * LANES;
    Bits<LANES> found;
    for (int i = 0; i < LANES; i++) {
        const int64_t label = labels[smaller(i, items_of(run, g) - 1)];
        found[i] = label < 0 || label >= p.classes ? -1 : (int32_t)label;
    }
    return found;
}

ASNI_INLINE Vector<LANES> highest_logit(const CrossEntropy &p, const float *x) {
    Vector<LANES> highest = load<LANES>(x);
    for (int64_t c = 1; c < p.classes; c++) {
        const Vector<LANES> next = load<LANES>(x + c * p.x.channel);
        highest = next > highest ? next : highest;
    }
    return highest;
}

// The sum of the losses of a group's items; `factor` is that of the gradient. NaN if a logit is not finite, or if there
// is no class for a label.
ASNI_INLINE double group_loss(const CrossEntropy &p, const asni_run *run, int64_t g, float factor) {
    const float *x = run->arena + g * run->group_stride + p.x.at;
    float *dx = run->arena + g * run->group_stride + p.dx.at;
    const Bits<LANES> label = labels_of(p, run, g);
    const Vector<LANES> highest = highest_logit(p, x);
    Vector<LANES> total = all<LANES>(0.0f), poison = total, chosen = all<LANES>(NAN);
    for (int64_t c = 0; c < p.classes; c++) {
        const Vector<LANES> logit = load<LANES>(x + c * p.x.channel), e = exponential<LANES>(logit - highest);
        poison += logit * 0.0f;
        total += e;
        chosen = label == (int32_t)c ? logit : chosen;
        store<LANES>(dx + c * p.dx.channel, e);
    }
    const int64_t items = items_of(run, g);
    const Bits<LANES> lanes = first_lanes(items);
    for (int64_t c = 0; c < p.classes; c++) {
        const Vector<LANES> share = load<LANES>(dx + c * p.dx.channel) / total;
        const Vector<LANES> difference = label == (int32_t)c ? share - 1.0f : share;
        store<LANES>(dx + c * p.dx.channel, lanes ? difference * factor : all<LANES>(0.0f));
    }
    double loss = 0;
    for (int64_t i = 0; i < items; i++) loss += log((double)total[i]) + (highest[i] - (double)chosen[i]) + poison[i];
    return loss;
}

static void cross_entropy(const void *parameters, const asni_run *run) {
    const CrossEntropy &p = *(const CrossEntropy *)parameters;
    if (run->part != 0) return;
    const double factor = *p.scale / (double)run->items;
    double loss = 0;
    for (int64_t g = 0; g < run->groups; g++) loss += group_loss(p, run, g, (float)factor);
    const bool is_poisoned = __atomic_load_n(run->nonfinite, __ATOMIC_RELAXED) != 0;
    *run->outputs[p.output] = is_poisoned ? NAN : (float)(loss * factor);
}

} // namespace ASNI_NAMESPACE
