// Where the outputs of a convolution or linear layer lie, and how they are cut into tiles of registers.
//
// A layer has `rows` x `columns` output positions per channel, each a vector: of items in the layout "lanes", of
// neighbouring pixels in the layout "plain" (which has one row). A tile is G groups x R rows x C columns of positions.
// The last tile of a row or column is moved back so that it ends at the border: it computes some outputs twice, from
// scratch, which is cheaper than code for every remainder.
#pragma once
#include "epilogue.h"
#include "operation.h"
#include "vector.h"

namespace ASNI_NAMESPACE {

struct Positions {
    int64_t x, y, residual;    // offsets in the arena; residual is -1 if there is none
    int64_t rows, columns;
    int64_t x_row, x_column;   // from the input of one output position to that of its neighbour
    int64_t y_row, y_channel;
    int64_t residual_row, residual_channel;
    int64_t gate, gate_row, gate_channel;  // results are kept where the gate is above zero; -1 if there is none
    int64_t channels;
    int64_t pixels;            // floats of a channel's outputs; what the last vector stores behind them is cleared
    Activation activation;
};

struct Range {
    int64_t begin, end;
};

ASNI_INLINE Range share(int64_t count, const asni_run *run) {
    return {count * run->part / run->parts, count * (run->part + 1) / run->parts};
}

// Whole groups if there are enough of them for every thread, else channels of all groups.
struct Share {
    Range groups, channels;
};
ASNI_INLINE Share share_of(int64_t channels, const asni_run *run) {
    if (run->groups >= run->parts) return {share(run->groups, run), {0, channels}};
    return {{0, run->groups}, share(channels, run)};
}

// The next layer reads what lies behind the last pixel, and stores what becomes of it: it would grow from call to call.
template <int G> ASNI_INLINE void clear_behind(const Positions &to, float *channel, int64_t group) {
    for (int g = 0; g < G; g++)
        for (int64_t k = to.pixels; k < to.y_channel; k++) channel[g * group + k] = 0.0f;
}

#define ASNI_EACH_POSITION                                                                                             \
    ASNI_UNROLL for (int g = 0; g < G; g++) ASNI_UNROLL for (int r = 0; r < R; r++) ASNI_UNROLL for (int c = 0; c < C; c++)

// The sums of one channel in one tile, in registers.
template <int N, int G, int R, int C> struct Sums {
    Vector<N> at[G][R][C];

    ASNI_METHOD void fill(float value) {
        const Vector<N> filled = all<N>(value);
        ASNI_EACH_POSITION at[g][r][c] = filled;
    }
    ASNI_METHOD void read(const float *y, int64_t group, int64_t row) {
        ASNI_EACH_POSITION at[g][r][c] = load<N>(y + g * group + r * row + c * N);
    }
    ASNI_METHOD void write(float *y, int64_t group, int64_t row) const {
        ASNI_EACH_POSITION store<N>(y + g * group + r * row + c * N, at[g][r][c]);
    }
    // S is the distance between columns in vectors, or 0 if it is only known at run time.
    template <int S> ASNI_METHOD void add(const float *x, Vector<N> weight, int64_t group, int64_t row, int64_t column) {
        ASNI_EACH_POSITION at[g][r][c] += load<N>(x + g * group + r * row + c * (S ? S * N : column)) * weight;
    }
    ASNI_METHOD void add(const Sums &other) { ASNI_EACH_POSITION at[g][r][c] += other.at[g][r][c]; }
    ASNI_METHOD void finish(const Positions &to, const float *residual, const float *gate, int64_t group,
                            Finiteness<N> &finiteness) {
        if (residual)
            ASNI_EACH_POSITION at[g][r][c] += load<N>(residual + g * group + r * to.residual_row + c * N);
        Vector<N> total = at[0][0][0];
        ASNI_EACH_POSITION if (g + r + c) total += at[g][r][c];
        finiteness.look(total);
        // The switch stands outside of the loop over the registers.
        switch (to.activation.kind) {
        case NO_ACTIVATION: break;
        case RELU: ASNI_EACH_POSITION at[g][r][c] = at[g][r][c] < 0.0f ? all<N>(0.0f) : at[g][r][c]; break;
        default: ASNI_EACH_POSITION at[g][r][c] = activated<N>(at[g][r][c], to.activation);
        }
        if (gate)
            ASNI_EACH_POSITION at[g][r][c] =
                load<N>(gate + g * group + r * to.gate_row + c * N) > 0.0f ? at[g][r][c] : all<N>(0.0f);
    }
};

// Calls tile(group, row, column) for every tile of these groups; G, R and C are its size.
template <int G, int R, int C, class Tile>
ASNI_INLINE void each_tile(const Positions &to, int64_t first_group, int64_t group_count, Tile tile) {
    for (int64_t g = 0; g < group_count; g += G)
        for (int64_t row = 0; row < to.rows; row += R)
            for (int64_t column = 0; column < to.columns; column += C)
                tile(first_group + g, smaller(row, to.rows - R), smaller(column, to.columns - C));
}

} // namespace ASNI_NAMESPACE
