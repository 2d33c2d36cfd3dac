// Maps of a program that trains, and how their gradients are written. All values are maps in the layout "lanes".
#pragma once
#include "tiles.h"

namespace ASNI_NAMESPACE {

struct Map {
    int64_t at;                // offset in the arena of the first element; -1 if there is no such map
    int64_t channel, row;      // strides; columns are LANES floats apart
};

// A gradient to write. The last of its writers gives it a mask if the value went through a fused ReLU: the gradient is
// kept where the mask is positive.
struct Target {
    Map d;
    int64_t accumulate;
    Map mask;
};

struct Size {
    int64_t channels, rows, columns;
};

// A piece of a gradient.
struct Gradient {
    float *d;
    const float *mask;
    bool accumulate;

    ASNI_METHOD void put(int64_t column, Vector<LANES> value) const {
        float *to = d + column * LANES;
        if (accumulate) value += load<LANES>(to);
        if (mask) value = load<LANES>(mask + column * LANES) > 0.0f ? value : all<LANES>(0.0f);
        store<LANES>(to, value);
    }
};

// Vectors that lie side by side in all maps of a kernel.
struct Stretch {
    float *base;
    int64_t group, channel, row, column, count;

    ASNI_METHOD float *of(const Map &map) const {
        return map.at < 0 ? nullptr : base + map.at + channel * map.channel + row * map.row + column * LANES;
    }
    ASNI_METHOD Gradient of(const Target &target) const {
        return {of(target.d), of(target.mask), target.accumulate != 0};
    }
};

ASNI_INLINE bool has_rows_of(int64_t floats, const Map &map) { return map.at < 0 || map.row == floats; }
ASNI_INLINE bool has_rows_of(int64_t floats, const Target &target) {
    return has_rows_of(floats, target.d) && has_rows_of(floats, target.mask);
}
ASNI_INLINE bool has_channels_of(int64_t floats, const Map &map) { return map.at < 0 || map.channel == floats; }
ASNI_INLINE bool has_channels_of(int64_t floats, const Target &target) {
    return has_channels_of(floats, target.d) && has_channels_of(floats, target.mask);
}

// So many vectors at most: more would not stay in the first cache, and a sum of more would be rounded too often.
constexpr int64_t STRETCH = 512;

// Calls visit(stretch) for all groups and channels of a share. Without halos, rows and channels follow each other and
// make long stretches.
template <class Visit, class... Maps>
ASNI_INLINE void each_stretch(const asni_run *run, const Share &mine, Size size, Visit visit, const Maps &...maps) {
    int64_t rows = size.rows, columns = size.columns, step = 1;
    if ((has_rows_of(columns * LANES, maps) && ...)) columns *= rows, rows = 1;
    if (rows == 1 && (has_channels_of(columns * LANES, maps) && ...)) {
        step = larger(1, mine.channels.end - mine.channels.begin);
        columns *= step;
    }
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t c = mine.channels.begin; c < mine.channels.end; c += step)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = 0; k < columns; k += STRETCH)
                    visit(Stretch{run->arena + g * run->group_stride, g, c, r, k, smaller(STRETCH, columns - k)});
}

// How many items a group has: lanes beyond the last item repeat it, and count for nothing.
ASNI_INLINE int64_t items_of(const asni_run *run, int64_t group) {
    return smaller(LANES, run->items - run->first - group * LANES);
}

// All bits set in the lanes of so many items.
ASNI_INLINE Bits<LANES> first_lanes(int64_t items) {
    Bits<LANES> number;
    ASNI_UNROLL for (int i = 0; i < LANES; i++) number[i] = i;
    return number < (int32_t)items;
}

} // namespace ASNI_NAMESPACE
