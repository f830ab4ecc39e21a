// Embedding: rows of a table picked by index, and the gradient added back to the rows.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/bad_index.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// output[i, :] = weight[indices[i], :]; output [n, width], weight [rows, width].
/// Returns the first position whose index is not in [0, rows), having written nothing; -1 when
/// there is none.
template <typename T>
int64_t embedding_forward(T* output, const T* weight, const int64_t* indices, int64_t n,
                          int64_t rows, int64_t width);

/// grad_weight[indices[i], :] += grad_output[i, :] in the order of i; without accumulate the other
/// rows become zero. sums [rows, width] is scratch, needed for 16-bit types only (null otherwise):
/// a row that is hit many times is summed in fp32 and rounded once.
template <typename T>
void embedding_backward(T* grad_weight, accumulate_t<T>* sums, const T* grad_output,
                        const int64_t* indices, int64_t n, int64_t rows, int64_t width,
                        bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// As cpu's, except that an index out of range is recorded in `bad` and gives a row of zeros.
template <typename T>
void embedding_forward(T* output, BadIndex* bad, const T* weight, const int64_t* indices, int64_t n,
                       int64_t rows, int64_t width, Stream stream);

/// In the order of i, in accumulate_t<T>, rounded once; needs no scratch. Compares all pairs of
/// indices: n^2 / 2 comparisons. Indices out of range are skipped.
template <typename T>
void embedding_backward(T* grad_weight, const T* grad_output, const int64_t* indices, int64_t n,
                        int64_t rows, int64_t width, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
