// Embedding on emulated devices against that of the CPU: additions in the same order, so the same
// numbers.
#include "kernels/embedding.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

TEST_CASE_TEMPLATE("embedding, forward and backward", T, LOCKSTEP_FLOATING) {
  using A = accumulate_t<T>;
  struct Shape {
    int64_t n, rows, width;
  };
  for (const auto& [n, rows, width] :
       {Shape{0, 3, 4}, Shape{1, 1, 1}, Shape{31, 4, 33}, Shape{33, 40, 8}, Shape{600, 5, 7},
        Shape{20, 3, 300}, Shape{5, 3, 0}}) {
    CAPTURE(n);
    CAPTURE(rows);
    CAPTURE(width);
    const std::vector<T> weight = random_values<T>(rows * width, 1);
    const std::vector<T> grad = random_values<T>(n * width, 2);
    const std::vector<int64_t> indices = random_indices(n, 3, rows);
    std::vector<T> want(grad.size());
    REQUIRE(cpu::embedding_forward<T>(want.data(), weight.data(), indices.data(), n, rows, width) ==
            -1);
    const DeviceArray<T> table(weight), g(grad), output(grad.size());
    const DeviceArray<int64_t> i(indices);
    const DeviceArray<kernels::BadIndex> bad(std::vector<kernels::BadIndex>(1));
    on_stream([&](kernels::Stream stream) {
      cuda::embedding_forward<T>(output.data(), bad.data(), table.data(), i.data(), n, rows, width,
                                 stream);
    });
    CHECK(same(output.to_host(), want));
    CHECK(bad.to_host()[0].position == -1);
    for (const bool accumulate : {false, true}) {
      std::vector<T> want_grad = random_values<T>(rows * width, 4);
      const DeviceArray<T> grad_weight(want_grad);
      std::vector<A> sums(want_grad.size());
      cpu::embedding_backward<T>(want_grad.data(), sums.data(), grad.data(), indices.data(), n,
                                 rows, width, accumulate);
      on_stream([&](kernels::Stream stream) {
        cuda::embedding_backward<T>(grad_weight.data(), g.data(), i.data(), n, rows, width,
                                    accumulate, stream);
      });
      CHECK(same(grad_weight.to_host(), want_grad));
    }
  }
}

TEST_CASE("a bad index is noted and gives zeros") {
  const DeviceArray<float> table(random_values<float>(12, 1)), output(20);
  const DeviceArray<int64_t> indices(std::vector<int64_t>{0, 3, 2, -7, 1});
  const DeviceArray<kernels::BadIndex> bad(std::vector<kernels::BadIndex>(1));
  const DeviceArray<float> grad_weight(12);
  on_stream([&](kernels::Stream stream) {
    cuda::embedding_forward<float>(output.data(), bad.data(), table.data(), indices.data(), 5, 3, 4,
                                   stream);
    cuda::embedding_backward<float>(grad_weight.data(), output.data(), indices.data(), 5, 3, 4,
                                    false, stream);
  });
  CHECK(bad.to_host()[0].position == 1);
  CHECK(bad.to_host()[0].value == 3);
  const std::vector<float> values = output.to_host(), rows = table.to_host();
  for (size_t c = 0; c < 4; ++c) {
    CHECK(values[4 + c] == 0.0f);
    CHECK(values[12 + c] == 0.0f);
  }
  CHECK(same(grad_weight.to_host(), rows));  // each row was looked up once
}
