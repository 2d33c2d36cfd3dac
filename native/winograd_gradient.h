// The gradient of 3x3 kernels by Winograd's transforms, for layers that stayed dense: with Y = A' [(G g G') * (B' d B)] A
// the gradient of g is G' [(A dY A') * (B' d B)] G. The products of 36 frequencies are summed over the tiles of all items,
// 36 multiplications for what takes 144.
#pragma once
#include "backward.h"
#include "winograd.h"

namespace ASNI_NAMESPACE {

struct WinogradGradient {
    Winograd layer;                    // as in the forward pass, but y is the gradient of the outputs
    const int32_t *index;              // [outputs][inputs][9]: places in the vector of all gradients; -1: pruned
    float *gradient;                   // a row for every thread
    int64_t gradient_row;
};

// Output channels x input channels whose sums stay in registers, and the vectors that their totals fill.
constexpr int DOWN = ASNI_LANES == 16 ? 4 : 3, ACROSS = 4;
constexpr int TOTALS = (DOWN * ACROSS + LANES - 1) / LANES;

// 4 gradients to 6 frequencies.
ASNI_INLINE void spread(const Lanes &y0, const Lanes &y1, const Lanes &y2, const Lanes &y3, Lanes *to, int step) {
    const Lanes even = y0 + y2, odd = y1 + y3, far_even = y0 + 4.0f * y2, far_odd = 2.0f * y1 + 8.0f * y3;
    to[0] = y0;
    to[step] = even + odd;
    to[2 * step] = even - odd;
    to[3 * step] = far_even + far_odd;
    to[4 * step] = far_even - far_odd;
    to[5 * step] = y3;
}

ASNI_INLINE void spread_tile(const Lanes *y, float *to, int64_t step) {
    Lanes columns[24], rows[FREQUENCIES];
    ASNI_UNROLL for (int j = 0; j < 4; j++) spread(y[j], y[4 + j], y[8 + j], y[12 + j], columns + j, 4);
    ASNI_UNROLL for (int i = 0; i < 6; i++) {
        const Lanes *c = columns + 4 * i;
        spread(c[0], c[1], c[2], c[3], rows + 6 * i, 1);
    }
    ASNI_UNROLL for (int f = 0; f < FREQUENCIES; f++) store<LANES>(to + f * step, rows[f]);
}

// The gradients of a tile of outputs; what lies beyond the map is zero.
ASNI_INLINE void gather_gradients(const Winograd &layer, const float *dy, int64_t tile, Lanes *y) {
    const Positions &to = layer.to;
    const int64_t row = tile / tile_columns_of(layer) * 4, column = tile % tile_columns_of(layer) * 4;
    prefetch_rows<4, 4>(dy + to.y_channel + row * to.y_row + column * LANES, to.y_row);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 4; j++) {
            const bool inside = row + i < to.rows && column + j < to.columns;
            y[4 * i + j] = inside ? load<LANES>(dy + (row + i) * to.y_row + (column + j) * LANES) : all<LANES>(0.0f);
        }
}

// Where a block of tiles lies in scratch memory: transformed inputs and gradients, then the sums of all blocks.
struct GradientTransforms {
    float *x, *dy, *sums;
    int64_t inputs, outputs, x_step, dy_step, sums_step;
};

ASNI_INLINE GradientTransforms gradient_transforms(const Winograd &layer, float *scratch) {
    GradientTransforms t;
    t.inputs = rounded_up(layer.inputs, ACROSS);
    t.outputs = rounded_up(layer.to.channels, DOWN);
    t.x_step = (t.inputs * layer.block | 1) * LANES;
    t.dy_step = (t.outputs * layer.block | 1) * LANES;
    t.sums_step = t.outputs / DOWN * (t.inputs / ACROSS) * TOTALS * LANES;
    t.x = scratch;
    t.dy = t.x + FREQUENCIES * t.x_step;
    t.sums = t.dy + FREQUENCIES * t.dy_step;
    return t;
}

ASNI_INLINE int64_t winograd_gradient_scratch(const Winograd &layer) {
    const GradientTransforms t = gradient_transforms(layer, nullptr);
    return FREQUENCIES * (t.x_step + t.dy_step + t.sums_step);
}

static void transform_block(const Winograd &layer, const GradientTransforms &t, const float *base, int64_t first,
                            int64_t count) {
    Lanes held[FREQUENCIES];
    for (int64_t c = 0; c < layer.inputs; c++)
        for (int64_t v = 0; v < count; v++) {
            gather_items(layer, base + layer.to.x + c * layer.x_channel, first + v, held);
            transform(held, t.x + (c * layer.block + v) * LANES, t.x_step);
        }
    for (int64_t o = 0; o < layer.to.channels; o++)
        for (int64_t v = 0; v < count; v++) {
            gather_gradients(layer, base + layer.to.y + o * layer.to.y_channel, first + v, held);
            spread_tile(held, t.dy + (o * layer.block + v) * LANES, t.dy_step);
        }
}

// sums[o][c] += products of one frequency over the tiles of a block and all lanes, DOWN x ACROSS of them at a time.
static void multiply_gradients(const Winograd &layer, const GradientTransforms &t, int64_t count) {
    const int64_t width = layer.block * LANES;
    for (int64_t f = 0; f < FREQUENCIES; f++) {
        float *sums = t.sums + f * t.sums_step;
        for (int64_t o = 0; o < t.outputs; o += DOWN)
            for (int64_t c = 0; c < t.inputs; c += ACROSS, sums += TOTALS * LANES) {
                const float *dy = t.dy + f * t.dy_step + o * width, *x = t.x + f * t.x_step + c * width;
                Lanes products[TOTALS * LANES];
                ASNI_UNROLL for (int i = 0; i < TOTALS * LANES; i++) products[i] = all<LANES>(0.0f);
                for (int64_t v = 0; v < count; v++, dy += LANES, x += LANES) {
                    Lanes in[ACROSS];
                    ASNI_UNROLL for (int j = 0; j < ACROSS; j++) in[j] = load<LANES>(x + j * width);
                    ASNI_UNROLL for (int i = 0; i < DOWN; i++) {
                        const Lanes out = load<LANES>(dy + i * width);
                        ASNI_UNROLL for (int j = 0; j < ACROSS; j++) products[i * ACROSS + j] += out * in[j];
                    }
                }
                ASNI_UNROLL for (int i = 0; i < TOTALS; i++) {
                    sum_rows<LANES / 2>(products + i * LANES);
                    store<LANES>(sums + i * LANES, load<LANES>(sums + i * LANES) + products[i * LANES]);
                }
            }
    }
}

// 6 frequencies to the 3 numbers of a kernel.
ASNI_INLINE void collect(const float *p, int step, float *to, int to_step) {
    const float inner = (p[step] + p[2 * step]) * (1.0f / 6), outer = p[3 * step] + p[4 * step];
    to[0] = p[0] * (1.0f / 4) - inner + outer * (1.0f / 24);
    to[to_step] = (p[2 * step] - p[step]) * (1.0f / 6) + (p[3 * step] - p[4 * step]) * (1.0f / 12);
    to[2 * to_step] = outer * (1.0f / 6) - inner + p[5 * step];
}

static void collect_gradients(const WinogradGradient &p, const GradientTransforms &t, float *gradient) {
    const int64_t inputs = p.layer.inputs, across = t.inputs / ACROSS;
    for (int64_t o = 0; o < p.layer.to.channels; o++)
        for (int64_t c = 0; c < inputs; c++) {
            const int32_t *index = p.index + (o * inputs + c) * 9;
            const float *sums =
                t.sums + (o / DOWN * across + c / ACROSS) * TOTALS * LANES + o % DOWN * ACROSS + c % ACROSS;
            float frequencies[36], half[18], kernel[9];
            for (int f = 0; f < FREQUENCIES; f++) frequencies[f] = sums[f * t.sums_step];
            for (int j = 0; j < 6; j++) collect(frequencies + j, 6, half + j, 6);
            for (int i = 0; i < 3; i++) collect(half + 6 * i, 1, kernel + 3 * i, 1);
            for (int k = 0; k < 9; k++)
                if (index[k] >= 0) gradient[index[k]] = kernel[k];
        }
}

static void winograd_gradient(const void *parameters, const asni_run *run) {
    const WinogradGradient &p = *(const WinogradGradient *)parameters;
    const Winograd &layer = p.layer;
    const GradientTransforms t = gradient_transforms(layer, run->scratch);
    memset(run->scratch, 0, (size_t)winograd_gradient_scratch(layer) * 4);
    const Range groups = share(run->groups, run);
    const int64_t tiles = tiles_of(layer);
    for (int64_t g = groups.begin; g < groups.end; g++)
        for (int64_t first = 0; first < tiles; first += layer.block) {
            const int64_t count = smaller(layer.block, tiles - first);
            transform_block(layer, t, run->arena + g * run->group_stride, first, count);
            multiply_gradients(layer, t, count);
        }
    collect_gradients(p, t, p.gradient + run->part * p.gradient_row);
}

} // namespace ASNI_NAMESPACE
