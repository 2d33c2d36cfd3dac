// The gradients of pools: of a maximum, to the first place of the window that has it; of an average, to all places.
#pragma once
#include "gradients.h"

namespace ASNI_NAMESPACE {

struct PoolBackward {
    Map x, y, dy;
    Target dx;
    Size size;                                         // of the output
    int64_t height, width;                             // of the input
    int64_t average;
    const int32_t *row_window, *column_window;         // [rows][2], [columns][2]: first and end
    int64_t row_step, column_step;                     // dilation
    const float *scale;                                // [rows][columns]: 1 / divisor of an average
    int64_t pairs;                                     // 2x2 with stride 2, and the windows are the whole map
};

// One channel of one group.
struct PoolPlane {
    const float *x, *y, *dy;
    float *dx;
    const float *mask;
};

// Where the maximum lies here and was not found before. A NaN that was the maximum equals nothing.
ASNI_INLINE Bits<LANES> found_here(Vector<LANES> x, Vector<LANES> y, Bits<LANES> &open) {
    const Bits<LANES> here = ((x == y) | (x != x)) & open;
    open &= ~here;
    return here;
}

ASNI_INLINE void scatter(const PoolBackward &p, const PoolPlane &plane, int64_t r, int64_t c) {
    Vector<LANES> d = load<LANES>(plane.dy + r * p.dy.row + c * LANES), y = all<LANES>(0.0f);
    if (p.average)
        d *= p.scale[r * p.size.columns + c];
    else
        y = load<LANES>(plane.y + r * p.y.row + c * LANES);
    Bits<LANES> open = first_lanes(LANES);
    for (int64_t i = p.row_window[2 * r]; i < p.row_window[2 * r + 1]; i += p.row_step)
        for (int64_t j = p.column_window[2 * c]; j < p.column_window[2 * c + 1]; j += p.column_step) {
            float *to = plane.dx + i * p.dx.d.row + j * LANES;
            Vector<LANES> part = d;
            if (!p.average) part = found_here(load<LANES>(plane.x + i * p.x.row + j * LANES), y, open) ? d : all<LANES>(0.0f);
            store<LANES>(to, load<LANES>(to) + part);
        }
}

// Windows may overlap: the mask comes when all of them have added their parts.
static void pool_backward_windows(const PoolBackward &p, const PoolPlane &plane) {
    for (int64_t i = 0; !p.dx.accumulate && i < p.height; i++)
        memset(plane.dx + i * p.dx.d.row, 0, (size_t)(p.width * LANES) * 4);
    for (int64_t r = 0; r < p.size.rows; r++)
        for (int64_t c = 0; c < p.size.columns; c++) scatter(p, plane, r, c);
    for (int64_t i = 0; plane.mask && i < p.height; i++) {
        const Gradient row{plane.dx + i * p.dx.d.row, plane.mask + i * p.dx.mask.row, false};
        for (int64_t j = 0; j < p.width; j++) row.put(j, load<LANES>(row.d + j * LANES));
    }
}

static void pool_backward_pairs(const PoolBackward &p, const PoolPlane &plane) {
    for (int64_t r = 0; r < p.size.rows; r++)
        for (int64_t c = 0; c < p.size.columns; c++) {
            Vector<LANES> d = load<LANES>(plane.dy + r * p.dy.row + c * LANES), y = all<LANES>(0.0f);
            if (p.average)
                d *= p.scale[r * p.size.columns + c];
            else
                y = load<LANES>(plane.y + r * p.y.row + c * LANES);
            Bits<LANES> open = first_lanes(LANES);
            ASNI_UNROLL for (int i = 0; i < 4; i++) {
                const int64_t row = 2 * r + i / 2, column = 2 * c + i % 2;
                const Gradient to{plane.dx + row * p.dx.d.row, plane.mask ? plane.mask + row * p.dx.mask.row : nullptr,
                                  p.dx.accumulate != 0};
                Vector<LANES> part = d;
                if (!p.average)
                    part = found_here(load<LANES>(plane.x + row * p.x.row + column * LANES), y, open) ? d : all<LANES>(0.0f);
                to.put(column, part);
            }
        }
}

static void pool_backward(const void *parameters, const asni_run *run) {
    const PoolBackward &p = *(const PoolBackward *)parameters;
    const Share mine = share_of(p.size.channels, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t c = mine.channels.begin; c < mine.channels.end; c++) {
            const Stretch s{run->arena + g * run->group_stride, g, c, 0, 0, 0};
            const PoolPlane plane{s.of(p.x), s.of(p.y), s.of(p.dy), s.of(p.dx.d), s.of(p.dx.mask)};
            p.pairs ? pool_backward_pairs(p, plane) : pool_backward_windows(p, plane);
        }
}

} // namespace ASNI_NAMESPACE
