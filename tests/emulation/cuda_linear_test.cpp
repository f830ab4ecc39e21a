// Linear on emulated devices against products in double: the layout of all three products, what is
// accumulated, and the bias and activation after them.
#include "kernels/linear.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
using kernels::cpu::Epilogue;
namespace cuda = lockstep::kernels::cuda;

namespace {

struct Shape {
  int64_t n, in, out;
};
constexpr Shape kShapes[] = {{0, 3, 2}, {1, 1, 1},    {5, 0, 3},    {4, 3, 0},
                             {3, 5, 7}, {31, 33, 10}, {33, 32, 31}, {2, 70, 1025}};

/// sum_k a(i, k) b(k, j) for all i < rows, j < columns, added to `start` (0 when that is empty).
template <typename T, typename A, typename B>
std::vector<double> product(int64_t rows, int64_t columns, int64_t depth,
                            const std::vector<T>& start, A a, B b) {
  std::vector<double> result;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double total = start.empty() ? 0.0 : to_double(start[static_cast<size_t>(i * columns + j)]);
      for (int64_t k = 0; k < depth; ++k) total += a(i, k) * b(k, j);
      result.push_back(total);
    }
  }
  return result;
}

template <typename T>
auto element_of(const std::vector<T>& matrix, int64_t columns) {
  return [&matrix, columns](int64_t r, int64_t c) {
    return to_double(matrix[static_cast<size_t>(r * columns + c)]);
  };
}

/// Bound of a sum of `terms` products of numbers up to 2, each operation rounded.
template <typename T>
double bound(int64_t terms) {
  return 8.0 * static_cast<double>(terms + 1) * kEpsilon<accumulate_t<T>> *
         std::sqrt(static_cast<double>(terms + 1));
}

}  // namespace

TEST_CASE_TEMPLATE("linear forward", T, LOCKSTEP_FLOATING) {
  for (const auto& [n, in, out] : kShapes) {
    CAPTURE(n);
    CAPTURE(in);
    CAPTURE(out);
    const std::vector<T> input = random_values<T>(n * in, 1),
                         weight = random_values<T>(out * in, 2);
    const std::vector<T> bias = random_values<T>(out, 3);
    const DeviceArray<T> x(input), w(weight), b(bias), y(static_cast<size_t>(n * out));
    const auto at_weight = element_of(weight, in);
    std::vector<double> plain = product<T>(n, out, in, {}, element_of(input, in),
                                           [&](int64_t k, int64_t j) { return at_weight(j, k); });
    for (const bool has_bias : {false, true}) {
      for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu}) {
        std::vector<double> expected = plain;
        double largest = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
          largest = std::max(largest, std::abs(expected[i]));
          if (has_bias) expected[i] += to_double(bias[i % bias.size()]);
          if (epilogue == Epilogue::Relu) expected[i] = std::max(expected[i], 0.0);
        }
        on_stream([&](kernels::Stream stream) {
          cuda::linear_forward<T>(y.data(), x.data(), w.data(), has_bias ? b.data() : nullptr, n,
                                  in, out, epilogue, stream);
        });
        // The product is rounded to T before the bias is added, and the sum again.
        CHECK(close(y.to_host(), expected, kEpsilon<T>, bound<T>(in) + kEpsilon<T> * largest));
      }
    }
  }
}

TEST_CASE_TEMPLATE("linear backward", T, LOCKSTEP_FLOATING) {
  for (const auto& [n, in, out] : kShapes) {
    for (const bool accumulate : {false, true}) {
      CAPTURE(n);
      CAPTURE(in);
      CAPTURE(out);
      CAPTURE(accumulate);
      const std::vector<T> input = random_values<T>(n * in, 1);
      const std::vector<T> weight = random_values<T>(out * in, 2);
      const std::vector<T> grad = random_values<T>(n * out, 3), none;
      const std::vector<T> bias0 = random_values<T>(out, 4),
                           weight0 = random_values<T>(out * in, 5);
      const std::vector<T> input0 = random_values<T>(n * in, 6);
      const auto g = element_of(grad, out);
      const auto transposed = [&](int64_t i, int64_t k) { return g(k, i); };
      const std::vector<double> want_bias = product<T>(
          out, 1, n, accumulate ? bias0 : none, transposed, [](int64_t, int64_t) { return 1.0; });
      const std::vector<double> want_weight =
          product<T>(out, in, n, accumulate ? weight0 : none, transposed, element_of(input, in));
      const std::vector<double> want_input =
          product<T>(n, in, out, accumulate ? input0 : none, g, element_of(weight, in));
      const DeviceArray<T> x(input), w(weight), device_grad(grad), grad_bias(bias0),
          grad_weight(weight0), grad_input(input0);
      on_stream([&](kernels::Stream stream) {
        cuda::linear_backward_bias<T>(grad_bias.data(), device_grad.data(), n, out, accumulate,
                                      stream);
        cuda::linear_backward_weight<T>(grad_weight.data(), device_grad.data(), x.data(), n, in,
                                        out, accumulate, stream);
        cuda::linear_backward_input<T>(grad_input.data(), device_grad.data(), w.data(), n, in, out,
                                       accumulate, stream);
      });
      CHECK(close(grad_bias.to_host(), want_bias, kEpsilon<T>, bound<T>(n)));
      CHECK(close(grad_weight.to_host(), want_weight, kEpsilon<T>, bound<T>(n)));
      CHECK(close(grad_input.to_host(), want_input, kEpsilon<T>, bound<T>(out)));
    }
  }
}

TEST_CASE("a steady step of linear waits for nothing and takes nothing from the device") {
  const DeviceArray<float> x(random_values<float>(64, 1)), w(random_values<float>(64, 2)),
      b(random_values<float>(8, 3)), y(64), grad(64);
  on_stream([&](kernels::Stream stream) {
    const auto step = [&] {
      cuda::linear_forward<float>(y.data(), x.data(), w.data(), b.data(), 8, 8, 8, Epilogue::Relu,
                                  stream);
      cuda::linear_backward_weight<float>(grad.data(), y.data(), x.data(), 8, 8, 8, false, stream);
    };
    step();
    const emulation::Counters before = emulation::counters();
    step();
    const emulation::Counters used = emulation::counters() - before;
    CHECK(used.launches == 1);
    CHECK(used.library_calls == 2);
    CHECK(used.synchronisations == 0);
    CHECK(used.mallocs + used.async_mallocs + used.pool_growths == 0);
  });
}

TEST_CASE("a size that cuBLAS cannot take is refused by name") {
  const int64_t huge = int64_t{1} << 31;
  CHECK_THROWS_WITH(cuda::linear_forward<float>(nullptr, nullptr, nullptr, nullptr, 1, huge, 1,
                                                Epilogue::None, nullptr),
                    doctest::Contains("linear: size 2147483648"));
}
