// Pooling of any kind: the window of each output is a range of rows and a range of columns inside of the map.
#pragma once
#include "tiles.h"
#include <utility>

namespace ASNI_NAMESPACE {

struct Pool {
    int64_t x, y;
    int64_t channels, rows, columns;
    int64_t x_channel, x_row, y_channel, y_row;
    int64_t average;
    const int32_t *row_window, *column_window;         // [rows][2], [columns][2]: first and end
    int64_t row_step, column_step;                     // dilation
    int64_t width;                                     // of the input map
    int64_t window, stride, left;                      // of the columns if the stride is 1 or 2, else 0
    int64_t pairs;                                     // 2x2 with stride 2, so that nothing overlaps or is cut off
    const float *scale;                                // [rows][columns]: 1 / divisor of an average
    int64_t element;
};

template <int N> ASNI_INLINE Vector<N> pooled(Vector<N> so_far, Vector<N> next, bool average) {
    if (average) return so_far + next;
    // NaN wins, as in PyTorch.
    so_far = next > so_far ? next : so_far;
    return next != next ? next : so_far;
}

template <int N> ASNI_INLINE void pool_channel(const Pool &p, const float *x, float *y) {
    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t c = 0; c < p.columns; c++) {
            Vector<N> result = all<N>(p.average ? 0.0f : -INFINITY);
            for (int64_t i = p.row_window[2 * r]; i < p.row_window[2 * r + 1]; i += p.row_step)
                for (int64_t j = p.column_window[2 * c]; j < p.column_window[2 * c + 1]; j += p.column_step)
                    result = pooled<N>(result, load<N>(x + i * p.x_row + j * N), p.average);
            if (p.average) result *= p.scale[r * p.columns + c];
            store<N>(y + r * p.y_row + c * N, result);
        }
}

template <int N, size_t... I>
ASNI_INLINE Vector<N> pooled_pairs(Vector<N> a, Vector<N> b, bool average, std::index_sequence<I...>) {
    return pooled<N>(__builtin_shufflevector(a, b, (2 * int(I))...), __builtin_shufflevector(a, b, (2 * int(I) + 1)...),
                     average);
}

// 2x2 with stride 2, N columns at a time; the last ones are moved back to end at the border.
template <int N> ASNI_INLINE void pool_pairs(const Pool &p, const float *x, float *y) {
    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t next = 0; next < p.columns; next += N) {
            const int64_t c = smaller(next, p.columns - N);
            const float *upper = x + 2 * r * p.x_row + 2 * c, *lower = upper + p.x_row;
            const Vector<N> a = pooled<N>(load<N>(upper), load<N>(lower), p.average);
            const Vector<N> b = pooled<N>(load<N>(upper + N), load<N>(lower + N), p.average);
            Vector<N> result;
            if constexpr (N == 1)
                result = pooled<N>(a, b, p.average);
            else
                result = pooled_pairs<N>(a, b, p.average, std::make_index_sequence<N>());
            store<N>(y + r * p.y_row + c, p.average ? result * 0.25f : result);
        }
}

template <size_t... I>
ASNI_INLINE Vector<LANES> neighbours(const float *from, int64_t stride, std::index_sequence<I...>) {
    const Vector<LANES> first = load<LANES>(from);
    if (stride == 1) return first;
    return __builtin_shufflevector(first, load<LANES>(from + LANES), (2 * int(I))...);
}

// The columns of a row whose windows are all alike, by vectors. Around the line there is what changes nothing.
ASNI_INLINE void pool_line(const Pool &p, const float *line, const float *scale, float *y) {
    int64_t c = 0;
    for (; c < p.columns; c += LANES) {
        Vector<LANES> result = all<LANES>(p.average ? 0.0f : -INFINITY);
        for (int64_t k = 0; k < p.window; k++)
            result = pooled<LANES>(
                result, neighbours(line + c * p.stride + k - p.left, p.stride, std::make_index_sequence<LANES>()),
                p.average);
        float values[LANES];
        store<LANES>(values, result);
        for (int64_t i = 0; i < smaller(LANES, p.columns - c); i++)
            y[c + i] = p.average ? values[i] * scale[c + i] : values[i];
    }
}

// How far beside a line its windows and the vectors of them reach.
ASNI_INLINE int64_t line_margin(const Pool &p) { return larger(p.left, 0) + p.window + 3 * LANES; }
ASNI_INLINE int64_t line_pitch(const Pool &p) { return larger(p.width, p.stride * p.columns) + 2 * line_margin(p); }

// The rows of every window are pooled first, by vectors of neighbouring columns, and then the columns of all lines: a
// line that was written just before could not be read yet.
ASNI_INLINE void pool_map(const Pool &p, const float *x, float *y, float *lines) {
    const float nothing = p.average ? 0.0f : -INFINITY;
    for (int64_t r = 0; r < p.rows; r++) {
        float *line = lines + r * line_pitch(p) + line_margin(p);
        for (int64_t j = 0; j < p.width; j++) line[j] = nothing;
        for (int64_t i = p.row_window[2 * r]; i < p.row_window[2 * r + 1]; i += p.row_step) {
            const float *row = x + i * p.x_row;
            int64_t j = 0;
            for (; j + LANES <= p.width; j += LANES)
                store<LANES>(line + j, pooled<LANES>(load<LANES>(line + j), load<LANES>(row + j), p.average));
            for (; j < p.width; j++) line[j] = pooled<1>(line[j], row[j], p.average);
        }
    }
    for (int64_t r = 0; r < p.rows; r++) {
        const float *line = lines + r * line_pitch(p) + line_margin(p);
        const float *scale = p.average ? p.scale + r * p.columns : nullptr;
        float *to = y + r * p.y_row;
        if (p.stride) {
            pool_line(p, line, scale, to);
            continue;
        }
        for (int64_t c = 0; c < p.columns; c++) {
            float result = nothing;
            for (int64_t j = p.column_window[2 * c]; j < p.column_window[2 * c + 1]; j += p.column_step)
                result = pooled<1>(result, line[j], p.average);
            to[c] = p.average ? result * scale[c] : result;
        }
    }
}

// Only maps of single items are pooled through lines.
ASNI_INLINE int64_t pool_scratch(const Pool &p) { return p.element == 1 && !p.pairs ? p.rows * line_pitch(p) : 0; }

static void pool(const void *parameters, const asni_run *run) {
    const Pool &p = *(const Pool *)parameters;
    const Share mine = share_of(p.channels, run);
    Finiteness<LANES> finiteness;
    for (int64_t j = 0; j < pool_scratch(p); j++) run->scratch[j] = p.average ? 0.0f : -INFINITY;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t c = mine.channels.begin; c < mine.channels.end; c++) {
            float *base = run->arena + g * run->group_stride;
            const float *x = base + p.x + c * p.x_channel;
            float *y = base + p.y + c * p.y_channel;
            if (p.element != 1)
                pool_channel<LANES>(p, x, y);
            else if (p.pairs && p.columns >= LANES)
                pool_pairs<LANES>(p, x, y);
            else if (p.pairs && p.columns >= 4)
                pool_pairs<4>(p, x, y);
            else if (p.pairs)
                pool_pairs<1>(p, x, y);
            else
                pool_map(p, x, y, run->scratch);
            // A sum may overflow.
            for (int64_t r = 0; p.average && r < p.rows; r++) finiteness.look(y + r * p.y_row, p.columns * p.element);
        }
    finiteness.report(run);
}

} // namespace ASNI_NAMESPACE
