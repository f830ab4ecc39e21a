// Elementwise kernels and conversions on emulated devices against those of the CPU. The arithmetic
// is the same, one rounding a step, so the results are the same numbers.
#include "kernels/activation.h"
#include "kernels/cast.h"
#include "kernels/pointwise.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

namespace {

/// Values with the special ones among them.
template <typename T>
std::vector<T> special_values(int64_t n, unsigned seed) {
  std::vector<T> values = random_values<T>(n, seed, -4.0, 4.0);
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-7, 60000.0};
  for (size_t i = 0; i < std::size(special) && 3 * i + 1 < values.size(); ++i) {
    values[3 * i + 1] = from_double<T>(special[i]);
  }
  return values;
}

/// Applies operation(output, a, b, n) on the CPU and `on_device` on a device, with `shift` elements
/// before the data so that it is not aligned.
template <typename T, typename Cpu, typename Device>
void compare(int64_t n, int64_t shift, Cpu operation, Device on_device) {
  CAPTURE(n);
  CAPTURE(shift);
  const std::vector<T> a = special_values<T>(n + shift, 1), b = special_values<T>(n + shift, 2);
  std::vector<T> expected = special_values<T>(n + shift, 3);
  const DeviceArray<T> device_a(a), device_b(b), output(expected);
  operation(expected.data() + shift, a.data() + shift, b.data() + shift, n);
  on_stream([&](kernels::Stream stream) {
    on_device(output.data() + shift, device_a.data() + shift, device_b.data() + shift, n, stream);
  });
  CHECK(same(output.to_host(), expected));
}

template <typename T, typename Cpu, typename Device>
void compare_sizes(Cpu operation, Device on_device) {
  for (const int64_t n : kEdgeSizes) compare<T>(n, 0, operation, on_device);
  compare<T>(1025, 1, operation, on_device);
}

}  // namespace

TEST_CASE_TEMPLATE("add, mul and fill_or_add give the CPU's numbers", T, LOCKSTEP_FLOATING) {
  compare_sizes<T>([](T* out, const T* a, const T* b, int64_t n) { cpu::add<T>(out, a, b, n); },
                   [](T* out, const T* a, const T* b, int64_t n, kernels::Stream stream) {
                     cuda::add<T>(out, a, b, n, stream);
                   });
  for (const bool accumulate : {false, true}) {
    compare_sizes<T>(
        [&](T* out, const T* a, const T*, int64_t n) { cpu::mul<T>(out, a, n, 0.3, accumulate); },
        [&](T* out, const T* a, const T*, int64_t n, kernels::Stream stream) {
          cuda::mul<T>(out, a, n, 0.3, accumulate, stream);
        });
    compare_sizes<T>([&](T* out, const T*, const T*,
                         int64_t n) { cpu::fill_or_add<T>(out, n, 0.7, accumulate); },
                     [&](T* out, const T*, const T*, int64_t n, kernels::Stream stream) {
                       cuda::fill_or_add<T>(out, n, 0.7, accumulate, stream);
                     });
  }
}

TEST_CASE_TEMPLATE("relu gives the CPU's numbers", T, LOCKSTEP_FLOATING) {
  compare_sizes<T>([](T* out, const T* a, const T*, int64_t n) { cpu::relu_forward<T>(out, a, n); },
                   [](T* out, const T* a, const T*, int64_t n, kernels::Stream stream) {
                     cuda::relu_forward<T>(out, a, n, stream);
                   });
  for (const bool accumulate : {false, true}) {
    compare_sizes<T>([&](T* out, const T* a, const T* b,
                         int64_t n) { cpu::relu_backward<T>(out, a, b, n, accumulate); },
                     [&](T* out, const T* a, const T* b, int64_t n, kernels::Stream stream) {
                       cuda::relu_backward<T>(out, a, b, n, accumulate, stream);
                     });
  }
}

TEST_CASE("an output may be an input, and more elements than the grid has threads are reached") {
  const int64_t n = 4 * 1024 * 256 + 4096 + 3;
  std::vector<float> values = random_values<float>(n, 5);
  const DeviceArray<float> x(values);
  on_stream(
      [&](kernels::Stream stream) { cuda::add<float>(x.data(), x.data(), x.data(), n, stream); });
  for (float& value : values) value += value;
  CHECK(same(x.to_host(), values));
}

TEST_CASE_TEMPLATE("gelu agrees with the CPU to a few roundings", T, LOCKSTEP_FLOATING) {
  using A = accumulate_t<T>;
  for (const int64_t n : kEdgeSizes) {
    CAPTURE(n);
    const std::vector<T> input = random_values<T>(n, 1, -6, 6), grad = random_values<T>(n, 2);
    std::vector<T> expected(input.size()), expected_grad = random_values<T>(n, 3);
    const DeviceArray<T> x(input), g(grad), output(input.size()), grad_input(expected_grad);
    cpu::gelu_forward<T>(expected.data(), input.data(), n);
    cpu::gelu_backward<T>(expected_grad.data(), grad.data(), input.data(), n, true);
    on_stream([&](kernels::Stream stream) {
      cuda::gelu_forward<T>(output.data(), x.data(), n, stream);
      cuda::gelu_backward<T>(grad_input.data(), g.data(), x.data(), n, true, stream);
    });
    // Both sides err by some units of the type that is computed in and by one rounding to T.
    CHECK(close(output.to_host(), expected, kEpsilon<T> + 40 * kEpsilon<A>, kEpsilon<A>));
    CHECK(close(grad_input.to_host(), expected_grad, kEpsilon<T>, kEpsilon<T> + 40 * kEpsilon<A>));
  }
}

TEST_CASE("convert gives the CPU's numbers between all pairs of types") {
  const DType dtypes[] = {DType::Float32,  DType::Float64, DType::Float16,
                          DType::BFloat16, DType::Int64,   DType::UInt8};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{1025}}) {
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(n);
        std::vector<double> values = special_values<double>(n, 7);
        for (double& value : values) value *= 50;
        std::vector<char> source(static_cast<size_t>(n * element_size(from)));
        std::vector<char> expected(static_cast<size_t>(n * element_size(to)));
        cpu::convert(source.data(), from, values.data(), DType::Float64, n);
        cpu::convert(expected.data(), to, source.data(), from, n);
        const DeviceArray<char> device_source(source), output(expected.size());
        on_stream([&](kernels::Stream stream) {
          cuda::convert(output.data(), to, device_source.data(), from, n, stream);
        });
        // Compared as doubles: a NaN may have other bits.
        std::vector<double> actual_values(values.size()), expected_values(values.size());
        cpu::convert(actual_values.data(), DType::Float64, output.to_host().data(), to, n);
        cpu::convert(expected_values.data(), DType::Float64, expected.data(), to, n);
        CHECK(same(actual_values, expected_values));
      }
    }
  }
}

TEST_CASE("fill writes every type, aligned or not") {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                            DType::Int64, DType::UInt8}) {
    for (const int64_t n : kEdgeSizes) {
      for (const int64_t shift : {0, 1}) {
        CAPTURE(dtype);
        CAPTURE(n);
        const int64_t size = element_size(dtype);
        std::vector<char> expected(static_cast<size_t>((n + shift + 1) * size), 1);
        const DeviceArray<char> output(expected);
        cpu::fill(expected.data() + shift * size, dtype, 3.7, n);
        on_stream([&](kernels::Stream stream) {
          cuda::fill(output.data() + shift * size, dtype, 3.7, n, stream);
        });
        CHECK(output.to_host() == expected);
      }
    }
  }
}
