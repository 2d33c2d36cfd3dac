// Vectors of the compiler, so that one source serves every instruction set. Everything here and in the files that
// include it lives in a namespace named after the set: a function compiled for AVX-512 must never be linked into the
// code that an older processor runs.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define ASNI_LANES 16
#elif defined(__AVX__)
#define ASNI_LANES 8
#else
#define ASNI_LANES 4
#endif

#define ASNI_METHOD inline __attribute__((always_inline))
#define ASNI_INLINE static ASNI_METHOD
#define ASNI_UNROLL _Pragma("GCC unroll 64")

// The compiler computes the addresses of a whole tile ahead and spills them; an opaque pointer makes it use one
// register and immediate offsets.
#define ASNI_OPAQUE(pointer) asm("" : "+r"(pointer))

// The compiler loads a vector again for every use of it, as an operand in memory; where loads are what is short, it must
// stay in its register.
#if defined(__x86_64__)
#define ASNI_LOADED(vector) asm("" : "+v"(vector))
#elif defined(__aarch64__)
#define ASNI_LOADED(vector) asm("" : "+w"(vector))
#else
#define ASNI_LOADED(vector)
#endif

#define ASNI_JOIN_(a, b) a##b
#define ASNI_JOIN(a, b) ASNI_JOIN_(a, b)
#define ASNI_NAMESPACE ASNI_JOIN(asni_, ASNI_ISA_NAME)

namespace ASNI_NAMESPACE {

constexpr int LANES = ASNI_LANES;

template <int N> struct VectorOf {
    typedef float Type __attribute__((vector_size(4 * N)));
    typedef float Unaligned __attribute__((vector_size(4 * N), aligned(4), may_alias));
    typedef int32_t Bits __attribute__((vector_size(4 * N)));
};
template <> struct VectorOf<1> {
    typedef float Type;
    typedef float Unaligned;
    typedef int32_t Bits;
};
template <int N> using Vector = typename VectorOf<N>::Type;
template <int N> using Bits = typename VectorOf<N>::Bits;

template <int N> ASNI_INLINE Vector<N> load(const float *from) {
    return *(const typename VectorOf<N>::Unaligned *)from;
}
template <int N> ASNI_INLINE void store(float *to, Vector<N> value) { *(typename VectorOf<N>::Unaligned *)to = value; }
template <int N> ASNI_INLINE Vector<N> all(float value) {
    // Subtracting zero, unlike adding it, changes no number, so that the compiler leaves it out.
    if constexpr (N == 1)
        return value;
    else
        return value - Vector<N>{};
}
template <int N> ASNI_INLINE float lane(const Vector<N> &value, int index) {
    if constexpr (N == 1)
        return value;
    else
        return value[index];
}
template <int N> ASNI_INLINE float sum(Vector<N> value) {
    float total = 0;
    ASNI_UNROLL for (int i = 0; i < N; i++) total += lane<N>(value, i);
    return total;
}

ASNI_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
ASNI_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
ASNI_INLINE int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace ASNI_NAMESPACE
