// rank_reduce: exact against its definition, in place and apart, and equal bits on the portable and
// the AVX2 path, NaN and infinities included.
#include "core/rank_reduce.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/base/cpu.h"
#include "kernels/rank_reduce_blocks.h"

namespace lockstep {
namespace {

using kernels::RankReduceOp;

constexpr RankReduceOp kOps[] = {RankReduceOp::Sum, RankReduceOp::Average, RankReduceOp::Max,
                                 RankReduceOp::Min};

/// Any bits are a value: all kinds of numbers, NaN and infinity come up in 16 bits; for wider types
/// the exponents are kept small enough for sums to be finite mostly.
template <typename T>
std::vector<T> random_values(std::mt19937_64& generator, size_t n) {
  std::vector<T> values(n);
  for (T& value : values) {
    if constexpr (sizeof(T) == 2) {
      value.bits = static_cast<uint16_t>(generator());
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(std::ldexp(static_cast<double>(generator() >> 40),
                                        static_cast<int>(generator() % 60) - 40));
      if (generator() % 2 == 0) value = -value;
      if (generator() % 97 == 0) value = std::numeric_limits<T>::quiet_NaN();
      if (generator() % 97 == 0) value = -std::numeric_limits<T>::infinity();
      if (generator() % 31 == 0) value = -T{0};
    } else {
      value = static_cast<T>(generator());
    }
  }
  return values;
}

/// The definition, one element at a time.
template <typename T>
T expected_element(const std::vector<std::vector<T>>& inputs, size_t i, RankReduceOp op) {
  using A = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, accumulate_t<T>>;
  const A scale = static_cast<A>(A{1} / static_cast<A>(inputs.size()));
  A sum{};
  for (size_t r = 0; r < inputs.size(); ++r) {
    const A x = static_cast<A>(inputs[r][i]);
    const bool replaces = [&] {
      if constexpr (std::is_same_v<T, int64_t>) {
        const int64_t a = static_cast<int64_t>(sum);
        const int64_t b = static_cast<int64_t>(x);
        return op == RankReduceOp::Max ? b > a : b < a;
      } else {
        return x != x || (op == RankReduceOp::Max ? x > sum : x < sum);
      }
    }();
    switch (op) {
      case RankReduceOp::Sum:
        sum = r == 0 ? x : static_cast<A>(sum + x);
        break;
      case RankReduceOp::Average:
        sum = r == 0 ? static_cast<A>(x * scale) : static_cast<A>(sum + x * scale);
        break;
      case RankReduceOp::Max:
      case RankReduceOp::Min:
        if (r == 0 || replaces) sum = x;
    }
  }
  return static_cast<T>(sum);
}

/// Equal bits; which NaN a sum of NaNs is, is the CPU's choice.
template <typename T>
bool same(T a, T b) {
  if constexpr (is_floating(dtype_of<T>)) {
    if (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// The portable path, whatever this CPU is.
struct Lanes {
  template <typename T>
  static void widen(float* out, const T* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
  }
  template <typename T>
  static void narrow(T* out, const float* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = T(in[i]);
  }
};

template <typename T>
void check_type() {
  CAPTURE(dtype_of<T>);
  std::mt19937_64 generator(7);
  for (const size_t n : {0, 1, 7, 8, 33, 511, 512, 513, 1500}) {
    for (const size_t num_inputs : {1, 2, 3, 5, 8}) {
      std::vector<std::vector<T>> inputs;
      for (size_t r = 0; r < num_inputs; ++r) inputs.push_back(random_values<T>(generator, n));
      std::vector<const void*> pointers;
      for (const auto& input : inputs) pointers.push_back(input.data());
      for (const RankReduceOp op : kOps) {
        if (op == RankReduceOp::Average && !is_floating(dtype_of<T>)) continue;
        std::vector<T> apart(n);
        std::vector<T> portable(n);
        void* output = apart.data();
        rank_reduce(&output, pointers.data(), 1, static_cast<int>(num_inputs),
                    static_cast<int64_t>(n), dtype_of<T>, op);
        output = portable.data();
        kernels::cpu::RankReduceBlocks<Lanes, T>::run(
            &output, pointers.data(), 1, static_cast<int>(num_inputs), static_cast<int64_t>(n), op);
        auto in_place = inputs;
        std::vector<void*> outputs;
        for (auto& input : in_place) outputs.push_back(input.data());
        rank_reduce(outputs.data(), outputs.data(), static_cast<int>(num_inputs),
                    static_cast<int>(num_inputs), static_cast<int64_t>(n), dtype_of<T>, op);
        size_t wrong = 0;
        for (size_t i = 0; i < n; ++i) {
          wrong += same(apart[i], expected_element(inputs, i, op)) ? 0 : 1;
          wrong += same(apart[i], portable[i]) ? 0 : 1;
          for (const auto& buffer : in_place) {
            wrong += std::memcmp(&buffer[i], &apart[i], sizeof(T)) == 0 ? 0 : 1;
          }
        }
        CAPTURE(n);
        CAPTURE(num_inputs);
        CAPTURE(static_cast<int>(op));
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("rank_reduce keeps its definition on every dtype, in place and apart, on both paths") {
  MESSAGE("this CPU's path: " << std::string(cpu_capability_name()));
  check_type<float>();
  check_type<double>();
  check_type<Half>();
  check_type<BFloat16>();
  check_type<int64_t>();
  check_type<uint8_t>();
}

TEST_CASE("rank_reduce sums 16-bit floats in fp32 and rounds once") {
  // 2048 + 1 + 1: rounding after each sum would stay at 2048 (spacing 2), the exact sum is 2050.
  const Half large(2048.0F);
  const Half one(1.0F);
  const void* inputs[] = {&large, &one, &one};
  Half result;
  void* output = &result;
  rank_reduce(&output, inputs, 1, 3, 1, DType::Float16, RankReduceOp::Sum);
  CHECK(static_cast<float>(result) == 2050.0F);
}

TEST_CASE("rank_reduce has no average of integers") {
  int64_t value = 1;
  const void* input = &value;
  void* output = &value;
  CHECK_THROWS_WITH_AS(rank_reduce(&output, &input, 1, 1, 1, DType::Int64, RankReduceOp::Average),
                       doctest::Contains("no average of Int64"), Error);
}

}  // namespace
}  // namespace lockstep
