/* Everything a network may need; the exported file gets what it calls. Parts are separated by empty lines, and stand
 * before those that use them. `weight` is float, uint16_t (half precision) or int8_t; weight_of reads it. */

/* Weights in rows, one per output. Sparse: how many a row has, and before each how many zeros are left out. */
struct layer {
    const uint16_t *counts;
    const uint8_t *gaps;
    const weight *weights;
    const float *scales, *bias;
};

/* The input of a convolution or a pool (channels of one group), its output, and how the window moves over it. */
struct window {
    int channels, height, width, out_height, out_width;
    int kernel_height, kernel_width, stride_height, stride_width;
    int dilation_height, dilation_width, top, left, bottom, right;
};

enum { MOST_DIMENSIONS = 8 };

/* A result walks over its elements in order, and its operands by a stride per dimension. */
struct walk {
    int rank;
    const int *size, *a_stride, *b_stride;
};

static float float_weight(float w)
{
    return w;
}

/* The exponent of half precision moves to its place in float, and is corrected by a factor. */
static float half_weight(uint16_t w)
{
    union { uint32_t bits; float value; } number;
    number.bits = (uint32_t)(w & 0x7fff) << 13;
    return (w & 0x8000 ? -0x1p112f : 0x1p112f) * number.value;
}

static float int8_weight(int8_t w)
{
    return (float)w;
}

/* Zero weights are left out, so that NaN and infinity would be lost where they meet one. */
static int all_finite(const float *x, int n)
{
    int i;
    for (i = 0; i < n; i++)
        if (!(x[i] - x[i] == 0.0f))
            return 0;
    return 1;
}

static void copy(const float *x, float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = x[i];
}

/* What the sum over a row becomes: integers have a scale. */
static float finished(const struct layer *layer, int o, float sum)
{
    return (layer->scales ? sum * layer->scales[o] : sum) + layer->bias[o];
}

static void dense_linear(const struct layer *layer, const float *x, float *y, int rows, int inputs, int outputs)
{
    int row, o, i;
    for (row = 0; row < rows; row++, x += inputs) {
        const weight *w = layer->weights;
        for (o = 0; o < outputs; o++) {
            float sum = 0.0f;
            for (i = 0; i < inputs; i++)
                sum += weight_of(*w++) * x[i];
            *y++ = finished(layer, o, sum);
        }
    }
}

static void sparse_linear(const struct layer *layer, const float *x, float *y, int rows, int inputs, int outputs)
{
    int row, o, n;
    for (row = 0; row < rows; row++, x += inputs) {
        const uint8_t *gap = layer->gaps;
        const weight *w = layer->weights;
        for (o = 0; o < outputs; o++) {
            const float *at = x;
            float sum = 0.0f;
            for (n = layer->counts[o]; n > 0; n--) {
                at += *gap++;
                sum += weight_of(*w++) * *at++;
            }
            *y++ = finished(layer, o, sum);
        }
    }
}

/* The first place of a window at which i * stride is not below `least`. */
static int first_place(int least, int stride)
{
    return least <= 0 ? 0 : (least + stride - 1) / stride;
}

/* One weight of a convolution: y += w * x, with x shifted, where it is not padding. */
static void add_shifted(const struct window *s, float w, int ky, int kx, const float *x, float *y)
{
    int dy = ky * s->dilation_height - s->top, dx = kx * s->dilation_width - s->left;
    int from = first_place(-dx, s->stride_width), to = first_place(s->width - dx, s->stride_width);
    int below = first_place(s->height - dy, s->stride_height), oy, ox;
    if (to > s->out_width)
        to = s->out_width;
    if (below > s->out_height)
        below = s->out_height;
    for (oy = first_place(-dy, s->stride_height); oy < below; oy++) {
        int row = (oy * s->stride_height + dy) * s->width + dx;
        float *out = y + oy * s->out_width;
        for (ox = from; ox < to; ox++)
            out[ox] += w * x[row + ox * s->stride_width];
    }
}

/* Zeros take no time here either, but for multiply_zeros. */
static void dense_conv(const struct layer *layer, const float *x, float *y, const struct window *s, int outputs,
                       int group_size, int multiply_zeros)
{
    const weight *w = layer->weights;
    int in_plane = s->height * s->width, plane = s->out_height * s->out_width, o, c, ky, kx, i;
    for (o = 0; o < outputs; o++, y += plane) {
        const float *group = x + o / group_size * s->channels * in_plane;
        for (i = 0; i < plane; i++)
            y[i] = 0.0f;
        for (c = 0; c < s->channels; c++)
            for (ky = 0; ky < s->kernel_height; ky++)
                for (kx = 0; kx < s->kernel_width; kx++) {
                    float value = weight_of(*w++);
                    if (value != 0.0f || multiply_zeros)
                        add_shifted(s, value, ky, kx, group + c * in_plane, y);
                }
        for (i = 0; i < plane; i++)
            y[i] = finished(layer, o, y[i]);
    }
}

static void sparse_conv(const struct layer *layer, const float *x, float *y, const struct window *s, int outputs,
                        int group_size)
{
    const uint8_t *gap = layer->gaps;
    const weight *w = layer->weights;
    int in_plane = s->height * s->width, plane = s->out_height * s->out_width, o, n, i;
    int kernel = s->kernel_height * s->kernel_width;
    for (o = 0; o < outputs; o++, y += plane) {
        const float *group = x + o / group_size * s->channels * in_plane;
        int at = 0;
        for (i = 0; i < plane; i++)
            y[i] = 0.0f;
        for (n = layer->counts[o]; n > 0; n--, at++) {
            at += *gap++;
            add_shifted(s, weight_of(*w++), at % kernel / s->kernel_width, at % s->kernel_width,
                        group + at / kernel * in_plane, y);
        }
        for (i = 0; i < plane; i++)
            y[i] = finished(layer, o, y[i]);
    }
}

/* The operands of several products lie a_step and b_step numbers apart. */
static void matmul(const float *a, const float *b, float *y, int products, int a_step, int b_step, int m, int k, int n)
{
    int p, i, j, l;
    for (p = 0; p < products; p++, a += a_step, b += b_step)
        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++) {
                float sum = 0.0f;
                for (l = 0; l < k; l++)
                    sum += a[i * k + l] * b[l * n + j];
                *y++ = sum;
            }
}

static void max_pool(const struct window *s, const float *x, float *y)
{
    int c, oy, ox, ky, kx;
    for (c = 0; c < s->channels; c++, x += s->height * s->width)
        for (oy = 0; oy < s->out_height; oy++)
            for (ox = 0; ox < s->out_width; ox++) {
                float best = -INFINITY;
                for (ky = 0; ky < s->kernel_height; ky++)
                    for (kx = 0; kx < s->kernel_width; kx++) {
                        int iy = oy * s->stride_height + ky * s->dilation_height - s->top;
                        int ix = ox * s->stride_width + kx * s->dilation_width - s->left;
                        if (iy >= 0 && iy < s->height && ix >= 0 && ix < s->width) {
                            float value = x[iy * s->width + ix];
                            best = value > best || value != value ? value : best;
                        }
                    }
                *y++ = best;
            }
}

/* Divides by the numbers in the window, which are those of the padding too if it is included. */
static void average_pool(const struct window *s, int include_padding, const float *x, float *y)
{
    int bottom = s->height + (include_padding ? s->bottom : 0), right = s->width + (include_padding ? s->right : 0);
    int top = include_padding ? -s->top : 0, left = include_padding ? -s->left : 0, c, oy, ox, ky, kx;
    for (c = 0; c < s->channels; c++, x += s->height * s->width)
        for (oy = 0; oy < s->out_height; oy++)
            for (ox = 0; ox < s->out_width; ox++) {
                float sum = 0.0f;
                int count = 0;
                for (ky = 0; ky < s->kernel_height; ky++)
                    for (kx = 0; kx < s->kernel_width; kx++) {
                        int iy = oy * s->stride_height + ky * s->dilation_height - s->top;
                        int ix = ox * s->stride_width + kx * s->dilation_width - s->left;
                        count += iy >= top && iy < bottom && ix >= left && ix < right;
                        if (iy >= 0 && iy < s->height && ix >= 0 && ix < s->width)
                            sum += x[iy * s->width + ix];
                    }
                *y++ = sum / (float)count;
            }
}

/* Windows that cover the input evenly; they overlap where the sizes do not divide. */
static void adaptive_max_pool(const float *x, float *y, int channels, int height, int width, int out_height,
                              int out_width)
{
    int c, oy, ox, iy, ix;
    for (c = 0; c < channels; c++, x += height * width)
        for (oy = 0; oy < out_height; oy++)
            for (ox = 0; ox < out_width; ox++) {
                float best = -INFINITY;
                for (iy = oy * height / out_height; iy * out_height < (oy + 1) * height; iy++)
                    for (ix = ox * width / out_width; ix * out_width < (ox + 1) * width; ix++) {
                        float value = x[iy * width + ix];
                        best = value > best || value != value ? value : best;
                    }
                *y++ = best;
            }
}

/* Windows that cover the input evenly; they overlap where the sizes do not divide. */
static void adaptive_average_pool(const float *x, float *y, int channels, int height, int width, int out_height,
                                  int out_width)
{
    int c, oy, ox, iy, ix;
    for (c = 0; c < channels; c++, x += height * width)
        for (oy = 0; oy < out_height; oy++)
            for (ox = 0; ox < out_width; ox++) {
                float sum = 0.0f;
                int count = 0;
                for (iy = oy * height / out_height; iy * out_height < (oy + 1) * height; iy++)
                    for (ix = ox * width / out_width; ix * out_width < (ox + 1) * width; ix++, count++)
                        sum += x[iy * width + ix];
                *y++ = sum / (float)count;
            }
}

static void relu(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

static void clip(float *y, int n, float low, float high)
{
    int i;
    for (i = 0; i < n; i++) {
        y[i] = y[i] < low ? low : y[i];
        y[i] = y[i] > high ? high : y[i];
    }
}

static void leaky_relu(float *y, int n, float slope)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = y[i] < 0.0f ? slope * y[i] : y[i];
}

static void gelu(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = 0.5f * y[i] * (1.0f + erff(0.70710678f * y[i]));
}

static void gelu_tanh(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = 0.5f * y[i] * (1.0f + tanhf(0.79788456f * (y[i] + 0.044715f * y[i] * y[i] * y[i])));
}

static void silu(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = y[i] / (1.0f + expf(-y[i]));
}

static void sigmoid(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = 1.0f / (1.0f + expf(-y[i]));
}

static void hard_sigmoid(float *y, int n, float slope, float offset)
{
    int i;
    for (i = 0; i < n; i++) {
        float value = slope * y[i] + offset;
        y[i] = value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value;
    }
}

static void hard_swish(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        float gate = y[i] / 6.0f + 0.5f;
        y[i] *= gate < 0.0f ? 0.0f : gate > 1.0f ? 1.0f : gate;
    }
}

static void hyperbolic_tangent(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = tanhf(y[i]);
}

static void error_function(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = erff(y[i]);
}

static void exponential(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = expf(y[i]);
}

static void square_root(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = sqrtf(y[i]);
}

static void absolute(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = y[i] < 0.0f ? -y[i] : y[i] + 0.0f;
}

static void negative(float *y, int n)
{
    int i;
    for (i = 0; i < n; i++)
        y[i] = -y[i];
}

/* Goes to the next element: `at` counts in each dimension, a and b are the places of the operands. */
static int next(const struct walk *walk, int *at, int *a, int *b)
{
    int d;
    for (d = walk->rank - 1; d >= 0; d--) {
        *a += walk->a_stride[d];
        *b += walk->b_stride[d];
        if (++at[d] < walk->size[d])
            return 1;
        at[d] = 0;
        *a -= walk->a_stride[d] * walk->size[d];
        *b -= walk->b_stride[d] * walk->size[d];
    }
    return 0;
}

static void add(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] + z[b];
    while (next(walk, at, &a, &b));
}

static void subtract(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] - z[b];
    while (next(walk, at, &a, &b));
}

static void multiply(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] * z[b];
    while (next(walk, at, &a, &b));
}

static void divide(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] / z[b];
    while (next(walk, at, &a, &b));
}

static void power(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = powf(x[a], z[b]);
    while (next(walk, at, &a, &b));
}

static void maximum(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] > z[b] || x[a] != x[a] ? x[a] : z[b];
    while (next(walk, at, &a, &b));
}

static void minimum(const struct walk *walk, const float *x, const float *z, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a] < z[b] || x[a] != x[a] ? x[a] : z[b];
    while (next(walk, at, &a, &b));
}

/* Transposes, expands and takes slices: each is a way of walking over x. */
static void pick(const struct walk *walk, const float *x, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0;
    do
        *y++ = x[a];
    while (next(walk, at, &a, &b));
}

/* The walk goes over the n numbers of a mean, then to the next mean. */
static void mean(const struct walk *walk, int n, const float *x, float *y)
{
    int at[MOST_DIMENSIONS] = {0}, a = 0, b = 0, more = 1, i;
    while (more) {
        float sum = 0.0f;
        for (i = 0; i < n; i++) {
            sum += x[a];
            more = next(walk, at, &a, &b);
        }
        *y++ = sum / (float)n;
    }
}

/* Puts a block of x into each of the larger blocks of y. */
static void put_blocks(const float *x, float *y, int blocks, int size, int larger_size)
{
    int block, i;
    for (block = 0; block < blocks; block++, y += larger_size)
        for (i = 0; i < size; i++)
            y[i] = *x++;
}

/* Over n numbers that are `inner` apart. */
static void softmax(const float *x, float *y, int outer, int n, int inner)
{
    int o, i, k;
    for (o = 0; o < outer; o++, x += n * inner, y += n * inner)
        for (i = 0; i < inner; i++) {
            float largest = x[i], sum = 0.0f;
            for (k = 1; k < n; k++)
                largest = x[k * inner + i] > largest ? x[k * inner + i] : largest;
            for (k = 0; k < n; k++)
                sum += y[k * inner + i] = expf(x[k * inner + i] - largest);
            for (k = 0; k < n; k++)
                y[k * inner + i] /= sum;
        }
}

static void layer_norm(const float *weights, const float *bias, float epsilon, const float *x, float *y, int rows,
                       int n)
{
    int row, i;
    for (row = 0; row < rows; row++, x += n, y += n) {
        float average = 0.0f, variance = 0.0f, factor;
        for (i = 0; i < n; i++)
            average += x[i];
        average /= (float)n;
        for (i = 0; i < n; i++)
            variance += (x[i] - average) * (x[i] - average);
        factor = 1.0f / sqrtf(variance / (float)n + epsilon);
        for (i = 0; i < n; i++)
            y[i] = (x[i] - average) * factor * weights[i] + bias[i];
    }
}
