// The backward pass of a sparse layer. A tile of inputs and the sums of their gradients stay in registers while the
// nonzeros of one input channel pass by; each gradient of an output that is loaded feeds two multiplications: one for
// the gradient of the inputs, one for that of the weight. The sums of a weight are kept as vectors, lane by lane, and
// are added up at the end of a chunk of input channels.
//
// The inputs of a convolution with stride s are s x s interleaved sets of positions, each of which sees other weights:
// every set is an operation of its own, and has the outputs side by side.
#pragma once
#include "layout.h"

namespace ASNI_NAMESPACE {

struct SparseBackward {
    int64_t x, dx, dy;                 // offsets in the arena; dx is -1 if nobody needs it
    int64_t rows, columns;             // positions of the inputs
    int64_t x_row, x_column, dx_row, dx_column, dy_row;
    int64_t channels;
    const int32_t *x_offset, *dx_offset;   // of each input channel
    int64_t chunk;                     // input channels whose sums are kept at a time
    int64_t blocks;                    // of output channels, so that their gradients stay in the first cache
    const int32_t *start;              // ordered by chunk, block and input channel; ends at the next entry
    const int32_t *offset;
    const float *value;
    float *gradient;                   // of the nonzeros, in their order; a row for every thread
    int64_t gradient_row;
    int64_t accumulate, mask;          // add to what dx holds; at the end, keep it where x > 0
    int64_t tiles_at_once;             // that an input channel takes before the next one comes
    int64_t tile_groups, tile_rows, tile_columns;
};

// to[k] becomes the sum of vector k.
static void sum_lanes(const float *vectors, int64_t count, float *to) {
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        Vector<LANES> rows[LANES];
        ASNI_UNROLL for (int i = 0; i < LANES; i++) rows[i] = load<LANES>(vectors + (k + i) * LANES);
        sum_rows<LANES / 2>(rows);
        store<LANES>(to + k, rows[0]);
    }
    for (; k < count; k++) to[k] = sum<LANES>(load<LANES>(vectors + k * LANES));
}

// The nonzeros of one input channel in one block, on one tile.
struct BackwardTile {
    const float *x, *dy;
    float *dx;
    const int32_t *offset;
    const float *value;
    float *sums;
    int64_t count, group;
    bool first, last;
};

template <int G, int R, int C, bool DX> ASNI_INLINE void backward_tile(const SparseBackward &p, const BackwardTile &t) {
    Sums<LANES, G, R, C> x, d;
    ASNI_EACH_POSITION x.at[g][r][c] = load<LANES>(t.x + g * t.group + r * p.x_row + c * p.x_column);
    if constexpr (DX) {
        if (t.first && !p.accumulate)
            d.fill(0.0f);
        else
            ASNI_EACH_POSITION d.at[g][r][c] = load<LANES>(t.dx + g * t.group + r * p.dx_row + c * p.dx_column);
    }
    for (int64_t k = 0; k < t.count; k++) {
        const float *from = t.dy + t.offset[k];
        ASNI_OPAQUE(from);
        const Vector<LANES> weight = all<LANES>(t.value[k]);
        // Two chains of sums hide the latency of the additions.
        Vector<LANES> sums[2] = {load<LANES>(t.sums + k * LANES), all<LANES>(0.0f)};
        ASNI_EACH_POSITION {
            Vector<LANES> dy = load<LANES>(from + g * t.group + r * p.dy_row + c * LANES);
            if constexpr (DX) ASNI_LOADED(dy);
            if constexpr (DX) d.at[g][r][c] += dy * weight;
            sums[((g * R + r) * C + c) & 1] += dy * x.at[g][r][c];
        }
        store<LANES>(t.sums + k * LANES, G * R * C > 1 ? sums[0] + sums[1] : sums[0]);
    }
    if constexpr (DX) {
        if (t.last && p.mask)
            ASNI_EACH_POSITION d.at[g][r][c] = x.at[g][r][c] > 0.0f ? d.at[g][r][c] : all<LANES>(0.0f);
        ASNI_EACH_POSITION store<LANES>(t.dx + g * t.group + r * p.dx_row + c * p.dx_column, d.at[g][r][c]);
    }
}

// All channels of a chunk on tiles of R x C positions of a rectangle, G groups at a time.
template <int G, int R, int C, bool DX>
static void backward_area(const SparseBackward &p, const asni_run *run, int64_t g, int64_t row, int64_t rows, int64_t column,
                          int64_t columns, Range channels, float *sums) {
    const int64_t down = rows / R, across = columns / C, count = down * across;
    float *base = run->arena + g * run->group_stride;
    const int32_t *start = p.start + channels.begin * p.blocks;
    for (int64_t tile = 0; tile < count; tile += p.tiles_at_once)
        for (int64_t b = 0; b < p.blocks; b++)
            for (int64_t i = channels.begin; i < channels.end; i++) {
                const int32_t *mine = start + b * (channels.end - channels.begin) + i - channels.begin;
                const int64_t begin = mine[0], end = mine[1];
                if (!DX && begin == end) continue;
                for (int64_t k = tile; k < smaller(count, tile + p.tiles_at_once); k++) {
                    const int64_t r = row + k / across * R, c = column + k % across * C;
                    backward_tile<G, R, C, DX>(
                        p, {base + p.x + p.x_offset[i] + r * p.x_row + c * p.x_column,
                            base + p.dy + r * p.dy_row + c * LANES,
                            DX ? base + p.dx + p.dx_offset[i] + r * p.dx_row + c * p.dx_column : nullptr,
                            p.offset + begin, p.value + begin, sums + (begin - start[0]) * LANES, end - begin,
                            run->group_stride, b == 0, b == p.blocks - 1});
                }
            }
}

// A map that tiles do not fill is finished by rows and columns of single positions.
template <int G, int R, int C, bool DX>
ASNI_INLINE void backward_map(const SparseBackward &p, const asni_run *run, int64_t g, Range channels, float *sums) {
    const int64_t rows = p.rows / R * R, columns = p.columns / C * C;
    backward_area<G, R, C, DX>(p, run, g, 0, rows, 0, columns, channels, sums);
    if constexpr (C > 1)
        if (columns < p.columns)
            backward_area<G, 1, 1, DX>(p, run, g, 0, rows, columns, p.columns - columns, channels, sums);
    if constexpr (R > 1) {
        if (rows == p.rows) return;
        backward_area<G, 1, C, DX>(p, run, g, rows, p.rows - rows, 0, columns, channels, sums);
        if constexpr (C > 1)
            if (columns < p.columns)
                backward_area<G, 1, 1, DX>(p, run, g, rows, p.rows - rows, columns, p.columns - columns, channels, sums);
    }
}

template <int G, int R, int C, bool DX>
static void backward_groups(const SparseBackward &p, const asni_run *run, Range groups, Range channels, float *sums) {
    int64_t g = groups.begin;
    for (; g + G <= groups.end; g += G) backward_map<G, R, C, DX>(p, run, g, channels, sums);
    if constexpr (G > 1) backward_groups<G / 2, R, C, DX>(p, run, {g, groups.end}, channels, sums);
}

template <int G, int R, int C, bool DX> static void backward_tiled(const SparseBackward &p, const asni_run *run) {
    const Range groups = share(run->groups, run);
    float *gradient = p.gradient + run->part * p.gradient_row;
    for (int64_t i = 0; i < p.channels; i += p.chunk) {
        const Range channels = {i, smaller(p.channels, i + p.chunk)};
        const int64_t begin = p.start[channels.begin * p.blocks];
        const int64_t count = p.start[channels.end * p.blocks] - begin;
        memset(run->scratch, 0, (size_t)(count * LANES) * 4);
        backward_groups<G, R, C, DX>(p, run, groups, channels, run->scratch);
        sum_lanes(run->scratch, count, gradient + begin);
    }
}

struct BackwardTiles {
    int groups, rows, columns;
    void (*with_dx)(const SparseBackward &, const asni_run *);     // null if its sums would not stay in registers
    void (*without_dx)(const SparseBackward &, const asni_run *);
};
#define ASNI_BACKWARD_TILE(g, r, c) {g, r, c, backward_tiled<g, r, c, true>, backward_tiled<g, r, c, false>}
#define ASNI_WEIGHTS_TILE(g, r, c) {g, r, c, nullptr, backward_tiled<g, r, c, false>}

static const BackwardTiles BACKWARD_TILES[] = {
    ASNI_BACKWARD_TILE(1, 1, 1), ASNI_BACKWARD_TILE(1, 1, 2), ASNI_BACKWARD_TILE(1, 1, 4), ASNI_BACKWARD_TILE(1, 2, 2),
    ASNI_BACKWARD_TILE(1, 3, 2), ASNI_BACKWARD_TILE(2, 1, 1), ASNI_BACKWARD_TILE(4, 1, 1), ASNI_BACKWARD_TILE(1, 2, 1),
    ASNI_BACKWARD_TILE(1, 4, 1),
#if ASNI_LANES == 16
    ASNI_BACKWARD_TILE(1, 1, 7), ASNI_BACKWARD_TILE(1, 1, 8), ASNI_BACKWARD_TILE(1, 2, 4), ASNI_BACKWARD_TILE(1, 3, 4),
    ASNI_BACKWARD_TILE(8, 1, 1), ASNI_BACKWARD_TILE(2, 2, 2),
#else
    ASNI_WEIGHTS_TILE(8, 1, 1),
#endif
};
constexpr int BACKWARD_TILE_COUNT = sizeof BACKWARD_TILES / sizeof BACKWARD_TILES[0];

static void sparse_backward(const void *parameters, const asni_run *run) {
    const SparseBackward &p = *(const SparseBackward *)parameters;
    for (int i = 0; i < BACKWARD_TILE_COUNT; i++) {
        const BackwardTiles &tile = BACKWARD_TILES[i];
        if (tile.groups == p.tile_groups && tile.rows == p.tile_rows && tile.columns == p.tile_columns)
            return p.dx < 0 ? tile.without_dx(p, run) : tile.with_dx(p, run);
    }
}

// The sums of one chunk.
ASNI_INLINE int64_t backward_scratch(const SparseBackward &p) {
    int64_t most = 0;
    for (int64_t i = 0; i < p.channels; i += p.chunk)
        most = larger(most, p.start[smaller(p.channels, i + p.chunk) * p.blocks] - p.start[i * p.blocks]);
    return most * LANES;
}

} // namespace ASNI_NAMESPACE
