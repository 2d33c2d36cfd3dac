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

// What an output hands on to its window, place by place.
struct Handed {
    Vector<LANES> d, y;
    Bits<LANES> open;          // lanes whose maximum was not met yet

    ASNI_METHOD Handed(const PoolBackward &p, const PoolPlane &plane, int64_t r, int64_t c) {
        d = load<LANES>(plane.dy + r * p.dy.row + c * LANES);
        open = first_lanes(LANES);
        if (p.average)
            y = d *= p.scale[r * p.size.columns + c];
        else
            y = load<LANES>(plane.y + r * p.y.row + c * LANES);
    }
    ASNI_METHOD Vector<LANES> next(const PoolBackward &p, const PoolPlane &plane, int64_t i, int64_t j) {
        if (p.average) return d;
        const Vector<LANES> x = load<LANES>(plane.x + i * p.x.row + j * LANES);
        // A maximum that is NaN equals nothing.
        const Bits<LANES> here = ((x == y) | (x != x)) & open;
        open &= ~here;
        return here ? d : all<LANES>(0.0f);
    }
};

ASNI_INLINE Gradient gradient_row(const PoolBackward &p, const PoolPlane &plane, int64_t i) {
    return {plane.dx + i * p.dx.d.row, plane.mask ? plane.mask + i * p.dx.mask.row : nullptr, p.dx.accumulate != 0};
}

ASNI_INLINE void add_window(const PoolBackward &p, const PoolPlane &plane, int64_t r, int64_t c) {
    Handed handed(p, plane, r, c);
    for (int64_t i = p.row_window[2 * r]; i < p.row_window[2 * r + 1]; i += p.row_step)
        for (int64_t j = p.column_window[2 * c]; j < p.column_window[2 * c + 1]; j += p.column_step) {
            float *to = plane.dx + i * p.dx.d.row + j * LANES;
            store<LANES>(to, load<LANES>(to) + handed.next(p, plane, i, j));
        }
}

// Windows may overlap: a row is cleared before the first of them, and masked after the last, while it is in the cache.
// Dilated windows that padding cuts off at the top do not begin in their order, so that any may be the last.
static void pool_backward_windows(const PoolBackward &p, const PoolPlane &plane) {
    int64_t begun = 0, done = 0;
    for (int64_t r = 0; r < p.size.rows; r++) {
        const int64_t following = p.row_step == 1 ? p.row_window[2 * smaller(r + 1, p.size.rows - 1)] : 0;
        const int64_t next = r + 1 < p.size.rows ? following : p.height;
        for (; begun < larger(next, p.row_window[2 * r + 1]); begun++)
            if (!p.dx.accumulate) memset(plane.dx + begun * p.dx.d.row, 0, (size_t)(p.width * LANES) * 4);
        for (int64_t c = 0; c < p.size.columns; c++) add_window(p, plane, r, c);
        for (; plane.mask && done < next; done++) {
            const Gradient row{plane.dx + done * p.dx.d.row, plane.mask + done * p.dx.mask.row, false};
            for (int64_t j = 0; j < p.width; j++) row.put(j, load<LANES>(row.d + j * LANES));
        }
    }
}

static void pool_backward_pairs(const PoolBackward &p, const PoolPlane &plane) {
    for (int64_t r = 0; r < p.size.rows; r++) {
        const Gradient rows[2] = {gradient_row(p, plane, 2 * r), gradient_row(p, plane, 2 * r + 1)};
        for (int64_t c = 0; c < p.size.columns; c++) {
            Handed handed(p, plane, r, c);
            ASNI_UNROLL for (int i = 0; i < 2; i++)
                ASNI_UNROLL for (int j = 0; j < 2; j++)
                    rows[i].put(2 * c + j, handed.next(p, plane, 2 * r + i, 2 * c + j));
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
