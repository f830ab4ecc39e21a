// Sums on emulated devices against sums in double, with bounds from the number of additions, and
// the same bits every time.
#include "kernels/reduce.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cuda = lockstep::kernels::cuda;

TEST_CASE_TEMPLATE("sum and sum_of_squares", T, LOCKSTEP_FLOATING) {
  std::vector<int64_t> sizes = kEdgeSizes;
  sizes.push_back(4096);    // one block
  sizes.push_back(4097);    // two
  sizes.push_back(100000);  // many
  for (const int64_t n : sizes) {
    CAPTURE(n);
    const std::vector<T> input = random_values<T>(n, 1);
    long double total = 0, magnitude = 0, squares = 0;
    for (const T value : input) {
      total += to_double(value);
      magnitude += std::abs(to_double(value));
      squares += static_cast<long double>(to_double(value)) * to_double(value);
    }
    const DeviceArray<T> x(input), result(1);
    const DeviceArray<double> square_result(1);
    on_stream([&](kernels::Stream stream) {
      cuda::sum<T>(result.data(), x.data(), n, 0.5, stream);
      cuda::sum_of_squares<T>(square_result.data(), x.data(), n, stream);
    });
    const double bound = static_cast<double>(n) * 0x1p-53;  // of additions in double
    CHECK(close(result.to_host(), std::vector<double>{static_cast<double>(total / 2)}, kEpsilon<T>,
                bound * static_cast<double>(magnitude)));
    CHECK(close(square_result.to_host(), std::vector<double>{static_cast<double>(squares)},
                bound + 0x1p-52, 0.0));
    const std::vector<T> first = result.to_host();
    on_stream(
        [&](kernels::Stream stream) { cuda::sum<T>(result.data(), x.data(), n, 0.5, stream); });
    CHECK(same(result.to_host(), first));
  }
}

TEST_CASE_TEMPLATE("column_sum", T, LOCKSTEP_FLOATING) {
  const std::pair<int64_t, int64_t> shapes[] = {
      {0, 5}, {1, 1}, {31, 33}, {33, 31}, {128, 32}, {129, 3}, {1025, 10}, {300, 70}, {7, 0}};
  for (const auto& [rows, columns] : shapes) {
    for (const bool accumulate : {false, true}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CAPTURE(accumulate);
      const std::vector<T> input = random_values<T>(rows * columns, 1);
      const std::vector<T> before = random_values<T>(columns, 2);
      std::vector<double> expected(before.size());
      for (int64_t c = 0; c < columns; ++c) {
        double total = accumulate ? to_double(before[static_cast<size_t>(c)]) : 0.0;
        for (int64_t r = 0; r < rows; ++r) {
          total += to_double(input[static_cast<size_t>(r * columns + c)]);
        }
        expected[static_cast<size_t>(c)] = total;
      }
      const DeviceArray<T> x(input), sums(before);
      on_stream([&](kernels::Stream stream) {
        cuda::column_sum<T>(sums.data(), x.data(), rows, columns, accumulate, stream);
      });
      const double additions = static_cast<double>(rows + 1);
      const double bound = additions * kEpsilon<accumulate_t<T>> * 2 * additions;
      CHECK(close(sums.to_host(), expected, kEpsilon<T>, bound));
    }
  }
}
