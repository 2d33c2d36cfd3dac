// Functions of one and of two numbers.
#pragma once
#include "layout.h"

namespace ASNI_NAMESPACE {

// The order is that of UNARY and BINARY in src/asni/engine/program/types.py.
enum { U_RELU, U_CLIP, U_LEAKY, U_GELU, U_GELU_TANH, U_SILU, U_SIGMOID, U_TANH, U_HARD_SWISH, U_HARD_SIGMOID, U_ERF,
       U_EXP, U_SQRT, U_ABS, U_NEG };
enum { B_ADD, B_SUB, B_MUL, B_DIV, B_POW, B_MAX, B_MIN };

struct Unary {
    int64_t x, y;
    int64_t planes, rows, floats;      // a row is `floats` floats long, whatever they belong to
    int64_t x_plane, x_row, y_plane, y_row;
    int64_t function;
    double low, high;
};

struct Binary {
    int64_t a, b, y;
    const float *a_constant, *b_constant;  // instead of a or b; their strides count single floats
    int64_t size[DIMENSIONS], a_stride[DIMENSIONS], b_stride[DIMENSIONS], y_stride[DIMENSIONS];
    int64_t function;
    int64_t element;
};

template <int N> ASNI_INLINE Bits<N> to_integers(Vector<N> x) {
    if constexpr (N == 1)
        return (int32_t)x;
    else
        return __builtin_convertvector(x, Bits<N>);
}
template <int N> ASNI_INLINE Vector<N> from_bits(Bits<N> bits) {
    Vector<N> value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// e^x = 2^n e^r with |r| <= ln 2 / 2, and a polynomial for e^r. 2^n is applied in two halves, each of which is a float
// even where the result is infinite or has lost bits.
template <int N> ASNI_INLINE Vector<N> exponential(Vector<N> x) {
    const Vector<N> low = all<N>(-104.0f), high = all<N>(89.0f);
    Vector<N> bounded = x < low ? low : x;
    bounded = bounded > high ? high : bounded;
    const Vector<N> inside = x != x ? all<N>(0.0f) : bounded;
    const Vector<N> n = (inside * 1.44269504f + 12582912.0f) - 12582912.0f;
    const Vector<N> r = (inside - n * 0.693359375f) + n * 2.12194440e-4f;
    Vector<N> p = all<N>(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const Bits<N> power = to_integers<N>(n), half = power >> 1;
    const Vector<N> result = p * from_bits<N>((half + 127) << 23) * from_bits<N>((power - half + 127) << 23);
    return x != x ? x : result;
}

template <int N> ASNI_INLINE Vector<N> sigmoid(Vector<N> x) { return 1.0f / (1.0f + exponential<N>(-x)); }
template <int N> ASNI_INLINE Vector<N> hyperbolic_tangent(Vector<N> x) {
    return 1.0f - 2.0f / (exponential<N>(2.0f * x) + 1.0f);
}
// Of -0 it is 0.
template <int N> ASNI_INLINE Vector<N> magnitude(Vector<N> x) { return x <= 0.0f ? 0.0f - x : x; }

// Abramowitz and Stegun 7.1.26; absolute error below 2e-7.
template <int N> ASNI_INLINE Vector<N> error_function(Vector<N> x) {
    const Vector<N> a = magnitude<N>(x), t = 1.0f / (1.0f + 0.3275911f * a);
    Vector<N> p = all<N>(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const Vector<N> positive = 1.0f - p * t * exponential<N>(-a * a);
    return x < 0.0f ? -positive : positive;
}

template <int N> ASNI_INLINE Vector<N> square_root(Vector<N> x) {
    Vector<N> result;
    if constexpr (N == 1)
        result = sqrtf(x);
    else
        ASNI_UNROLL for (int i = 0; i < N; i++) result[i] = sqrtf(x[i]);
    return result;
}

template <int N> ASNI_INLINE Vector<N> clipped(Vector<N> x, float low, float high) {
    return activated<N>(x, Activation{CLIP, low, high});
}

template <int FUNCTION, int N> ASNI_INLINE Vector<N> unary_of(Vector<N> x, float low, float high) {
    switch (FUNCTION) {
    case U_RELU: return activated<N>(x, Activation{RELU, 0, 0});
    case U_CLIP: return clipped<N>(x, low, high);
    case U_LEAKY: return activated<N>(x, Activation{LEAKY_RELU, low, 0});
    case U_GELU: return 0.5f * x * (1.0f + error_function<N>(0.70710678f * x));
    case U_GELU_TANH: return 0.5f * x * (1.0f + hyperbolic_tangent<N>(0.79788456f * (x + 0.044715f * x * x * x)));
    case U_SILU: return x * sigmoid<N>(x);
    case U_SIGMOID: return sigmoid<N>(x);
    case U_TANH: return hyperbolic_tangent<N>(x);
    case U_HARD_SWISH: return x * clipped<N>(x * (1.0f / 6) + 0.5f, 0, 1);
    case U_HARD_SIGMOID: return clipped<N>(low * x + high, 0, 1);
    case U_ERF: return error_function<N>(x);
    case U_EXP: return exponential<N>(x);
    case U_SQRT: return square_root<N>(x);
    case U_ABS: return magnitude<N>(x);
    default: return -x;
    }
}

template <int FUNCTION> static void unary_rows(const Unary &p, const asni_run *run) {
    const Share mine = share_of(p.planes, run);
    const float low = (float)p.low, high = (float)p.high;
    // The others are finite where their arguments are.
    constexpr bool may_overflow = FUNCTION == U_LEAKY || FUNCTION == U_EXP || FUNCTION == U_SQRT;
    Finiteness<LANES> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++)
        for (int64_t plane = mine.channels.begin; plane < mine.channels.end; plane++)
            for (int64_t row = 0; row < p.rows; row++) {
                float *base = run->arena + g * run->group_stride;
                const float *x = base + p.x + plane * p.x_plane + row * p.x_row;
                float *y = base + p.y + plane * p.y_plane + row * p.y_row;
                int64_t k = 0;
                for (; k + LANES <= p.floats; k += LANES)
                    store<LANES>(y + k, unary_of<FUNCTION, LANES>(load<LANES>(x + k), low, high));
                for (; k < p.floats; k++) y[k] = unary_of<FUNCTION, 1>(x[k], low, high);
                if (may_overflow) finiteness.look(y, p.floats);
            }
    if (may_overflow) finiteness.report(run);
}

static void unary(const void *parameters, const asni_run *run) {
    const Unary &p = *(const Unary *)parameters;
    static void (*const ROWS[])(const Unary &, const asni_run *) = {
        unary_rows<U_RELU>, unary_rows<U_CLIP>, unary_rows<U_LEAKY>, unary_rows<U_GELU>, unary_rows<U_GELU_TANH>,
        unary_rows<U_SILU>, unary_rows<U_SIGMOID>, unary_rows<U_TANH>, unary_rows<U_HARD_SWISH>,
        unary_rows<U_HARD_SIGMOID>, unary_rows<U_ERF>, unary_rows<U_EXP>, unary_rows<U_SQRT>, unary_rows<U_ABS>,
        unary_rows<U_NEG>};
    ROWS[p.function](p, run);
}

template <int N> ASNI_INLINE Vector<N> power(Vector<N> a, Vector<N> b) {
    Vector<N> result;
    if constexpr (N == 1)
        result = powf(a, b);
    else
        ASNI_UNROLL for (int i = 0; i < N; i++) result[i] = powf(a[i], b[i]);
    return result;
}

template <int FUNCTION, int N> ASNI_INLINE Vector<N> binary_of(Vector<N> a, Vector<N> b) {
    switch (FUNCTION) {
    case B_ADD: return a + b;
    case B_SUB: return a - b;
    case B_MUL: return a * b;
    case B_DIV: return a / b;
    case B_POW: return power<N>(a, b);
    case B_MAX: {
        const Vector<N> result = a > b ? a : b;
        return a != a ? a : result;
    }
    default: {
        const Vector<N> result = a < b ? a : b;
        return a != a ? a : result;
    }
    }
}

// An element of a constant is one float, the same for all lanes.
template <int N> ASNI_INLINE Vector<N> element_at(const float *from, bool is_constant) {
    return is_constant ? all<N>(*from) : load<N>(from);
}

template <int FUNCTION, int N> ASNI_INLINE Vector<N> binary_row(const Binary &p, const float *a, const float *b, float *y) {
    constexpr int LAST = DIMENSIONS - 1;
    const int64_t count = p.size[LAST], a_step = p.a_stride[LAST], b_step = p.b_stride[LAST], y_step = p.y_stride[LAST];
    Vector<N> poison = all<N>(0.0f);
    for (int64_t k = 0; k < count; k++) {
        const Vector<N> result = binary_of<FUNCTION, N>(element_at<N>(a + k * a_step, p.a_constant),
                                                        element_at<N>(b + k * b_step, p.b_constant));
        poison += result * 0.0f;
        store<N>(y + k * y_step, result);
    }
    return poison;
}

// Rows of single floats whose operands are contiguous, or the same for the whole row, are taken by vectors.
template <int FUNCTION> ASNI_INLINE float binary_floats(const Binary &p, const float *a, const float *b, float *y) {
    constexpr int LAST = DIMENSIONS - 1;
    const int64_t count = p.size[LAST], a_step = p.a_stride[LAST], b_step = p.b_stride[LAST];
    if (p.y_stride[LAST] != 1 || a_step > 1 || b_step > 1) return binary_row<FUNCTION, 1>(p, a, b, y);
    Vector<LANES> poison = all<LANES>(0.0f);
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        const Vector<LANES> result = binary_of<FUNCTION, LANES>(a_step ? load<LANES>(a + k) : all<LANES>(*a),
                                                                b_step ? load<LANES>(b + k) : all<LANES>(*b));
        poison += result * 0.0f;
        store<LANES>(y + k, result);
    }
    float last = sum<LANES>(poison);
    for (; k < count; k++) {
        y[k] = binary_of<FUNCTION, 1>(a[k * a_step], b[k * b_step]);
        last += y[k] * 0.0f;
    }
    return last;
}

template <int FUNCTION> static void binary_elements(const Binary &p, const asni_run *run) {
    const Share mine = share_of(p.size[0], run);
    Finiteness<1> finiteness;
    for (int64_t g = mine.groups.begin; g < mine.groups.end; g++) {
        float *base = run->arena + g * run->group_stride;
        each_row_of(p.size, mine.channels, [&](const int64_t *i) {
            const float *a = (p.a_constant ? p.a_constant : base + p.a) + row_offset(i, p.a_stride);
            const float *b = (p.b_constant ? p.b_constant : base + p.b) + row_offset(i, p.b_stride);
            float *y = base + p.y + row_offset(i, p.y_stride);
            if (p.element == 1)
                finiteness.look(binary_floats<FUNCTION>(p, a, b, y));
            else
                finiteness.look(sum<LANES>(binary_row<FUNCTION, LANES>(p, a, b, y)));
        });
    }
    finiteness.report(run);
}

static void binary(const void *parameters, const asni_run *run) {
    const Binary &p = *(const Binary *)parameters;
    static void (*const ELEMENTS[])(const Binary &, const asni_run *) = {
        binary_elements<B_ADD>, binary_elements<B_SUB>, binary_elements<B_MUL>, binary_elements<B_DIV>,
        binary_elements<B_POW>, binary_elements<B_MAX>, binary_elements<B_MIN>};
    ELEMENTS[p.function](p, run);
}

} // namespace ASNI_NAMESPACE
