// What Python and the core say to each other: a program is a list of operations, each a kernel and its parameters.
// Every field has 8 bytes, so the structures of src/asni/engine/program/types.py need no padding rules.
#pragma once
#include <stdint.h>

extern "C" {

// The groups of items that a program runs on. In the layout "lanes" a group is one vector of items and an element is a
// vector; in the layout "plain" a group is one item and an element is a float. All offsets and strides count floats.
struct asni_run {
    float *arena;              // the values of group g start at arena + g * group_stride
    int64_t group_stride;
    int64_t groups;            // that run at a time: there is memory for so many; a larger batch takes several turns
    int64_t group_items;
    int64_t first, items;      // the first item of this turn, and all items; lanes beyond the last one repeat it
    const float *const *inputs;
    float *const *outputs;
    float *scratch;            // of thread t: scratch + t * scratch_stride
    int64_t scratch_stride;
    int64_t part, parts;       // this thread's share of the work
    int64_t *nonfinite;        // set if any result is NaN or infinite
    int64_t subnormals_are_zero;
};

struct asni_operation {
    int64_t kernel;
    const void *parameters;
};

typedef void (*asni_kernel)(const void *parameters, const struct asni_run *run);

struct asni_kernels {
    const char *name;
    int64_t lanes;
    const asni_kernel *kernels;                                    // [ASNI_KERNEL_COUNT], as are the sizes
    const int64_t *sizes;
    int64_t (*scratch)(int64_t kernel, const void *parameters);
    int64_t (*tile)(int64_t kernel, int64_t index, int64_t *to);
    int64_t (*multiply_only)(int64_t rounds);
};

}

// The order is that of KERNELS in src/asni/engine/program/types.py.
enum {
    ASNI_INPUT, ASNI_OUTPUT, ASNI_SHIFT, ASNI_COPY, ASNI_SPARSE, ASNI_DENSE, ASNI_WINOGRAD, ASNI_SPARSE_ROW,
    ASNI_DENSE_ROW, ASNI_POOL, ASNI_UNARY, ASNI_BINARY, ASNI_SOFTMAX, ASNI_LAYER_NORM, ASNI_MEAN, ASNI_MATMUL,
    ASNI_CONSTANT,
    // Of trainings.
    ASNI_SPARSE_BACKWARD, ASNI_REFRESH, ASNI_WINOGRAD_WEIGHTS, ASNI_WINOGRAD_GRADIENT,
    ASNI_ADD, ASNI_ADD_BACKWARD, ASNI_CHANNEL_SUMS, ASNI_BATCH_NORM, ASNI_BATCH_NORM_BACKWARD, ASNI_POOL_BACKWARD,
    ASNI_DROP_OUT, ASNI_DROP_OUT_BACKWARD, ASNI_CROSS_ENTROPY, ASNI_OPTIMISE,
    ASNI_KERNEL_COUNT
};
