// All kernels for one instruction set. This file is compiled once for each, with ASNI_ISA_NAME naming it; it has no static
// initialisers and calls nothing that other sets share.
#include "operation.h"

#include "addition.h"
#include "backward.h"
#include "batch_norm.h"
#include "cross_entropy.h"
#include "dense.h"
#include "drop_out.h"
#include "gradients.h"
#include "layout.h"
#include "optimise.h"
#include "peak.h"
#include "pointwise.h"
#include "pooling.h"
#include "pooling_backward.h"
#include "reductions.h"
#include "refresh.h"
#include "rows.h"
#include "sparse.h"
#include "winograd.h"
#include "winograd_gradient.h"

namespace ASNI_NAMESPACE {

static const asni_kernel KERNELS[ASNI_KERNEL_COUNT] = {
    input, output, shift, copy, sparse, dense, winograd, sparse_row, dense_row, pool, unary, binary, softmax,
    layer_norm, mean, matmul, constant,
    sparse_backward, refresh, winograd_weights, winograd_gradient,
    add, add_backward, channel_sums, batch_norm, batch_norm_backward, pool_backward, drop_out, drop_out_backward,
    cross_entropy, optimise,
};

// Bytes of the parameters of each kernel: Python compares them with its own.
static const int64_t SIZES[ASNI_KERNEL_COUNT] = {
    sizeof(Batch), sizeof(Batch), sizeof(Shift), sizeof(Copy), sizeof(Sparse), sizeof(Dense), sizeof(Winograd),
    sizeof(SparseRow), sizeof(DenseRow), sizeof(Pool), sizeof(Unary), sizeof(Binary), sizeof(Softmax),
    sizeof(LayerNorm), sizeof(Mean), sizeof(Matmul), sizeof(Constant),
    sizeof(SparseBackward), sizeof(Refresh), sizeof(WinogradWeights), sizeof(WinogradGradient),
    sizeof(Add), sizeof(AddBackward), sizeof(ChannelSums), sizeof(BatchNorm), sizeof(BatchNormBackward),
    sizeof(PoolBackward), sizeof(DropOut), sizeof(DropOutBackward), sizeof(CrossEntropy),
    sizeof(Optimise),
};

// Floats of scratch memory that a thread needs for an operation.
static int64_t scratch(int64_t kernel, const void *parameters) {
    if (kernel == ASNI_WINOGRAD) return winograd_scratch(*(const Winograd *)parameters);
    if (kernel == ASNI_SPARSE_BACKWARD) return backward_scratch(*(const SparseBackward *)parameters);
    if (kernel == ASNI_WINOGRAD_GRADIENT)
        return winograd_gradient_scratch(((const WinogradGradient *)parameters)->layer);
    if (kernel == ASNI_POOL) return pool_scratch(*(const Pool *)parameters);
    return 0;
}

// Tile number `index` of a kernel as five numbers, or 0 if there are no more.
static int64_t tile(int64_t kernel, int64_t index, int64_t *to) {
    if (kernel == ASNI_SPARSE && index < SPARSE_TILE_COUNT) {
        const SparseTile &t = SPARSE_TILES[index];
        to[0] = t.vector, to[1] = t.groups, to[2] = t.rows, to[3] = t.columns, to[4] = t.stride;
        return 1;
    }
    if (kernel == ASNI_DENSE && index < DENSE_TILE_COUNT) {
        const DenseTile &t = DENSE_TILES[index];
        to[0] = t.channels, to[1] = t.groups, to[2] = t.rows, to[3] = t.columns, to[4] = t.stride;
        return 1;
    }
    if (kernel == ASNI_SPARSE_BACKWARD && index < BACKWARD_TILE_COUNT) {
        const BackwardTiles &t = BACKWARD_TILES[index];
        to[0] = LANES, to[1] = t.groups, to[2] = t.rows, to[3] = t.columns, to[4] = t.with_dx != nullptr;
        return 1;
    }
    if (kernel == ASNI_WINOGRAD && index == 0) {
        to[0] = PACK, to[1] = STRIP, to[2] = to[3] = 4, to[4] = 1;
        return 1;
    }
    return 0;
}

} // namespace ASNI_NAMESPACE

#define ASNI_TEXT_(a) #a
#define ASNI_TEXT(a) ASNI_TEXT_(a)

extern "C" const asni_kernels ASNI_JOIN(asni_kernels_, ASNI_ISA_NAME) = {
    ASNI_TEXT(ASNI_ISA_NAME), ASNI_NAMESPACE::LANES, ASNI_NAMESPACE::KERNELS, ASNI_NAMESPACE::SIZES, ASNI_NAMESPACE::scratch,
    ASNI_NAMESPACE::tile, ASNI_NAMESPACE::multiply_only,
};
