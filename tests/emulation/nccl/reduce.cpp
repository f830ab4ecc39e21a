// Sums of the ranks' elements, in the order in which a ring forms them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tests/emulation/nccl/communicator.h"

namespace lockstep::emulation {
namespace {

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

/// What is computed with: float for the 16-bit types, else the type itself.
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
Wide<T> widen(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <typename T>
T combine(T a, T b, ncclRedOp_t op) {
  const Wide<T> x = widen(a), y = widen(b);
  switch (op) {
    case ncclProd:
      return T(static_cast<Wide<T>>(x * y));
    case ncclMax:
      return T(std::max(x, y));
    case ncclMin:
      return T(std::min(x, y));
    default:  // ncclSum and ncclAvg
      return T(static_cast<Wide<T>>(x + y));
  }
}

template <typename T>
void reduce(const ncclComm& communicator, ncclRedOp_t op, size_t first, size_t n, size_t total,
            T* out) {
  const auto ranks = static_cast<size_t>(communicator.ranks);
  const size_t chunk = (total + ranks - 1) / ranks;
  constexpr bool floating = std::is_floating_point_v<Wide<T>>;
  const auto element = [&](size_t rank, size_t i) {
    const T value = reinterpret_cast<const T*>(communicator.segment()->slots[rank % ranks])[i];
    if constexpr (floating) {  // an average is a sum of what was scaled before
      if (op == ncclAvg) return T(widen(value) * (Wide<T>(1) / static_cast<Wide<T>>(ranks)));
    }
    return value;
  };
  for (size_t i = 0; i < n; ++i) {
    // Chunk j of a ring starts at rank j + 1.
    const size_t start = (first + i) / chunk + 1;
    T sum = element(start, i);
    for (size_t hop = 1; hop < ranks; ++hop) sum = combine(sum, element(start + hop, i), op);
    if constexpr (!floating) {
      if (op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(ranks));
    }
    out[i] = sum;
  }
}

template <typename F>
bool with_type(ncclDataType_t type, F visit) {
  switch (type) {
    case ncclInt8:
      return visit(int8_t{});
    case ncclUint8:
      return visit(uint8_t{});
    case ncclInt32:
      return visit(int32_t{});
    case ncclUint32:
      return visit(uint32_t{});
    case ncclInt64:
      return visit(int64_t{});
    case ncclUint64:
      return visit(uint64_t{});
    case ncclFloat16:
      return visit(__half{});
    case ncclBfloat16:
      return visit(__nv_bfloat16{});
    case ncclFloat32:
      return visit(float{});
    case ncclFloat64:
      return visit(double{});
    default:
      return false;
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  size_t nbytes = 0;
  with_type(type, [&](auto zero) {
    nbytes = sizeof zero;
    return true;
  });
  return nbytes;
}

void reduce_slots(const ncclComm& communicator, ncclDataType_t type, ncclRedOp_t op, size_t first,
                  size_t n, size_t total, void* out) {
  with_type(type, [&](auto zero) {
    reduce(communicator, op, first, n, total, static_cast<decltype(zero)*>(out));
    return true;
  });
}

}  // namespace lockstep::emulation
