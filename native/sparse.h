// The sparse layer: a tile of outputs stays in registers while the nonzeros of one output channel pass by. Each nonzero
// is a weight and the offset of its input, so any kernel, dilation and grouping is the same loop, and the vectors are
// items ("lanes") or pixels ("plain"). Input channels come in blocks, so that the inputs of a tile stay in the first
// cache while all output channels use them.
#pragma once
#include "tiles.h"

namespace ASNI_NAMESPACE {

struct Sparse {
    Positions to;
    int64_t blocks;
    const int32_t *start;      // of output channel o in block b: start[b * channels + o]; ends at the next entry
    const int32_t *offset;
    const float *value;
    const float *bias;
    int64_t vector;            // lanes of a position: LANES, or fewer on small maps
    int64_t tile_groups, tile_rows, tile_columns;
};

template <int N, int G, int R, int C, int S, int CHAINS>
ASNI_INLINE void sum_nonzeros(Sums<N, G, R, C> &sums, const float *x, const Positions &to, int64_t group,
                              const int32_t *offset, const float *value, int64_t count) {
    int64_t k = 0;
    if constexpr (CHAINS > 1) {
        Sums<N, G, R, C> others[CHAINS - 1];
        ASNI_UNROLL for (int i = 0; i < CHAINS - 1; i++) others[i].fill(0.0f);
        for (; k + CHAINS <= count; k += CHAINS) {
            sums.template add<S>(x + offset[k], all<N>(value[k]), group, to.x_row, to.x_column);
            ASNI_UNROLL for (int i = 1; i < CHAINS; i++)
                others[i - 1].template add<S>(x + offset[k + i], all<N>(value[k + i]), group, to.x_row, to.x_column);
        }
        ASNI_UNROLL for (int i = 0; i < CHAINS - 1; i++) sums.add(others[i]);
    }
    for (; k < count; k++) {
        const float *from = x + offset[k];
        ASNI_OPAQUE(from);
        sums.template add<S>(from, all<N>(value[k]), group, to.x_row, to.x_column);
    }
}

template <int N, int G, int R, int C, int S, int CHAINS>
ASNI_INLINE void sparse_groups(const Sparse &layer, const asni_run *run, Range channels, int64_t first, int64_t count) {
    const Positions &to = layer.to;
    const int64_t group = run->group_stride;
    Finiteness<N> finiteness;
    each_tile<G, R, C>(to, first, count, [&](int64_t g, int64_t row, int64_t column) {
        float *base = run->arena + g * group;
        const float *x = base + to.x + row * to.x_row + column * to.x_column;
        float *y = base + to.y + row * to.y_row + column * N;
        const float *residual = to.residual < 0 ? nullptr : base + to.residual + row * to.residual_row + column * N;
        const float *gate = to.gate < 0 ? nullptr : base + to.gate + row * to.gate_row + column * N;
        for (int64_t b = 0; b < layer.blocks; b++) {
            const int32_t *start = layer.start + b * to.channels;
            for (int64_t o = channels.begin; o < channels.end; o++) {
                Sums<N, G, R, C> sums;
                if (b == 0)
                    sums.fill(layer.bias[o]);
                else
                    sums.read(y + o * to.y_channel, group, to.y_row);
                sum_nonzeros<N, G, R, C, S, CHAINS>(sums, x, to, group, layer.offset + start[o],
                                                    layer.value + start[o], start[o + 1] - start[o]);
                if (b == layer.blocks - 1)
                    sums.finish(to, residual ? residual + o * to.residual_channel : nullptr,
                                gate ? gate + o * to.gate_channel : nullptr, group, finiteness);
                sums.write(y + o * to.y_channel, group, to.y_row);
                if (column == to.columns - C) clear_behind<G>(to, base + to.y + o * to.y_channel, group);
            }
        }
    });
    finiteness.report(run);
}

// Groups that do not fill a tile are taken by smaller ones, which add in the same order: the result for an item does not
// depend on how many others there are, or on the number of threads.
template <int N, int G, int R, int C, int S, int CHAINS>
ASNI_INLINE void sparse_shrinking(const Sparse &layer, const asni_run *run, Range channels, int64_t first, int64_t count) {
    const int64_t whole = count / G * G;
    sparse_groups<N, G, R, C, S, CHAINS>(layer, run, channels, first, whole);
    if constexpr (G > 1)
        sparse_shrinking<N, G / 2, R, C, S, CHAINS>(layer, run, channels, first + whole, count - whole);
}

template <int N, int G, int R, int C, int S> static void sparse_tiled(const Sparse &layer, const asni_run *run) {
    // Few sums cannot hide the latency of a multiplication: take several nonzeros at a time, each with its own sums.
    constexpr int CHAINS = G * R * C == 1 ? 4 : G * R * C <= 4 ? 2 : 1;
    const Share mine = share_of(layer.to.channels, run);
    sparse_shrinking<N, G, R, C, S, CHAINS>(layer, run, mine.channels, mine.groups.begin,
                                            mine.groups.end - mine.groups.begin);
}

struct SparseTile {
    int vector, groups, rows, columns, stride;
    void (*run)(const Sparse &, const asni_run *);
};
#define ASNI_SPARSE_TILE(n, g, r, c) {n, g, r, c, 1, sparse_tiled<n, g, r, c, 1>}
#define ASNI_SPARSE_STRIDED(n, g, r, c) ASNI_SPARSE_TILE(n, g, r, c), {n, g, r, c, 2, sparse_tiled<n, g, r, c, 2>}
#define ASNI_SPARSE_ANY(n) {n, 1, 1, 1, 0, sparse_tiled<n, 1, 1, 1, 0>}

// The tiles that are compiled; src/asni/engine/program/types.py asks for them by `asni_tiles`.
static const SparseTile SPARSE_TILES[] = {
    ASNI_SPARSE_ANY(LANES),
    // Maps of many columns.
    ASNI_SPARSE_STRIDED(LANES, 1, 1, 4), ASNI_SPARSE_STRIDED(LANES, 1, 1, 7), ASNI_SPARSE_STRIDED(LANES, 1, 1, 8),
    ASNI_SPARSE_STRIDED(LANES, 1, 2, 2), ASNI_SPARSE_STRIDED(LANES, 1, 2, 4), ASNI_SPARSE_STRIDED(LANES, 1, 3, 4),
    ASNI_SPARSE_STRIDED(LANES, 1, 2, 7), ASNI_SPARSE_STRIDED(LANES, 1, 1, 2), ASNI_SPARSE_STRIDED(LANES, 1, 1, 1),
    ASNI_SPARSE_STRIDED(LANES, 1, 1, 14),
#if ASNI_LANES == 16
    ASNI_SPARSE_STRIDED(LANES, 1, 4, 4), ASNI_SPARSE_STRIDED(LANES, 1, 2, 8), ASNI_SPARSE_STRIDED(LANES, 1, 3, 8),
    ASNI_SPARSE_STRIDED(LANES, 1, 4, 7), ASNI_SPARSE_TILE(LANES, 1, 1, 16), ASNI_SPARSE_TILE(LANES, 1, 1, 28),
    ASNI_SPARSE_TILE(LANES, 1, 1, 20),
#endif
    // Pixels of one flat map.
    ASNI_SPARSE_TILE(LANES, 1, 1, 3), ASNI_SPARSE_TILE(LANES, 1, 1, 5), ASNI_SPARSE_TILE(LANES, 1, 1, 6),
    ASNI_SPARSE_TILE(LANES, 1, 1, 9), ASNI_SPARSE_TILE(LANES, 1, 1, 10), ASNI_SPARSE_TILE(LANES, 1, 1, 12),
    ASNI_SPARSE_TILE(LANES, 1, 1, 13),
    // Rows of tokens.
    ASNI_SPARSE_TILE(LANES, 1, 4, 1), ASNI_SPARSE_TILE(LANES, 1, 8, 1),
    // Small maps and linear layers: several groups at once.
    ASNI_SPARSE_TILE(LANES, 2, 1, 1), ASNI_SPARSE_TILE(LANES, 4, 1, 1), ASNI_SPARSE_TILE(LANES, 8, 1, 1),
    ASNI_SPARSE_TILE(LANES, 2, 2, 2), ASNI_SPARSE_TILE(LANES, 3, 2, 2), ASNI_SPARSE_TILE(LANES, 2, 1, 4),
#if ASNI_LANES > 4
    ASNI_SPARSE_ANY(4), ASNI_SPARSE_TILE(4, 1, 1, 1),
#endif
#if ASNI_LANES > 8
    ASNI_SPARSE_ANY(8), ASNI_SPARSE_TILE(8, 1, 1, 1),
    // Rows of 8 pixels are aligned in half vectors only.
    ASNI_SPARSE_TILE(8, 1, 1, 2), ASNI_SPARSE_TILE(8, 1, 1, 4), ASNI_SPARSE_TILE(8, 1, 1, 8),
    ASNI_SPARSE_TILE(8, 1, 1, 16), ASNI_SPARSE_TILE(8, 1, 1, 7), ASNI_SPARSE_TILE(8, 1, 1, 14),
#endif
};
constexpr int SPARSE_TILE_COUNT = sizeof SPARSE_TILES / sizeof SPARSE_TILES[0];

static void sparse(const void *parameters, const asni_run *run) {
    const Sparse &layer = *(const Sparse *)parameters;
    const int64_t distance = layer.to.x_column / layer.vector;
    for (int i = 0; i < SPARSE_TILE_COUNT; i++) {
        const SparseTile &tile = SPARSE_TILES[i];
        if (tile.vector == layer.vector && tile.groups == layer.tile_groups && tile.rows == layer.tile_rows &&
            tile.columns == layer.tile_columns && (tile.stride == distance || tile.stride == 0))
            return tile.run(layer, run);
    }
}

} // namespace ASNI_NAMESPACE
