// The dense layer: a tile of O output channels x positions stays in registers, so that each input that is loaded feeds O
// multiplications. The inputs of a tile are listed by offset as in the sparse layer, once for all channels of a group
// of the convolution, in blocks that stay in the first cache.
#pragma once
#include "tiles.h"

namespace ASNI_NAMESPACE {

struct Dense {
    Positions to;
    int64_t convolution_groups;
    int64_t inputs, block;         // offsets per convolution group, and how many of them are taken at a time
    const int32_t *offset;         // [convolution group][inputs]
    const float *weight;           // [convolution group][channels / O, rounded up][inputs][O], zeros at the end
    const float *bias;
    int64_t tile_channels, tile_groups, tile_rows, tile_columns;
};

template <int O, int G, int R, int C, int S>
ASNI_INLINE void dense_tile(const Dense &layer, const float *x, float *y, const float *residual, const float *gate,
                            const float *bias, const int32_t *offset, const float *weight, int64_t count, int64_t channels, bool first,
                            bool last, int64_t group, Finiteness<LANES> &finiteness) {
    const Positions &to = layer.to;
    Sums<LANES, G, R, C> sums[O];
    // Channels beyond the last one have weights of zero and are not stored.
    ASNI_UNROLL for (int o = 0; o < O; o++) {
        if (first)
            sums[o].fill(o < channels ? bias[o] : 0.0f);
        else
            sums[o].read(y + (o < channels ? o : 0) * to.y_channel, group, to.y_row);
    }
    for (int64_t k = 0; k < count; k++) {
        const float *from = x + offset[k];
        ASNI_OPAQUE(from);
        Sums<LANES, G, R, C> inputs;
        ASNI_EACH_POSITION inputs.at[g][r][c] =
            load<LANES>(from + g * group + r * to.x_row + c * (S ? S * LANES : to.x_column));
        ASNI_UNROLL for (int o = 0; o < O; o++) {
            const Vector<LANES> w = all<LANES>(weight[k * O + o]);
            ASNI_EACH_POSITION sums[o].at[g][r][c] += inputs.at[g][r][c] * w;
        }
    }
    ASNI_UNROLL for (int o = 0; o < O; o++) {
        if (o >= channels) continue;
        if (last)
            sums[o].finish(to, residual ? residual + o * to.residual_channel : nullptr,
                           gate ? gate + o * to.gate_channel : nullptr, group, finiteness);
        sums[o].write(y + o * to.y_channel, group, to.y_row);
    }
}

template <int O, int G, int R, int C, int S>
ASNI_INLINE void dense_groups(const Dense &layer, const asni_run *run, Range packs, int64_t first_group, int64_t count) {
    const Positions &to = layer.to;
    const int64_t group = run->group_stride;
    const int64_t channels = to.channels / layer.convolution_groups, packs_each = (channels + O - 1) / O;
    Finiteness<LANES> finiteness;
    each_tile<G, R, C>(to, first_group, count, [&](int64_t g, int64_t row, int64_t column) {
        float *base = run->arena + g * group;
        const float *x = base + to.x + row * to.x_row + column * to.x_column;
        float *y = base + to.y + row * to.y_row + column * LANES;
        const float *residual = to.residual < 0 ? nullptr : base + to.residual + row * to.residual_row + column * LANES;
        const float *gate = to.gate < 0 ? nullptr : base + to.gate + row * to.gate_row + column * LANES;
        // Once even if there is no input, because all windows lie in the padding.
        for (int64_t k = 0; k == 0 || k < layer.inputs; k += layer.block)
            for (int64_t pack = packs.begin; pack < packs.end; pack++) {
                const int64_t part = pack / packs_each, within = pack % packs_each * O, o = part * channels + within;
                dense_tile<O, G, R, C, S>(
                    layer, x, y + o * to.y_channel, residual ? residual + o * to.residual_channel : nullptr,
                    gate ? gate + o * to.gate_channel : nullptr, layer.bias + o, layer.offset + part * layer.inputs + k,
                    layer.weight + (pack * layer.inputs + k) * O, smaller(layer.block, layer.inputs - k),
                    channels - within, k == 0, k + layer.block >= layer.inputs, group, finiteness);
                if (column == to.columns - C)
                    for (int64_t i = 0; i < smaller(O, channels - within); i++)
                        clear_behind<G>(to, base + to.y + (o + i) * to.y_channel, group);
            }
    });
    finiteness.report(run);
}

template <int O, int G, int R, int C, int S> static void dense_tiled(const Dense &layer, const asni_run *run) {
    const int64_t channels = layer.to.channels / layer.convolution_groups;
    const Share mine = share_of(layer.convolution_groups * ((channels + O - 1) / O), run);
    const int64_t whole = (mine.groups.end - mine.groups.begin) / G * G, next = mine.groups.begin + whole;
    dense_groups<O, G, R, C, S>(layer, run, mine.channels, mine.groups.begin, whole);
    if constexpr (G > 1) dense_groups<O, 1, R, C, S>(layer, run, mine.channels, next, mine.groups.end - next);
}

struct DenseTile {
    int channels, groups, rows, columns, stride;
    void (*run)(const Dense &, const asni_run *);
};
#define ASNI_DENSE_TILE(o, g, r, c) {o, g, r, c, 1, dense_tiled<o, g, r, c, 1>}
#define ASNI_DENSE_STRIDED(o, g, r, c) ASNI_DENSE_TILE(o, g, r, c), {o, g, r, c, 2, dense_tiled<o, g, r, c, 2>}

// Sums, inputs and one weight fill the registers: 32 of AVX-512, else 16.
static const DenseTile DENSE_TILES[] = {
    {4, 1, 1, 1, 0, dense_tiled<4, 1, 1, 1, 0>},
#if ASNI_LANES == 16
    ASNI_DENSE_STRIDED(6, 1, 1, 4), ASNI_DENSE_STRIDED(4, 1, 1, 6), ASNI_DENSE_STRIDED(3, 1, 1, 7),
    ASNI_DENSE_STRIDED(6, 1, 2, 2), ASNI_DENSE_TILE(6, 4, 1, 1), ASNI_DENSE_TILE(6, 1, 4, 1),
    ASNI_DENSE_STRIDED(12, 1, 1, 2), ASNI_DENSE_STRIDED(16, 1, 1, 1), ASNI_DENSE_STRIDED(2, 1, 1, 8),
    ASNI_DENSE_STRIDED(8, 1, 1, 3),
#else
    ASNI_DENSE_STRIDED(4, 1, 1, 3), ASNI_DENSE_STRIDED(3, 1, 1, 4), ASNI_DENSE_STRIDED(3, 1, 2, 2),
    ASNI_DENSE_TILE(3, 4, 1, 1), ASNI_DENSE_TILE(3, 1, 4, 1), ASNI_DENSE_STRIDED(6, 1, 1, 2),
    ASNI_DENSE_STRIDED(8, 1, 1, 1), ASNI_DENSE_STRIDED(1, 1, 1, 7),
#endif
};
constexpr int DENSE_TILE_COUNT = sizeof DENSE_TILES / sizeof DENSE_TILES[0];

static void dense(const void *parameters, const asni_run *run) {
    const Dense &layer = *(const Dense *)parameters;
    const int64_t distance = layer.to.x_column / LANES;
    for (int i = 0; i < DENSE_TILE_COUNT; i++) {
        const DenseTile &tile = DENSE_TILES[i];
        if (tile.channels == layer.tile_channels && tile.groups == layer.tile_groups &&
            tile.rows == layer.tile_rows && tile.columns == layer.tile_columns &&
            (tile.stride == distance || tile.stride == 0))
            return tile.run(layer, run);
    }
}

} // namespace ASNI_NAMESPACE
