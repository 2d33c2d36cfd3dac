// How many multiplications a core can do: as many independent ones as hide their latency, without any memory.
#pragma once
#include "vector.h"

namespace ASNI_NAMESPACE {

constexpr int CHAINS_OF_PEAK = 12;

// Multiplies and adds CHAINS_OF_PEAK * LANES numbers `rounds` times; returns how often it did.
static int64_t multiply_only(int64_t rounds) {
    Vector<LANES> sums[CHAINS_OF_PEAK], factor = all<LANES>(0.999f);
    ASNI_UNROLL for (int i = 0; i < CHAINS_OF_PEAK; i++) sums[i] = all<LANES>((float)i);
    for (int64_t k = 0; k < rounds; k++) {
        // The compiler may not know what is multiplied by what.
        asm volatile("" : "+m"(factor));
        const Vector<LANES> by = factor;
        ASNI_UNROLL for (int i = 0; i < CHAINS_OF_PEAK; i++) sums[i] = sums[i] * by + by;
    }
    Vector<LANES> total = all<LANES>(0.0f);
    ASNI_UNROLL for (int i = 0; i < CHAINS_OF_PEAK; i++) total += sums[i];
    asm volatile("" : "+m"(total));
    return rounds * CHAINS_OF_PEAK * LANES;
}

} // namespace ASNI_NAMESPACE
