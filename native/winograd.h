// Winograd's convolution F(4x4, 3x3) for 3x3 kernels of stride 1 that stayed dense: 36 multiplications give 16 outputs
// instead of 144. Tiles of 6x6 inputs are transformed, multiplied frequency by frequency as 36 small matrix products,
// and transformed back. A vector holds the same tile of several items ("lanes") or several tiles of one ("plain").
#pragma once
#include "tiles.h"
#include <utility>

namespace ASNI_NAMESPACE {

constexpr int FREQUENCIES = 36;
#if ASNI_LANES == 16
constexpr int PACK = 6, STRIP = 4;
#else
constexpr int PACK = 4, STRIP = 3;
#endif

struct Winograd {
    Positions to;
    int64_t inputs, x_channel;         // input channels
    int64_t height, width;             // of the input map
    int64_t top, left;                 // padding
    int64_t lanes_are_items;
    int64_t block;                     // vectors of tiles at a time, so that their transforms stay in the second cache
    const float *weight;               // [36][channels / PACK, rounded up][inputs][PACK]
    const float *bias;
};

ASNI_INLINE int64_t tile_columns_of(const Winograd &layer) { return (layer.to.columns + 3) / 4; }
ASNI_INLINE int64_t tiles_of(const Winograd &layer) { return (layer.to.rows + 3) / 4 * tile_columns_of(layer); }

typedef Vector<LANES> Lanes;

ASNI_INLINE void forward(const Lanes &a0, const Lanes &a1, const Lanes &a2, const Lanes &a3, const Lanes &a4,
                         const Lanes &a5, Lanes *to, int step) {
    to[0] = 4.0f * a0 - 5.0f * a2 + a4;
    to[step] = a3 + a4 - 4.0f * (a1 + a2);
    to[2 * step] = a4 - a3 + 4.0f * (a1 - a2);
    to[3 * step] = a4 - a2 + 2.0f * (a3 - a1);
    to[4 * step] = a4 - a2 - 2.0f * (a3 - a1);
    to[5 * step] = 4.0f * a1 - 5.0f * a3 + a5;
}

ASNI_INLINE void backward(const Lanes &m0, const Lanes &m1, const Lanes &m2, const Lanes &m3, const Lanes &m4,
                          const Lanes &m5, Lanes *to, int step) {
    const Lanes sum = m1 + m2, difference = m1 - m2, outer_sum = m3 + m4, outer_difference = m3 - m4;
    to[0] = m0 + sum + outer_sum;
    to[step] = difference + 2.0f * outer_difference;
    to[2 * step] = sum + 4.0f * outer_sum;
    to[3 * step] = difference + 8.0f * outer_difference + m5;
}

// 6x6 inputs to 36 frequencies, `step` floats apart.
ASNI_INLINE void transform(const Lanes *d, float *to, int64_t step) {
    Lanes columns[FREQUENCIES], rows[FREQUENCIES];
    ASNI_UNROLL for (int j = 0; j < 6; j++)
        forward(d[j], d[6 + j], d[12 + j], d[18 + j], d[24 + j], d[30 + j], columns + j, 6);
    ASNI_UNROLL for (int i = 0; i < 6; i++) {
        const Lanes *c = columns + 6 * i;
        forward(c[0], c[1], c[2], c[3], c[4], c[5], rows + 6 * i, 1);
    }
    ASNI_UNROLL for (int f = 0; f < FREQUENCIES; f++) store<LANES>(to + f * step, rows[f]);
}

// 36 frequencies, `step` floats apart, to 4x4 outputs.
ASNI_INLINE void transform_back(const float *from, int64_t step, Lanes *to) {
    Lanes columns[24];
    ASNI_UNROLL for (int j = 0; j < 6; j++)
        backward(load<LANES>(from + j * step), load<LANES>(from + (6 + j) * step), load<LANES>(from + (12 + j) * step),
                 load<LANES>(from + (18 + j) * step), load<LANES>(from + (24 + j) * step),
                 load<LANES>(from + (30 + j) * step), columns + j, 6);
    ASNI_UNROLL for (int i = 0; i < 4; i++) {
        const Lanes *c = columns + 6 * i;
        backward(c[0], c[1], c[2], c[3], c[4], c[5], to + 4 * i, 1);
    }
}

// Where a block of tiles lies in scratch memory. Frequencies are an odd number of vectors apart: they are written and
// read one after the other, and would otherwise compete for the same lines of the first cache.
struct Transforms {
    float *u, *m, *d, *q;
    int64_t vectors, width, packed, u_step, m_step;
};

ASNI_INLINE Transforms transforms_of(const Winograd &layer, int64_t vectors, float *scratch) {
    Transforms t;
    t.vectors = vectors;
    t.width = vectors * LANES;
    t.packed = rounded_up(layer.to.channels, PACK);
    t.u_step = (layer.inputs * vectors | 1) * LANES;
    t.m_step = (t.packed * vectors | 1) * LANES;
    t.u = scratch;
    t.m = t.u + FREQUENCIES * t.u_step;
    t.d = t.m + FREQUENCIES * t.m_step;
    t.q = t.d + FREQUENCIES * t.width;
    return t;
}

// Asks for R x C vectors before they are needed: the rows of a tile are too short for the processor to foresee the next.
template <int R, int C> ASNI_INLINE void prefetch_rows(const float *from, int64_t row) {
    constexpr int STEP = LANES < 16 ? 16 / LANES : 1;
    ASNI_UNROLL for (int r = 0; r < R; r++) ASNI_UNROLL for (int c = 0; c < C; c += STEP)
        __builtin_prefetch(from + r * row + c * LANES);
}

// The inputs of a tile whose vectors are items.
ASNI_INLINE void gather_items(const Winograd &layer, const float *x, int64_t tile, Lanes *d) {
    const int64_t row = tile / tile_columns_of(layer) * 4 - layer.top;
    const int64_t column = tile % tile_columns_of(layer) * 4 - layer.left;
    const float *from = x + row * layer.to.x_row + column * LANES;
    prefetch_rows<4, 4>(from + layer.x_channel + layer.to.x_row + LANES, layer.to.x_row);
    if (row >= 0 && row + 6 <= layer.height && column >= 0 && column + 6 <= layer.width) {
        ASNI_UNROLL for (int i = 0; i < 6; i++) ASNI_UNROLL for (int j = 0; j < 6; j++)
            d[6 * i + j] = load<LANES>(from + i * layer.to.x_row + j * LANES);
        return;
    }
    for (int64_t i = 0; i < 6; i++)
        for (int64_t j = 0; j < 6; j++) {
            const int64_t r = row + i, c = column + j;
            const bool inside = r >= 0 && r < layer.height && c >= 0 && c < layer.width;
            d[6 * i + j] = inside ? load<LANES>(x + r * layer.to.x_row + c * LANES) : all<LANES>(0.0f);
        }
}

// Every fourth float of a row, by vectors: q[j][t] = x[4 t + j].
template <int N, size_t... I>
ASNI_INLINE void split_by_four(const float *x, float *q, int64_t pitch, std::index_sequence<I...>) {
    typedef Vector<N> Part;
    const Part a = load<N>(x), b = load<N>(x + N), c = load<N>(x + 2 * N), d = load<N>(x + 3 * N);
    const Part even0 = __builtin_shufflevector(a, b, (2 * int(I))...);
    const Part even1 = __builtin_shufflevector(c, d, (2 * int(I))...);
    const Part odd0 = __builtin_shufflevector(a, b, (2 * int(I) + 1)...);
    const Part odd1 = __builtin_shufflevector(c, d, (2 * int(I) + 1)...);
    store<N>(q, __builtin_shufflevector(even0, even1, (2 * int(I))...));
    store<N>(q + pitch, __builtin_shufflevector(odd0, odd1, (2 * int(I))...));
    store<N>(q + 2 * pitch, __builtin_shufflevector(even0, even1, (2 * int(I) + 1)...));
    store<N>(q + 3 * pitch, __builtin_shufflevector(odd0, odd1, (2 * int(I) + 1)...));
}

// The inverse: y[4 t + j] = q[j][t], as four vectors.
template <int N, size_t... I>
ASNI_INLINE void join_by_four(const float *q, int64_t pitch, Vector<N> *y, std::index_sequence<I...>) {
    typedef Vector<N> Part;
    const Part a = load<N>(q), b = load<N>(q + pitch), c = load<N>(q + 2 * pitch), d = load<N>(q + 3 * pitch);
#define ASNI_ZIP_LOW(u, v) __builtin_shufflevector(u, v, (int(I) / 2 + (I % 2 ? N : 0))...)
#define ASNI_ZIP_HIGH(u, v) __builtin_shufflevector(u, v, (N / 2 + int(I) / 2 + (I % 2 ? N : 0))...)
    const Part ac0 = ASNI_ZIP_LOW(a, c), ac1 = ASNI_ZIP_HIGH(a, c);
    const Part bd0 = ASNI_ZIP_LOW(b, d), bd1 = ASNI_ZIP_HIGH(b, d);
    y[0] = ASNI_ZIP_LOW(ac0, bd0);
    y[1] = ASNI_ZIP_HIGH(ac0, bd0);
    y[2] = ASNI_ZIP_LOW(ac1, bd1);
    y[3] = ASNI_ZIP_HIGH(ac1, bd1);
#undef ASNI_ZIP_LOW
#undef ASNI_ZIP_HIGH
}

constexpr int SPLIT = ASNI_LANES >= 8 ? 8 : 4;

ASNI_INLINE void copy_floats(const float *from, int64_t count, float *to) {
    int64_t k = 0;
    for (; k + SPLIT <= count; k += SPLIT) store<SPLIT>(to + k, load<SPLIT>(from + k));
    for (; k < count; k++) to[k] = from[k];
}

// The rows of a map split by four, with a zero before and zeros behind: row r, phase j starts at (4 r + j) * pitch + 1.
ASNI_INLINE int64_t split_pitch(const Winograd &layer) { return rounded_up(tile_columns_of(layer) + 2, SPLIT) + SPLIT; }

static void split_rows(const Winograd &layer, const float *x, int64_t begin, int64_t end, float *q) {
    const int64_t pitch = split_pitch(layer);
    for (int64_t r = begin; r < end; r++) {
        const float *row = x + r * layer.to.x_row;
        float *to = q + 4 * r * pitch + 1;
        int64_t t = 0;
        for (; 4 * (t + SPLIT) <= layer.width; t += SPLIT)
            split_by_four<SPLIT>(row + 4 * t, to + t, pitch, std::make_index_sequence<SPLIT>());
        for (; t <= tile_columns_of(layer); t++)
            for (int64_t j = 0; j < 4; j++) to[j * pitch + t] = 4 * t + j < layer.width ? row[4 * t + j] : 0.0f;
        for (int64_t j = 0; j < 4; j++) to[j * pitch - 1] = 0.0f;
    }
}

// The inputs of several tiles of one map: to[6 * i + j][tile], `step` floats from one place of a tile to the next.
static void gather_tiles(const Winograd &layer, const float *x, int64_t first, int64_t count, float *to, int64_t step,
                         float *q) {
    const int64_t across = tile_columns_of(layer), pitch = split_pitch(layer);
    split_rows(layer, x, larger(0, first / across * 4 - layer.top),
               smaller(layer.height, (first + count - 1) / across * 4 - layer.top + 6), q);
    for (int64_t done = 0; done < count;) {
        const int64_t tile = first + done, row = tile / across * 4 - layer.top, column = tile % across;
        const int64_t taken = smaller(across - column, count - done);
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 6; j++) {
                float *target = to + (6 * i + j) * step + done;
                const int64_t place = j - layer.left + 4;
                if (row + i < 0 || row + i >= layer.height)
                    for (int64_t k = 0; k < taken; k++) target[k] = 0.0f;
                else
                    copy_floats(q + (4 * (row + i) + place % 4) * pitch + place / 4 + column, taken, target);
            }
        done += taken;
    }
}

static void scatter_tile(const Winograd &layer, const Lanes *outputs, int64_t tile, float *y, const float *residual,
                         const float *gate) {
    const Positions &to = layer.to;
    const int64_t row = tile / tile_columns_of(layer) * 4, column = tile % tile_columns_of(layer) * 4;
    if (gate) prefetch_rows<4, 4>(gate + to.gate_channel + row * to.gate_row + column * LANES, to.gate_row);
    for (int64_t i = 0; i < smaller(4, to.rows - row); i++)
        for (int64_t j = 0; j < smaller(4, to.columns - column); j++) {
            Lanes value = outputs[4 * i + j];
            if (residual) value += load<LANES>(residual + (row + i) * to.residual_row + (column + j) * LANES);
            value = activated<LANES>(value, to.activation);
            if (gate)
                value = load<LANES>(gate + (row + i) * to.gate_row + (column + j) * LANES) > 0.0f ? value
                                                                                                : all<LANES>(0.0f);
            store<LANES>(y + (row + i) * to.y_row + (column + j) * LANES, value);
        }
}

template <int N>
ASNI_INLINE void end_row(const Positions &to, Vector<N> value, const float *residual, float *y) {
    if (residual) value += load<N>(residual);
    store<N>(y, activated<N>(value, to.activation));
}

// The outputs of several tiles of one map, from[4 * i + j][tile], back into rows.
static void scatter_tiles(const Winograd &layer, const float *from, int64_t step, int64_t first, int64_t count,
                          float *y, const float *residual) {
    const Positions &to = layer.to;
    const int64_t across = tile_columns_of(layer);
    for (int64_t done = 0; done < count;) {
        const int64_t tile = first + done, row = tile / across * 4, column = tile % across * 4;
        const int64_t taken = smaller(across - tile % across, count - done);
        const int64_t width = smaller(4 * taken, to.columns - column);
        for (int64_t i = 0; i < smaller(4, to.rows - row); i++) {
            const float *source = from + 4 * i * step + done;
            float *target = y + (row + i) * to.y_row + column;
            const float *more = residual ? residual + (row + i) * to.residual_row + column : nullptr;
            int64_t k = 0;
            for (; k + 4 * SPLIT <= width; k += 4 * SPLIT) {
                Vector<SPLIT> joined[4];
                join_by_four<SPLIT>(source + k / 4, step, joined, std::make_index_sequence<SPLIT>());
                ASNI_UNROLL for (int p = 0; p < 4; p++)
                    end_row<SPLIT>(to, joined[p], more ? more + k + p * SPLIT : nullptr, target + k + p * SPLIT);
            }
            for (; k < width; k++) end_row<1>(to, source[k % 4 * step + k / 4], more ? more + k : nullptr, target + k);
        }
        done += taken;
    }
}

// Channels whose products are summed before this is added to the sum of others. One long sum loses digits, and the way
// back to outputs multiplies the loss.
constexpr int64_t SUMMED = 64;

// One strip of S vectors of tiles, PACK output channels: products of one frequency summed over the input channels.
template <int S>
ASNI_INLINE void multiply_strip(const float *from, const float *weight, int64_t inputs, int64_t vectors, float *to) {
    for (int64_t first = 0; first < inputs; first += SUMMED) {
        Lanes sums[PACK][S];
        ASNI_UNROLL for (int o = 0; o < PACK; o++) ASNI_UNROLL for (int s = 0; s < S; s++)
            sums[o][s] = all<LANES>(0.0f);
        const int64_t end = smaller(inputs, first + SUMMED);
        for (int64_t c = first; c < end; c++, from += vectors * LANES) {
            Lanes in[S];
            ASNI_UNROLL for (int s = 0; s < S; s++) in[s] = load<LANES>(from + s * LANES);
            ASNI_UNROLL for (int o = 0; o < PACK; o++) {
                const Lanes w = all<LANES>(weight[c * PACK + o]);
                ASNI_UNROLL for (int s = 0; s < S; s++) sums[o][s] += in[s] * w;
            }
        }
        ASNI_UNROLL for (int o = 0; o < PACK; o++) ASNI_UNROLL for (int s = 0; s < S; s++) {
            float *total = to + (o * vectors + s) * LANES;
            store<LANES>(total, first ? load<LANES>(total) + sums[o][s] : sums[o][s]);
        }
    }
}

// M[f][o][v] = sum over c of weight[f][o][c] * U[f][c][v]; the last strip is moved back to end at the last vector.
template <int S> static void multiply_frequencies(const Winograd &layer, const Transforms &t) {
    const int64_t packs = t.packed / PACK;
    for (int64_t f = 0; f < FREQUENCIES; f++)
        for (int64_t pack = 0; pack < packs; pack++) {
            const float *weight = layer.weight + (f * packs + pack) * layer.inputs * PACK;
            for (int64_t strip = 0; strip < t.vectors; strip += S) {
                const int64_t v = smaller(strip, t.vectors - S);
                multiply_strip<S>(t.u + f * t.u_step + v * LANES, weight, layer.inputs, t.vectors,
                                  t.m + f * t.m_step + (pack * PACK * t.vectors + v) * LANES);
            }
        }
}

static void multiply(const Winograd &layer, const Transforms &t) {
    if (t.vectors >= STRIP)
        multiply_frequencies<STRIP>(layer, t);
    else if (t.vectors >= 2)
        multiply_frequencies<2>(layer, t);
    else
        multiply_frequencies<1>(layer, t);
}

// Tiles first .. first + count of one group, through scratch memory.
static void winograd_block(const Winograd &layer, const asni_run *run, int64_t g, int64_t first, int64_t count,
                           Finiteness<LANES> &finiteness) {
    const Positions &to = layer.to;
    float *base = run->arena + g * run->group_stride;
    const bool items = layer.lanes_are_items;
    const Transforms t = transforms_of(layer, items ? count : (count + LANES - 1) / LANES, run->scratch);
    Lanes held[FREQUENCIES];
    memset(t.d, 0, (size_t)(FREQUENCIES * t.width) * 4);
    for (int64_t c = 0; c < layer.inputs; c++) {
        const float *x = base + to.x + c * layer.x_channel;
        if (!items) gather_tiles(layer, x, first, count, t.d, t.width, t.q);
        for (int64_t v = 0; v < t.vectors; v++) {
            if (items)
                gather_items(layer, x, first + v, held);
            else
                ASNI_UNROLL for (int f = 0; f < FREQUENCIES; f++) held[f] = load<LANES>(t.d + f * t.width + v * LANES);
            transform(held, t.u + (c * t.vectors + v) * LANES, t.u_step);
        }
    }
    multiply(layer, t);
    for (int64_t o = 0; o < to.channels; o++) {
        float *y = base + to.y + o * to.y_channel;
        const float *residual = to.residual < 0 ? nullptr : base + to.residual + o * to.residual_channel;
        const float *gate = to.gate < 0 ? nullptr : base + to.gate + o * to.gate_channel;
        const Lanes bias = all<LANES>(layer.bias[o]);
        for (int64_t v = 0; v < t.vectors; v++) {
            transform_back(t.m + (o * t.vectors + v) * LANES, t.m_step, held);
            Lanes total = all<LANES>(0.0f);
            ASNI_UNROLL for (int f = 0; f < 16; f++) {
                held[f] += bias;
                total += held[f];
            }
            finiteness.look(total);
            if (items)
                scatter_tile(layer, held, first + v, y, residual, gate);
            else
                ASNI_UNROLL for (int f = 0; f < 16; f++) store<LANES>(t.d + f * t.width + v * LANES, held[f]);
        }
        if (!items) scatter_tiles(layer, t.d, t.width, first, count, y, residual);
    }
}

// How many floats of scratch memory a block takes.
ASNI_INLINE int64_t winograd_scratch(const Winograd &layer) {
    const Transforms t = transforms_of(layer, layer.block, nullptr);
    return FREQUENCIES * (t.u_step + t.m_step + t.width) + 4 * layer.height * split_pitch(layer);
}

static void winograd(const void *parameters, const asni_run *run) {
    const Winograd &layer = *(const Winograd *)parameters;
    const int64_t tiles = tiles_of(layer), each = layer.block * (layer.lanes_are_items ? 1 : LANES);
    const int64_t blocks = (tiles + each - 1) / each;
    const Share mine = share_of(blocks, run);
    Finiteness<LANES> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t b = mine.channels.begin; b < mine.channels.end; b++)
            winograd_block(layer, run, g, b * each, smaller(each, tiles - b * each), finiteness);
    finiteness.report(run);
}

} // namespace ASNI_NAMESPACE
