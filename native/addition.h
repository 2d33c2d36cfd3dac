// The sum of two maps, its gradient, and the sum of each channel: the gradient of a bias.
#pragma once
#include "gradients.h"
#include "layout.h"
#include <utility>

namespace ASNI_NAMESPACE {

struct Add {
    Map a, b, y;               // without b, a ReLU by itself
    Size size;
    int64_t relu;
};

struct AddBackward {
    Map dy;
    Target da, db;
    Size size;
};

struct ChannelSums {
    Map dy;
    Size size;
    float *sums;
};

// Calls visit(k, chain) for all k below count; the chains of neighbours differ, so that their sums need not wait for
// each other.
constexpr int CHAINS = 4;
template <class Visit> ASNI_INLINE void in_chains(int64_t count, Visit visit) {
    int64_t k = 0;
    for (; k + CHAINS <= count; k += CHAINS)
        ASNI_UNROLL for (int i = 0; i < CHAINS; i++) visit(k + i, i);
    for (; k < count; k++) visit(k, 0);
}

// Every lane becomes the sum of all, in a few steps instead of one after the other.
template <int STEP, class Values, size_t... I>
ASNI_INLINE Values folded(Values values, std::index_sequence<I...> lanes) {
    if constexpr (STEP == 0)
        return values;
    else
        return folded<STEP / 2>(values + __builtin_shufflevector(values, values, (int(I) ^ STEP)...), lanes);
}
ASNI_INLINE float folded(Vector<LANES> values) { return folded<LANES / 2>(values, std::make_index_sequence<LANES>())[0]; }

// A sum of many vectors. What a stretch adds up in floats goes on in doubles, which do not round it off.
struct Total {
    static constexpr int HALF = LANES / 2;
    typedef double Doubles __attribute__((vector_size(8 * HALF)));
    Vector<LANES> chain[CHAINS];
    Doubles total = {};
    int64_t terms = 0;

    ASNI_METHOD Total() { clear(); }
    ASNI_METHOD void clear() { ASNI_UNROLL for (int i = 0; i < CHAINS; i++) chain[i] = all<LANES>(0.0f); }
    template <size_t... I> ASNI_METHOD void move(std::index_sequence<I...>) {
        const Vector<LANES> found = (chain[0] + chain[1]) + (chain[2] + chain[3]);
        total += __builtin_convertvector(__builtin_shufflevector(found, found, int(I)...), Doubles);
        total += __builtin_convertvector(__builtin_shufflevector(found, found, (int(I) + HALF)...), Doubles);
        clear();
    }
    ASNI_METHOD void end_stretch(int64_t count) {
        terms += count;
        if (terms < STRETCH) return;
        move(std::make_index_sequence<HALF>());
        terms = 0;
    }
    ASNI_METHOD double result() {
        move(std::make_index_sequence<HALF>());
        return folded<HALF / 2>(total, std::make_index_sequence<HALF>())[0];
    }
};

static void add(const void *parameters, const asni_run *run) {
    const Add &p = *(const Add *)parameters;
    const float lowest = p.relu ? 0.0f : -INFINITY;
    Finiteness<LANES> finiteness;
    each_stretch(run, share_of(p.size.channels, run), p.size, [&](const Stretch &s) {
        const float *a = s.of(p.a), *b = s.of(p.b);
        float *y = s.of(p.y);
        for (int64_t k = 0; k < s.count * LANES; k += LANES) {
            Vector<LANES> total = load<LANES>(a + k);
            if (b) total += load<LANES>(b + k);
            finiteness.look(total);
            store<LANES>(y + k, total < lowest ? all<LANES>(lowest) : total);
        }
    }, p.a, p.b, p.y);
    finiteness.report(run);
}

static void add_backward(const void *parameters, const asni_run *run) {
    const AddBackward &p = *(const AddBackward *)parameters;
    each_stretch(run, share_of(p.size.channels, run), p.size, [&](const Stretch &s) {
        const float *dy = s.of(p.dy);
        const Gradient da = s.of(p.da), db = s.of(p.db);
        for (int64_t k = 0; k < s.count; k++) {
            const Vector<LANES> value = load<LANES>(dy + k * LANES);
            da.put(k, value);
            if (db.d) db.put(k, value);
        }
    }, p.dy, p.da, p.db);
}

// Of a linear layer: one vector of each group, and the lanes of several channels at once. Returns the channels that are
// left over.
static Range feature_sums(const ChannelSums &p, const asni_run *run, Range channels) {
    for (; channels.begin + LANES <= channels.end; channels.begin += LANES) {
        Vector<LANES> rows[LANES];
        ASNI_UNROLL for (int i = 0; i < LANES; i++) {
            const float *dy = run->arena + p.dy.at + (channels.begin + i) * p.dy.channel;
            rows[i] = load<LANES>(dy);
            for (int64_t g = 1; g < run->groups; g++) rows[i] += load<LANES>(dy + g * run->group_stride);
        }
        sum_rows<LANES / 2>(rows);
        store<LANES>(p.sums + channels.begin, rows[0]);
    }
    return channels;
}

// Divided by whole vectors of channels alone: the same bits for any number of threads.
static void channel_sums(const void *parameters, const asni_run *run) {
    const ChannelSums &p = *(const ChannelSums *)parameters;
    const Range vectors = share((p.size.channels + LANES - 1) / LANES, run);
    Range mine = {vectors.begin * LANES, smaller(p.size.channels, vectors.end * LANES)};
    if (p.size.rows * p.size.columns == 1 && run->groups <= STRETCH) mine = feature_sums(p, run, mine);
    for (int64_t c = mine.begin; c < mine.end; c++) {
        Total total;
        each_stretch(run, {{0, run->groups}, {c, c + 1}}, p.size, [&](const Stretch &s) {
            const float *dy = s.of(p.dy);
            in_chains(s.count, [&](int64_t k, int chain) { total.chain[chain] += load<LANES>(dy + k * LANES); });
            total.end_stretch(s.count);
        }, p.dy);
        p.sums[c] = (float)total.result();
    }
}

} // namespace ASNI_NAMESPACE
