// Softmax, layer norm, means and the products of attention.
#pragma once
#include "pointwise.h"

namespace ASNI_NAMESPACE {

struct Softmax {
    int64_t x, y;
    int64_t outer, count, floats;      // `count` rows of `floats` floats, softmax over the rows; contiguous
};

struct LayerNorm {
    int64_t x, y;
    int64_t rows, count;               // contiguous rows of `count` elements
    const float *weight, *bias;
    double epsilon;
    int64_t element;
};

struct Mean {
    int64_t x, y;
    int64_t size[DIMENSIONS], x_stride[DIMENSIONS], y_stride[DIMENSIONS];  // of the output; the last dimension in a row
    int64_t reduced[DIMENSIONS], reduced_stride[DIMENSIONS];
    double scale;
    int64_t element;
};

struct Matmul {
    int64_t a, b, y;
    int64_t batch[3], a_batch[3], b_batch[3], y_batch[3];
    int64_t rows, inner, columns;      // (rows, inner) x (inner, columns), contiguous
    int64_t element;
};

template <int N> ASNI_INLINE void softmax_column(const float *x, float *y, int64_t count, int64_t step) {
    Vector<N> highest = load<N>(x);
    for (int64_t i = 1; i < count; i++) {
        const Vector<N> next = load<N>(x + i * step);
        highest = next > highest ? next : highest;
    }
    Vector<N> total = all<N>(0.0f);
    for (int64_t i = 0; i < count; i++) {
        const Vector<N> e = exponential<N>(load<N>(x + i * step) - highest);
        store<N>(y + i * step, e);
        total += e;
    }
    total = 1.0f / total;
    for (int64_t i = 0; i < count; i++) store<N>(y + i * step, load<N>(y + i * step) * total);
}

ASNI_INLINE float highest_of(const float *x, int64_t count) {
    float highest = x[0];
    for (int64_t i = 1; i < count; i++) highest = x[i] > highest ? x[i] : highest;
    return highest;
}

ASNI_INLINE void softmax_row(const float *x, float *y, int64_t count) {
    const float highest = highest_of(x, count);
    Vector<LANES> sums = all<LANES>(0.0f);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Vector<LANES> e = exponential<LANES>(load<LANES>(x + i) - highest);
        store<LANES>(y + i, e);
        sums += e;
    }
    float total = sum<LANES>(sums);
    for (; i < count; i++) total += y[i] = exponential<1>(x[i] - highest);
    for (i = 0; i < count; i++) y[i] *= 1.0f / total;
}

static void softmax(const void *parameters, const asni_run *run) {
    const Softmax &p = *(const Softmax *)parameters;
    const Share mine = share_of(p.outer, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t o = mine.channels.begin; o < mine.channels.end; o++) {
            const float *x = run->arena + g * run->group_stride + p.x + o * p.count * p.floats;
            float *y = run->arena + g * run->group_stride + p.y + o * p.count * p.floats;
            if (p.floats == 1) {
                softmax_row(x, y, p.count);
                continue;
            }
            int64_t k = 0;
            for (; k + LANES <= p.floats; k += LANES) softmax_column<LANES>(x + k, y + k, p.count, p.floats);
            for (; k < p.floats; k++) softmax_column<1>(x + k, y + k, p.count, p.floats);
        }
}

ASNI_INLINE float total_of(const float *x, int64_t count, float less) {
    Vector<LANES> sums = all<LANES>(0.0f);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) sums += load<LANES>(x + i) - less;
    float total = sum<LANES>(sums);
    for (; i < count; i++) total += x[i] - less;
    return total;
}

ASNI_INLINE float squares_of(const float *x, int64_t count, float less) {
    Vector<LANES> sums = all<LANES>(0.0f);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Vector<LANES> d = load<LANES>(x + i) - less;
        sums += d * d;
    }
    float total = sum<LANES>(sums);
    for (; i < count; i++) total += (x[i] - less) * (x[i] - less);
    return total;
}

static void normalise_floats(const LayerNorm &p, const float *x, float *y) {
    const float mean = total_of(x, p.count, 0.0f) / (float)p.count;
    const float variance = squares_of(x, p.count, mean) / (float)p.count;
    const float scale = 1.0f / sqrtf(variance + (float)p.epsilon);
    for (int64_t i = 0; i < p.count; i++) y[i] = (x[i] - mean) * scale * p.weight[i] + p.bias[i];
}

static void normalise_lanes(const LayerNorm &p, const float *x, float *y) {
    typedef Vector<LANES> Lanes;
    Lanes mean = all<LANES>(0.0f), variance = all<LANES>(0.0f);
    for (int64_t i = 0; i < p.count; i++) mean += load<LANES>(x + i * LANES);
    mean /= (float)p.count;
    for (int64_t i = 0; i < p.count; i++) {
        const Lanes d = load<LANES>(x + i * LANES) - mean;
        variance += d * d;
    }
    const Lanes scale = 1.0f / square_root<LANES>(variance / (float)p.count + (float)p.epsilon);
    for (int64_t i = 0; i < p.count; i++)
        store<LANES>(y + i * LANES, (load<LANES>(x + i * LANES) - mean) * scale * p.weight[i] + p.bias[i]);
}

static void layer_norm(const void *parameters, const asni_run *run) {
    const LayerNorm &p = *(const LayerNorm *)parameters;
    const Share mine = share_of(p.rows, run);
    Finiteness<LANES> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t r = mine.channels.begin; r < mine.channels.end; r++) {
            const float *x = run->arena + g * run->group_stride + p.x + r * p.count * p.element;
            float *y = run->arena + g * run->group_stride + p.y + r * p.count * p.element;
            p.element == 1 ? normalise_floats(p, x, y) : normalise_lanes(p, x, y);
            finiteness.look(y, p.count * p.element);
        }
    finiteness.report(run);
}

template <int N> static void mean_elements(const Mean &p, const asni_run *run) {
    constexpr int LAST = DIMENSIONS - 1;
    const Share mine = share_of(p.size[0], run);
    Finiteness<N> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *base = run->arena + g * run->group_stride;
        each_row_of(p.size, mine.channels, [&](const int64_t *i) {
            for (int64_t k = 0; k < p.size[LAST]; k++) {
                const float *x = base + p.x + row_offset(i, p.x_stride) + k * p.x_stride[LAST];
                Vector<N> total = all<N>(0.0f);
                each_row_of(p.reduced, Range{0, p.reduced[0]}, [&](const int64_t *j) {
                    const float *row = x + row_offset(j, p.reduced_stride);
                    for (int64_t l = 0; l < p.reduced[LAST]; l++) total += load<N>(row + l * p.reduced_stride[LAST]);
                });
                total *= (float)p.scale;
                finiteness.look(total);
                store<N>(base + p.y + row_offset(i, p.y_stride) + k * p.y_stride[LAST], total);
            }
        });
    }
    finiteness.report(run);
}

static void mean(const void *parameters, const asni_run *run) {
    const Mean &p = *(const Mean *)parameters;
    p.element == 1 ? mean_elements<1>(p, run) : mean_elements<LANES>(p, run);
}

// One row of a product of matrices whose elements are vectors of items.
ASNI_INLINE void multiply_lanes(const Matmul &p, const float *a, const float *b, float *y) {
    constexpr int TILE = 4;
    int64_t n = 0;
    for (; n < p.columns; n += TILE) {
        const int64_t width = smaller(TILE, p.columns - n);
        Vector<LANES> sums[TILE];
        ASNI_UNROLL for (int i = 0; i < TILE; i++) sums[i] = all<LANES>(0.0f);
        for (int64_t k = 0; k < p.inner; k++) {
            const Vector<LANES> left = load<LANES>(a + k * LANES);
            const float *right = b + (k * p.columns + n) * LANES;
            if (width == TILE)
                ASNI_UNROLL for (int i = 0; i < TILE; i++) sums[i] += left * load<LANES>(right + i * LANES);
            else
                for (int64_t i = 0; i < width; i++) sums[i] += left * load<LANES>(right + i * LANES);
        }
        for (int64_t i = 0; i < width; i++) store<LANES>(y + (n + i) * LANES, sums[i]);
    }
}

// Up to ROWS rows of a product of ordinary matrices, a few vectors of columns at a time.
template <int ROWS> ASNI_INLINE void multiply_floats(const Matmul &p, const float *a, const float *b, float *y) {
    constexpr int TILE = 2;
    int64_t n = 0;
    for (; n + TILE * LANES <= p.columns; n += TILE * LANES) {
        Vector<LANES> sums[ROWS][TILE];
        ASNI_UNROLL for (int r = 0; r < ROWS; r++) ASNI_UNROLL for (int i = 0; i < TILE; i++)
            sums[r][i] = all<LANES>(0.0f);
        for (int64_t k = 0; k < p.inner; k++) {
            Vector<LANES> right[TILE];
            ASNI_UNROLL for (int i = 0; i < TILE; i++) right[i] = load<LANES>(b + k * p.columns + n + i * LANES);
            ASNI_UNROLL for (int r = 0; r < ROWS; r++) ASNI_UNROLL for (int i = 0; i < TILE; i++)
                sums[r][i] += right[i] * a[r * p.inner + k];
        }
        ASNI_UNROLL for (int r = 0; r < ROWS; r++) ASNI_UNROLL for (int i = 0; i < TILE; i++)
            store<LANES>(y + r * p.columns + n + i * LANES, sums[r][i]);
    }
    for (; n < p.columns; n++)
        for (int r = 0; r < ROWS; r++) {
            float total = 0;
            for (int64_t k = 0; k < p.inner; k++) total += a[r * p.inner + k] * b[k * p.columns + n];
            y[r * p.columns + n] = total;
        }
}

static void multiply_matrices(const Matmul &p, const float *a, const float *b, float *y) {
    int64_t r = 0;
    if (p.element == 1)
        for (; r + 4 <= p.rows; r += 4) multiply_floats<4>(p, a + r * p.inner, b, y + r * p.columns);
    for (; r < p.rows; r++) {
        const float *left = a + r * p.inner * p.element;
        float *to = y + r * p.columns * p.element;
        p.element == 1 ? multiply_floats<1>(p, left, b, to) : multiply_lanes(p, left, b, to);
    }
}

static void matmul(const void *parameters, const asni_run *run) {
    const Matmul &p = *(const Matmul *)parameters;
    const int64_t products = p.batch[0] * p.batch[1] * p.batch[2];
    const Share mine = share_of(products, run);
    Finiteness<1> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *base = run->arena + g * run->group_stride;
        for (int64_t i = mine.channels.begin; i < mine.channels.end; i++) {
            const int64_t i2 = i % p.batch[2], i1 = i / p.batch[2] % p.batch[1], i0 = i / p.batch[2] / p.batch[1];
            float *y = base + p.y + i0 * p.y_batch[0] + i1 * p.y_batch[1] + i2 * p.y_batch[2];
            multiply_matrices(p, base + p.a + i0 * p.a_batch[0] + i1 * p.a_batch[1] + i2 * p.a_batch[2],
                              base + p.b + i0 * p.b_batch[0] + i1 * p.b_batch[1] + i2 * p.b_batch[2], y);
            finiteness.look(total_of(y, p.rows * p.columns * p.element, 0.0f));
        }
    }
    finiteness.report(run);
}

} // namespace ASNI_NAMESPACE
