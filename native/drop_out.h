// Dropout: which elements are dropped is a hash of the seed, the layer, the element and the item, so that the backward
// pass finds the same ones without their having been stored, whatever the number of threads and lanes.
#pragma once
#include "gradients.h"

namespace ASNI_NAMESPACE {

struct DropOut {
    Map x, y;
    Size size;
    double probability;
    const uint64_t *seed;              // another one for every batch
    uint64_t salt;                     // another one for every layer
};

struct DropOutBackward {
    Map dy;
    Target dx;
    Size size;
    double probability;
    const uint64_t *seed;
    uint64_t salt;
};

// SplitMix64.
ASNI_INLINE uint64_t hash(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// The elements of one group that are kept.
struct Kept {
    typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
    uint64_t key;
    Words item;
    Bits<LANES> threshold;

    template <class Parameters> ASNI_METHOD Kept(const Parameters &p, const asni_run *run, int64_t group) {
        key = hash(*p.seed ^ hash(p.salt));
        for (int i = 0; i < LANES; i++) item[i] = (uint32_t)hash(~key + (uint64_t)(run->first + group * LANES + i));
        threshold = (int32_t)(p.probability * (1 << 24)) - Bits<LANES>{};
    }
    // All bits set in the lanes that are kept.
    ASNI_METHOD Bits<LANES> operator()(int64_t element) const {
        Words x = item ^ (uint32_t)hash(key + (uint64_t)element);
        x = (x ^ (x >> 16)) * 0x7FEB352Du;
        x = (x ^ (x >> 15)) * 0x846CA68Bu;
        return (Bits<LANES>)((x ^ (x >> 16)) >> 8) >= threshold;
    }
};

// Calls visit(stretch, element, kept) for all stretches; element is the number of the first vector.
template <class Parameters, class Visit, class... Maps>
ASNI_INLINE void each_kept(const Parameters &p, const asni_run *run, Visit visit, const Maps &...maps) {
    const Share mine = share_of(p.size.channels, run);
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        const Kept kept(p, run, g);
        each_stretch(run, {{g, g + 1}, mine.channels}, p.size, [&](const Stretch &s) {
            visit(s, (s.channel * p.size.rows + s.row) * p.size.columns + s.column, kept);
        }, maps...);
    }
}

static void drop_out(const void *parameters, const asni_run *run) {
    const DropOut &p = *(const DropOut *)parameters;
    const float scale = (float)(1 / (1 - p.probability));
    Finiteness<LANES> finiteness;
    each_kept(p, run, [&](const Stretch &s, int64_t element, const Kept &kept) {
        const float *x = s.of(p.x);
        float *y = s.of(p.y);
        for (int64_t k = 0; k < s.count; k++) {
            const Vector<LANES> result = kept(element + k) ? load<LANES>(x + k * LANES) * scale : all<LANES>(0.0f);
            finiteness.look(result);
            store<LANES>(y + k * LANES, result);
        }
    }, p.x, p.y);
    finiteness.report(run);
}

static void drop_out_backward(const void *parameters, const asni_run *run) {
    const DropOutBackward &p = *(const DropOutBackward *)parameters;
    const float scale = (float)(1 / (1 - p.probability));
    each_kept(p, run, [&](const Stretch &s, int64_t element, const Kept &kept) {
        const float *dy = s.of(p.dy);
        const Gradient dx = s.of(p.dx);
        for (int64_t k = 0; k < s.count; k++)
            dx.put(k, kept(element + k) ? load<LANES>(dy + k * LANES) * scale : all<LANES>(0.0f));
    }, p.dy, p.dx);
}

} // namespace ASNI_NAMESPACE
