// Sums over the rows of a matrix, one a column: slices of rows in a first launch, their sums in a
// second one, in an order that depends on the sizes alone.
#pragma once

#include "kernels/device.cuh"
#include "kernels/stream_buffer.h"

namespace lockstep::kernels::cuda {

inline constexpr int kTileColumns = 32;
inline constexpr int kTileRows = 8;  // 32 x 8 threads: a warp reads neighbouring columns
inline constexpr int64_t kSliceRows = 128;
inline constexpr int64_t kMaxSlices = 256;

/// result[slice, c] (+)= sum of term(r, c) over the slice's rows.
template <typename Out, typename A, typename Term>
__global__ void __launch_bounds__(kTileColumns* kTileRows)
    column_reduce_kernel(Out* result, int64_t rows, int64_t columns, int64_t slice_rows,
                         bool accumulate, Term term) {
  __shared__ A tile[kTileRows][kTileColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const int64_t begin = blockIdx.y * slice_rows;
  const int64_t end = min(rows, begin + slice_rows);
  A sum{0};
  if (column < columns) {
    for (int64_t r = begin + threadIdx.y; r < end; r += kTileRows) sum += term(r, column);
  }
  tile[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
#pragma unroll
    for (int k = 1; k < kTileRows; ++k) sum += tile[k][threadIdx.x];
    Out& out = result[blockIdx.y * columns + column];
    out = narrow<Out>(accumulate ? widen(out) + sum : sum);
  }
}

template <typename A>
struct TableTerm {
  const A* table;
  int64_t columns;
  __device__ A operator()(int64_t r, int64_t c) const { return table[r * columns + c]; }
};

/// sums[c] (+)= sum_r term(r, c), taken in accumulate_t<T> and rounded once.
template <typename T, typename Term>
void column_reduce(T* sums, int64_t rows, int64_t columns, bool accumulate, Term term,
                   Stream stream) {
  using A = accumulate_t<T>;
  if (columns == 0) return;
  const int64_t slice_rows = std::max<int64_t>(kSliceRows, (rows + kMaxSlices - 1) / kMaxSlices);
  const int64_t slices = std::max<int64_t>(1, (rows + slice_rows - 1) / slice_rows);
  const auto tiles = static_cast<unsigned>((columns + kTileColumns - 1) / kTileColumns);
  const dim3 block(kTileColumns, kTileRows);
  if (slices == 1) {
    launch(column_reduce_kernel<T, A, Term>, tiles, block, 0, stream, sums, rows, columns, rows,
           accumulate, term);
    return;
  }
  const StreamBuffer<A> partial(slices * columns, stream);
  launch(column_reduce_kernel<A, A, Term>, dim3(tiles, static_cast<unsigned>(slices)), block, 0,
         stream, partial.data(), rows, columns, slice_rows, false, term);
  launch(column_reduce_kernel<T, A, TableTerm<A>>, tiles, block, 0, stream, sums, slices, columns,
         slices, accumulate, TableTerm<A>{partial.data(), columns});
}

}  // namespace lockstep::kernels::cuda
