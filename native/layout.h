// Between the user's arrays and the layouts of the core, and from one layout to another.
#pragma once
#include "tiles.h"
#include <utility>

namespace ASNI_NAMESPACE {

// An input or output: an array of the user, item by item, and the value that it becomes or comes from.
struct Batch {
    int64_t index, value;
    int64_t channels, rows, columns;
    int64_t channel, row;              // strides of the value
    int64_t element;                   // floats per element: LANES, or 1 in the layout "plain"
    int64_t blank;                     // lanes beyond the last item hold zeros, as a gradient needs
};

// Shifted and strided copies of each channel of a map, so that the inputs of neighbouring pixels are neighbours.
struct Shift {
    int64_t x, y;
    int64_t channels, kinds;           // a copy of every kind for every channel
    const int32_t *kind;               // [kinds][2]: first row and first column, which may lie outside
    const int32_t *mask;               // [kinds][y_plane]: all ones inside; only if a copy is the map moved as a whole
    int64_t rows, columns;             // of a copy
    int64_t row_step, column_step;     // in the map
    int64_t x_channel, x_row, height, width, y_plane;
    int64_t vector;
};

constexpr int DIMENSIONS = 6;

struct Copy {
    int64_t x, y;
    int64_t size[DIMENSIONS], x_stride[DIMENSIONS], y_stride[DIMENSIONS];
    int64_t element;
};

struct Constant {
    int64_t y, count;
    const float *value;
    int64_t element;
};

template <int STEP, size_t... I>
ASNI_INLINE void exchange(Vector<LANES> &a, Vector<LANES> &b, std::index_sequence<I...>) {
    const Vector<LANES> lower = __builtin_shufflevector(a, b, (I & STEP ? int(I) - STEP + LANES : int(I))...);
    b = __builtin_shufflevector(a, b, (I & STEP ? int(I) + LANES : int(I) + STEP)...);
    a = lower;
}

// Swaps ever smaller blocks beside the diagonal.
template <int STEP> ASNI_INLINE void transpose(Vector<LANES> *rows) {
    if constexpr (STEP > 0) {
        ASNI_UNROLL for (int i = 0; i < LANES; i++)
            if (!(i & STEP)) exchange<STEP>(rows[i], rows[i + STEP], std::make_index_sequence<LANES>());
        transpose<STEP / 2>(rows);
    }
}

// rows[0][i] becomes the sum of rows[i].
template <int STEP> ASNI_INLINE void sum_rows(Vector<LANES> *rows) {
    if constexpr (STEP > 0) {
        ASNI_UNROLL for (int i = 0; i < STEP; i++) {
            exchange<STEP>(rows[i], rows[i + STEP], std::make_index_sequence<LANES>());
            rows[i] += rows[i + STEP];
        }
        sum_rows<STEP / 2>(rows);
    }
}

// Rows of `count` floats of up to LANES items, `item` floats apart, become `count` vectors. Lanes beyond the last item
// hold it again unless they are `blank`: zeros there could be divided by each other.
ASNI_INLINE void to_lanes(const float *from, int64_t item, int64_t items, bool blank, int64_t count, float *to) {
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        Vector<LANES> rows[LANES];
        ASNI_UNROLL for (int i = 0; i < LANES; i++)
            rows[i] = blank && i >= items ? all<LANES>(0.0f) : load<LANES>(from + smaller(i, items - 1) * item + k);
        transpose<LANES / 2>(rows);
        ASNI_UNROLL for (int i = 0; i < LANES; i++) store<LANES>(to + (k + i) * LANES, rows[i]);
    }
    for (; k < count; k++)
        for (int i = 0; i < LANES; i++)
            to[k * LANES + i] = blank && i >= items ? 0.0f : from[smaller(i, items - 1) * item + k];
}

ASNI_INLINE int64_t item_floats(const Batch &p) { return p.channels * p.rows * p.columns; }

// Calls row(offset in the user's array, row of the value, items) for this thread's rows of all groups.
template <class Row> ASNI_INLINE void each_batch_row(const Batch &p, const asni_run *run, Row row) {
    const Share mine = share_of(p.channels, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        const int64_t first = run->first + g * p.element, items = smaller(p.element, run->items - first);
        float *value = run->arena + g * run->group_stride + p.value;
        for (int64_t c = mine.channels.begin; c < mine.channels.end; c++)
            for (int64_t r = 0; r < p.rows; r++)
                row(first * item_floats(p) + (c * p.rows + r) * p.columns, value + c * p.channel + r * p.row, items);
    }
}

static void input(const void *parameters, const asni_run *run) {
    const Batch &p = *(const Batch *)parameters;
    const float *array = run->inputs[p.index];
    const int64_t item = item_floats(p);
    each_batch_row(p, run, [&](int64_t offset, float *to, int64_t items) {
        if (p.element == 1)
            memcpy(to, array + offset, (size_t)p.columns * 4);
        else
            to_lanes(array + offset, item, items, p.blank, p.columns, to);
    });
    // NaN and infinity must be seen before a zero weight passes over them.
    Finiteness<LANES> finiteness;
    const int64_t items = smaller(run->groups * p.element, run->items - run->first);
    const Range floats = share(items * item, run);
    finiteness.look(array + run->first * item + floats.begin, floats.end - floats.begin);
    finiteness.report(run);
}

static void output(const void *parameters, const asni_run *run) {
    const Batch &p = *(const Batch *)parameters;
    float *array = run->outputs[p.index];
    const int64_t item = item_floats(p);
    each_batch_row(p, run, [&](int64_t offset, const float *from, int64_t items) {
        for (int64_t i = 0; i < items; i++)
            for (int64_t k = 0; k < p.columns; k++) array[offset + i * item + k] = from[k * p.element + i];
    });
}

// A copy of the map as a whole, moved by `distance`: what comes from outside, or from the neighbouring row, is masked.
template <int N>
ASNI_INLINE void move_map(const float *x, int64_t distance, const int32_t *mask, int64_t count, float *to) {
    for (int64_t k = 0; k < count; k += N) {
        Bits<N> bits, kept;
        memcpy(&bits, x + distance + k, sizeof bits);
        memcpy(&kept, mask + k, sizeof kept);
        bits &= kept;
        memcpy(to + k, &bits, sizeof bits);
    }
}

template <size_t... I>
ASNI_INLINE Vector<sizeof...(I)> every_second(const float *from, std::index_sequence<I...>) {
    constexpr int N = sizeof...(I);
    return __builtin_shufflevector(load<N>(from), load<N>(from + N), (2 * int(I))...);
}

// A row of `count` pixels of the map, from `column` on; those before `begin` and from `end` on lie outside.
static void copy_row(const float *x, int64_t count, int64_t step, int64_t begin, int64_t end, float *to) {
    constexpr int N = 4;
    int64_t k = begin;
    for (int64_t i = 0; i < begin; i++) to[i] = 0.0f;
    if (step == 1)
        for (; k < end; k++) to[k] = x[k];
    if (step == 2)
        // The last pixel that is read is the neighbour of the last that is taken.
        for (; k + N < end; k += N) store<N>(to + k, every_second(x + 2 * k, std::make_index_sequence<N>()));
    for (; k < end; k++) to[k] = x[k * step];
    for (k = end; k < count; k++) to[k] = 0.0f;
}

static void copy_rows(const Shift &p, const float *x, const int32_t *kind, float *to) {
    const int64_t column = kind[1], step = p.column_step;
    const int64_t begin = smaller(p.columns, column < 0 ? (-column + step - 1) / step : 0);
    const int64_t inside = column < p.width ? (p.width - 1 - column) / step + 1 : 0;
    const int64_t end = larger(begin, smaller(p.columns, inside));
    for (int64_t r = 0; r < p.rows; r++, to += p.columns) {
        const int64_t row = kind[0] + r * p.row_step;
        if (row < 0 || row >= p.height)
            memset(to, 0, (size_t)p.columns * 4);
        else
            copy_row(x + row * p.x_row + column, p.columns, step, begin, end, to);
    }
}

static void shift(const void *parameters, const asni_run *run) {
    const Shift &p = *(const Shift *)parameters;
    const Share mine = share_of(p.channels, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t c = mine.channels.begin; c < mine.channels.end; c++) {
            const float *x = run->arena + g * run->group_stride + p.x + c * p.x_channel;
            float *to = run->arena + g * run->group_stride + p.y + c * p.kinds * p.y_plane;
            for (int64_t k = 0; k < p.kinds; k++, to += p.y_plane) {
                const int32_t *kind = p.kind + 2 * k;
                const int64_t distance = kind[0] * p.x_row + kind[1];
                if (!p.mask)
                    copy_rows(p, x, kind, to);
                else if (p.vector == LANES)
                    move_map<LANES>(x, distance, p.mask + k * p.y_plane, p.y_plane, to);
                else
                    move_map<4>(x, distance, p.mask + k * p.y_plane, p.y_plane, to);
            }
        }
}

// Calls row(indices of all dimensions but the last) for the share of the first dimension.
template <class Row> ASNI_INLINE void each_row_of(const int64_t *size, Range first, Row row) {
    int64_t i[DIMENSIONS - 1];
    for (i[0] = first.begin; i[0] < first.end; i[0]++)
        for (i[1] = 0; i[1] < size[1]; i[1]++)
            for (i[2] = 0; i[2] < size[2]; i[2]++)
                for (i[3] = 0; i[3] < size[3]; i[3]++)
                    for (i[4] = 0; i[4] < size[4]; i[4]++) row(i);
}

ASNI_INLINE int64_t row_offset(const int64_t *index, const int64_t *stride) {
    int64_t total = 0;
    ASNI_UNROLL for (int d = 0; d < DIMENSIONS - 1; d++) total += index[d] * stride[d];
    return total;
}

template <int N> static void copy_elements(const Copy &p, const asni_run *run) {
    const Share mine = share_of(p.size[0], run);
    const int64_t count = p.size[DIMENSIONS - 1];
    const int64_t x_step = p.x_stride[DIMENSIONS - 1], y_step = p.y_stride[DIMENSIONS - 1];
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *base = run->arena + g * run->group_stride;
        each_row_of(p.size, mine.channels, [&](const int64_t *i) {
            const float *x = base + p.x + row_offset(i, p.x_stride);
            float *y = base + p.y + row_offset(i, p.y_stride);
            if (x_step == N && y_step == N)
                memmove(y, x, (size_t)(count * N) * 4);
            else
                for (int64_t k = 0; k < count; k++) store<N>(y + k * y_step, load<N>(x + k * x_step));
        });
    }
}

static void copy(const void *parameters, const asni_run *run) {
    const Copy &p = *(const Copy *)parameters;
    p.element == 1 ? copy_elements<1>(p, run) : copy_elements<LANES>(p, run);
}

static void constant(const void *parameters, const asni_run *run) {
    const Constant &p = *(const Constant *)parameters;
    const Share mine = share_of(p.count, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *y = run->arena + g * run->group_stride + p.y;
        for (int64_t k = mine.channels.begin; k < mine.channels.end; k++)
            for (int64_t i = 0; i < p.element; i++) y[k * p.element + i] = p.value[k];
    }
}

} // namespace ASNI_NAMESPACE
