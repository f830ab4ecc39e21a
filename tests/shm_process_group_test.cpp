// Collectives of the shm engine against exact integer expectations, for every dtype, reduction and
// several world sizes, with ranks as threads and as processes.
#include "dist/shm_process_group.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/ranks.h"

namespace lockstep::dist {
namespace {

using test::expect;
using test::run_rank_processes;
using test::run_ranks;

constexpr DType kDTypes[] = {DType::Float32,  DType::Float64, DType::Float16,
                             DType::BFloat16, DType::Int64,   DType::UInt8};
constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Average, ReduceOp::Max, ReduceOp::Min};

/// A small whole number that every dtype holds exactly, as do sums of 7 of them.
int64_t value_of(int rank, int64_t index, int salt) {
  uint64_t hash = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u +
                  static_cast<uint64_t>(rank * 131 + salt) * 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 29;
  return static_cast<int64_t>(hash % 16);
}

/// Calls body with the C++ type of dtype.
template <typename Body>
void with_type(DType dtype, Body body) {
  dispatch_all(dtype, [&](auto zero) { body(zero); });
}

void fill(const Tensor& tensor, int rank, int salt) {
  with_type(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data = static_cast<T*>(tensor.raw_data());
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      data[i] = T(static_cast<accumulate_t<T>>(value_of(rank, i, salt)));
    }
  });
}

double element(const Tensor& tensor, int64_t index) {
  double value = 0;
  with_type(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    value = static_cast<double>(static_cast<const T*>(tensor.raw_data())[index]);
  });
  return value;
}

/// The reduction of value_of over the ranks, in the arithmetic that the engine promises.
double reduced(DType dtype, ReduceOp op, int world_size, int64_t index, int salt) {
  if (op == ReduceOp::Average) {
    double result = 0;
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (is_floating(dtype_of<T>)) {
        using A = accumulate_t<T>;
        const A scale = A{1} / static_cast<A>(world_size);
        A sum = static_cast<A>(value_of(0, index, salt)) * scale;
        for (int r = 1; r < world_size; ++r)
          sum += static_cast<A>(value_of(r, index, salt)) * scale;
        result = static_cast<double>(T(sum));
      }
    });
    return result;
  }
  int64_t result = value_of(0, index, salt);
  for (int r = 1; r < world_size; ++r) {
    const int64_t value = value_of(r, index, salt);
    if (op == ReduceOp::Sum) result += value;
    if (op == ReduceOp::Max) result = std::max(result, value);
    if (op == ReduceOp::Min) result = std::min(result, value);
  }
  return static_cast<double>(result);
}

void check_reduced(const Tensor& tensor, ReduceOp op, int world_size, int64_t offset, int salt) {
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double expected = reduced(tensor.dtype(), op, world_size, offset + i, salt);
    expect(element(tensor, i) == expected, reduce_op_name(op), " ", tensor.dtype(), " element ", i,
           " of ", tensor.numel(), ": ", element(tensor, i), ", expected ", expected);
  }
}

void all_reduces(ProcessGroup& group, DType dtype, int64_t n, int& salt) {
  const Tensor shared = group.allocate({n}, dtype);
  const Tensor plain = zeros({n}, dtype);
  for (const ReduceOp op : kOps) {
    if (op == ReduceOp::Average && !is_floating(dtype)) continue;
    for (const Tensor& tensor : {shared, plain}) {
      fill(tensor, group.rank(), ++salt);
      group.all_reduce(tensor, op);
      check_reduced(tensor, op, group.world_size(), 0, salt);
    }
    // In place on one rank, staged on the others.
    const Tensor& mixed = group.rank() == 0 ? shared : plain;
    fill(mixed, group.rank(), ++salt);
    group.all_reduce(mixed, op);
    check_reduced(mixed, op, group.world_size(), 0, salt);
  }
}

void moves(ProcessGroup& group, DType dtype, int64_t n, int& salt) {
  const int world_size = group.world_size();
  const Tensor tensor = zeros({n, 3}, dtype);
  for (int root = 0; root < world_size; ++root) {
    fill(tensor, group.rank(), ++salt);
    group.broadcast(tensor, root);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      expect(element(tensor, i) == static_cast<double>(value_of(root, i, salt)), "broadcast of ",
             dtype, " element ", i);
    }
  }
  const Tensor rows = zeros({world_size * n, 3}, dtype);
  fill(tensor, group.rank(), ++salt);
  group.all_gather(rows, tensor);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int owner = static_cast<int>(i / tensor.numel());
    const double expected = static_cast<double>(value_of(owner, i % tensor.numel(), salt));
    expect(element(rows, i) == expected, "all_gather of ", dtype, " element ", i);
  }
  for (const ReduceOp op : kOps) {
    if (op == ReduceOp::Average && !is_floating(dtype)) continue;
    fill(rows, group.rank(), ++salt);
    group.reduce_scatter(tensor, rows, op);
    check_reduced(tensor, op, world_size, group.rank() * tensor.numel(), salt);
  }
  group.barrier();
}

void everything(ProcessGroup& group) {
  int salt = 0;
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {0, 1, 3, 64, 1000, 4099}) {
      all_reduces(group, dtype, n, salt);
      moves(group, dtype, n, salt);
    }
  }
}

/// Numbers whose sum depends on the order: the bits must be those of the sum in rank order, on all
/// ranks, in place and staged, whole and in parts.
void sums_in_rank_order(ProcessGroup& group) {
  constexpr int64_t kN = 150'001;  // three chunks when staged
  const auto number = [](int rank, int64_t i) {
    const double mantissa = 1.0 + static_cast<double>(value_of(rank, i, 1)) / 7.0;
    const float value =
        static_cast<float>(std::ldexp(mantissa, static_cast<int>(value_of(rank, i, 2)) - 8));
    return value_of(rank, i, 3) % 2 == 0 ? value : -value;
  };
  for (const bool in_place : {true, false}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
      const Tensor tensor = in_place ? group.allocate({kN}, DType::Float32) : zeros({kN});
      float* data = tensor.data<float>();
      for (int64_t i = 0; i < kN; ++i) data[i] = number(group.rank(), i);
      group.all_reduce(tensor, op);
      const float scale =
          op == ReduceOp::Average ? 1.0F / static_cast<float>(group.world_size()) : 1;
      int64_t wrong = 0;
      for (int64_t i = 0; i < kN; ++i) {
        float sum = number(0, i) * scale;
        for (int r = 1; r < group.world_size(); ++r) sum += number(r, i) * scale;
        wrong += std::memcmp(&sum, &data[i], sizeof(sum)) != 0 ? 1 : 0;
      }
      expect(wrong == 0, wrong, " elements differ in bits, in place: ", in_place);
    }
  }
}

TEST_CASE("sums are taken in rank order, bit for bit") {
  for (const int world_size : {2, 3, 5}) {
    CAPTURE(world_size);
    run_ranks(world_size, sums_in_rank_order);
    run_rank_processes(world_size, sums_in_rank_order);
  }
}

TEST_CASE("a part of a shared tensor is reduced, and nothing around it") {
  run_ranks(3, [](ProcessGroup& group) {
    Tensor whole = group.allocate({1000}, DType::Int64);
    whole.fill_(1);
    group.all_reduce(whole.slice(100, 333));
    const int64_t* data = whole.data<int64_t>();
    group.barrier();
    for (int64_t i = 0; i < 1000; ++i) {
      expect(data[i] == (i >= 100 && i < 333 ? 3 : 1), "element ", i, " is ", data[i]);
    }
  });
}

TEST_CASE("bytes_communicated counts what the engine touches") {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor shared = group.allocate({1024}, DType::Float32);
    const int64_t before = group.bytes_communicated();
    group.all_reduce(shared);
    const int64_t in_place = group.bytes_communicated() - before;
    // Half of the elements, read from two buffers and written to two.
    expect(in_place == 4 * 2048, "in place: ", in_place);
    group.all_reduce(zeros({1024}));
    const int64_t staged = group.bytes_communicated() - before - in_place;
    expect(staged == 3 * 4096, "staged: ", staged);  // copied in, read from two
  });
}

TEST_CASE("all collectives, dtypes and reductions are exact, ranks as threads") {
  for (const int world_size : {1, 2, 3, 4, 7}) {
    CAPTURE(world_size);
    run_ranks(world_size, everything);
  }
}

TEST_CASE("all collectives, dtypes and reductions are exact, ranks as processes") {
  for (const int world_size : {1, 2, 3, 4, 7}) {
    CAPTURE(world_size);
    run_rank_processes(world_size, everything);
  }
}

}  // namespace
}  // namespace lockstep::dist
