// Batch norm with its residual and ReLU, and its gradients. A thread takes whole channels through all groups, so that the
// sums are the same for any number of threads; a channel is read again while the caches still hold it.
#pragma once
#include "addition.h"

namespace ASNI_NAMESPACE {

struct BatchNorm {
    Map x, residual, y;
    Size size;
    int64_t relu;
    int64_t training;                      // by the statistics of this batch; else by the running ones
    const float *weight, *bias;            // of each channel; none: 1 and 0
    float *mean, *inverse;                 // of the batch, kept for the gradients; the inverse of the deviation
    float *running_mean, *running_var;     // there may be none
    double momentum, epsilon;
};

struct BatchNormBackward {
    Map dy, x;
    Target dx, dresidual;
    Size size;
    const float *weight, *mean, *inverse;
    float *dweight, *dbias;
};

struct Moments {
    double mean, variance;
};

ASNI_INLINE double count_of(const asni_run *run, const Size &size) {
    const int64_t items = smaller(run->groups * LANES, run->items - run->first);
    return (double)(items * size.rows * size.columns);
}

ASNI_INLINE float roughly_mean(const float *x, int64_t count) {
    Vector<LANES> total = all<LANES>(0.0f);
    for (int64_t k = 0; k < count; k++) total += load<LANES>(x + k * LANES);
    return folded(total) / (float)(count * LANES);
}

// Sums of differences from a number near the mean, of which little is lost when the square of their mean is subtracted.
ASNI_INLINE Moments moments_of(const BatchNorm &p, const asni_run *run, int64_t c) {
    const float near = roughly_mean(run->arena + p.x.at + c * p.x.channel, p.size.columns);
    Total sums, squares;
    each_stretch(run, {{0, run->groups}, {c, c + 1}}, p.size, [&](const Stretch &s) {
        const float *x = s.of(p.x);
        const Bits<LANES> lanes = first_lanes(items_of(run, s.group));
        in_chains(s.count, [&](int64_t k, int chain) {
            const Vector<LANES> d = lanes ? load<LANES>(x + k * LANES) - near : all<LANES>(0.0f);
            sums.chain[chain] += d;
            squares.chain[chain] += d * d;
        });
        sums.end_stretch(s.count);
        squares.end_stretch(s.count);
    }, p.x);
    const double count = count_of(run, p.size), mean = sums.result() / count;
    const double variance = squares.result() / count - mean * mean;
    return {near + mean, variance < 0 ? 0 : variance};
}

ASNI_INLINE void keep_moments(const BatchNorm &p, const Moments &found, double count, int64_t c) {
    p.mean[c] = (float)found.mean;
    p.inverse[c] = (float)(1 / sqrt(found.variance + p.epsilon));
    if (!p.running_mean) return;
    const double unbiased = found.variance * count / (count - 1);
    p.running_mean[c] = (float)((1 - p.momentum) * p.running_mean[c] + p.momentum * found.mean);
    p.running_var[c] = (float)((1 - p.momentum) * p.running_var[c] + p.momentum * unbiased);
}

ASNI_INLINE void normalise(const BatchNorm &p, const asni_run *run, int64_t c, float mean, float inverse,
                           Finiteness<LANES> &finiteness) {
    const float scale = p.weight ? p.weight[c] * inverse : inverse, bias = p.bias ? p.bias[c] : 0.0f;
    const float lowest = p.relu ? 0.0f : -INFINITY;
    each_stretch(run, {{0, run->groups}, {c, c + 1}}, p.size, [&](const Stretch &s) {
        const float *x = s.of(p.x), *residual = s.of(p.residual);
        float *y = s.of(p.y);
        for (int64_t k = 0; k < s.count * LANES; k += LANES) {
            Vector<LANES> result = (load<LANES>(x + k) - mean) * scale + bias;
            if (residual) result += load<LANES>(residual + k);
            finiteness.look(result);
            store<LANES>(y + k, result < lowest ? all<LANES>(lowest) : result);
        }
    }, p.x, p.residual, p.y);
}

static void batch_norm(const void *parameters, const asni_run *run) {
    const BatchNorm &p = *(const BatchNorm *)parameters;
    const Range mine = share(p.size.channels, run);
    Finiteness<LANES> finiteness;
    for (int64_t c = mine.begin; c < mine.end; c++) {
        if (p.training) {
            const Moments found = moments_of(p, run, c);
            keep_moments(p, found, count_of(run, p.size), c);
            // An infinite variance would turn everything into the bias.
            finiteness.look(all<LANES>((float)found.variance));
            normalise(p, run, c, p.mean[c], p.inverse[c], finiteness);
        } else {
            const double inverse = 1 / sqrt(p.running_var[c] + p.epsilon);
            normalise(p, run, c, p.running_mean[c], (float)inverse, finiteness);
        }
    }
    finiteness.report(run);
}

// The gradient of x is dy * slope + (x - mean) * tilt + shift: what is left of dy without its mean and its part along x.
struct Line {
    float slope, tilt, shift;
};

ASNI_INLINE Line sum_gradients(const BatchNormBackward &p, const asni_run *run, int64_t c) {
    const float mean = p.mean[c];
    Total sums, products;
    each_stretch(run, {{0, run->groups}, {c, c + 1}}, p.size, [&](const Stretch &s) {
        const float *dy = s.of(p.dy), *x = s.of(p.x);
        in_chains(s.count, [&](int64_t k, int chain) {
            const Vector<LANES> d = load<LANES>(dy + k * LANES);
            sums.chain[chain] += d;
            products.chain[chain] += d * (load<LANES>(x + k * LANES) - mean);
        });
        sums.end_stretch(s.count);
        products.end_stretch(s.count);
    }, p.dy, p.x);
    const double inverse = p.inverse[c], count = count_of(run, p.size), sum = sums.result(), product = products.result();
    if (p.dweight) p.dweight[c] = (float)(product * inverse);
    if (p.dbias) p.dbias[c] = (float)sum;
    const double slope = p.weight ? p.weight[c] * inverse : inverse;
    return {(float)slope, (float)(-slope * inverse * inverse * product / count), (float)(-slope * sum / count)};
}

static void batch_norm_backward(const void *parameters, const asni_run *run) {
    const BatchNormBackward &p = *(const BatchNormBackward *)parameters;
    const Range mine = share(p.size.channels, run);
    for (int64_t c = mine.begin; c < mine.end; c++) {
        const Line line = sum_gradients(p, run, c);
        const float mean = p.mean[c];
        each_stretch(run, {{0, run->groups}, {c, c + 1}}, p.size, [&](const Stretch &s) {
            const float *dy = s.of(p.dy), *x = s.of(p.x);
            const Gradient dx = s.of(p.dx), dresidual = s.of(p.dresidual);
            const Bits<LANES> lanes = first_lanes(items_of(run, s.group));
            for (int64_t k = 0; k < s.count; k++) {
                const Vector<LANES> d = load<LANES>(dy + k * LANES), apart = load<LANES>(x + k * LANES) - mean;
                const Vector<LANES> value = d * line.slope + (apart * line.tilt + line.shift);
                if (dx.d) dx.put(k, lanes ? value : all<LANES>(0.0f));
                if (dresidual.d) dresidual.put(k, d);
            }
        }, p.dy, p.x, p.dx, p.dresidual);
    }
}

} // namespace ASNI_NAMESPACE
