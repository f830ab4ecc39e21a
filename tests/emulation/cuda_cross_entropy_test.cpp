// Cross-entropy on emulated devices against that of the CPU: all of its options, rows from one
// class to 100,000, and what becomes of a bad target.
#include "kernels/cross_entropy.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

namespace {

struct Case {
  int64_t n;
  int64_t classes;
  bool weights = false;
  cpu::CrossEntropyScalars scalars = {};
};

template <typename T>
void compare(const Case& c) {
  using A = accumulate_t<T>;
  CAPTURE(c.n);
  CAPTURE(c.classes);
  CAPTURE(c.weights);
  CAPTURE(c.scalars.label_smoothing);
  const int64_t numel = c.n * c.classes;
  const std::vector<T> logits = random_values<T>(numel, 1, -4, 4);
  std::vector<int64_t> targets = random_indices(c.n, 2, c.classes);
  if (c.n > 2) targets[1] = c.scalars.ignore_index;
  const std::vector<A> weights = random_values<A>(c.classes, 3, 0.5, 1.5);
  const size_t losses = c.scalars.per_sample ? targets.size() : 1;
  std::vector<A> want_loss(losses), want_grad(static_cast<size_t>(numel));
  REQUIRE(cpu::cross_entropy_forward<T>(want_loss.data(), want_grad.data(), logits.data(),
                                        targets.data(), c.weights ? weights.data() : nullptr, c.n,
                                        c.classes, c.scalars) == -1);
  const DeviceArray<T> x(logits);
  const DeviceArray<int64_t> t(targets);
  const DeviceArray<A> w(weights), loss(losses), grad(want_grad.size()), loss_alone(losses);
  const DeviceArray<kernels::BadIndex> bad(std::vector<kernels::BadIndex>(1));
  on_stream([&](kernels::Stream stream) {
    const A* class_weights = c.weights ? w.data() : nullptr;
    cuda::cross_entropy_forward<T>(loss.data(), grad.data(), bad.data(), x.data(), t.data(),
                                   class_weights, c.n, c.classes, c.scalars, stream);
    cuda::cross_entropy_forward<T>(loss_alone.data(), nullptr, bad.data(), x.data(), t.data(),
                                   class_weights, c.n, c.classes, c.scalars, stream);
  });
  // A sum of `classes` exponentials, each a few units off, in lanes and then in a tree.
  const double bound = (32.0 + static_cast<double>(c.classes) / 256) * kEpsilon<A>;
  const double terms = c.scalars.mean || c.scalars.per_sample ? 1.0 : static_cast<double>(c.n);
  CHECK(close(loss.to_host(), want_loss, bound, bound * terms));
  CHECK(same(loss_alone.to_host(), loss.to_host()));
  CHECK(close(grad.to_host(), want_grad, bound, bound));
  CHECK(bad.to_host()[0].position == -1);
}

}  // namespace

TEST_CASE_TEMPLATE("cross-entropy of all shapes", T, LOCKSTEP_FLOATING) {
  for (const int64_t classes : {1, 2, 10, 31, 32, 33, 1023, 1025}) compare<T>({3, classes});
  for (const int64_t n : {0, 1, 31, 33, 1025}) compare<T>({n, 10});
}

TEST_CASE_TEMPLATE("cross-entropy of 100,000 classes", T, float, Half) { compare<T>({2, 100000}); }

TEST_CASE_TEMPLATE("the options of cross-entropy", T, float, Half) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const bool weights : {false, true}) {
      compare<T>({9, 33, weights, {.label_smoothing = smoothing}});
      compare<T>({9, 33, weights, {.label_smoothing = smoothing, .mean = false}});
      compare<T>({9, 33, weights, {.ignore_index = 4, .label_smoothing = smoothing}});
      compare<T>(
          {9, 33, weights, {.label_smoothing = smoothing, .mean = false, .per_sample = true}});
    }
  }
}

TEST_CASE("a bad target is noted, the first one stays, and the device goes on") {
  const int64_t n = 40, classes = 5;
  const DeviceArray<float> x(random_values<float>(n * classes, 1));
  std::vector<int64_t> targets(n, 2);
  targets[37] = -1;
  targets[35] = 5;
  const DeviceArray<int64_t> t(targets), all_ignored(std::vector<int64_t>(n, -100));
  const DeviceArray<float> loss(1), grad(static_cast<size_t>(n * classes));
  const DeviceArray<kernels::BadIndex> bad(std::vector<kernels::BadIndex>(1));
  const auto forward = [&](const DeviceArray<int64_t>& which) {
    on_stream([&](kernels::Stream stream) {
      cuda::cross_entropy_forward<float>(loss.data(), grad.data(), bad.data(), x.data(),
                                         which.data(), nullptr, n, classes, {}, stream);
    });
  };
  forward(t);
  CHECK(bad.to_host()[0].position == 35);
  CHECK(bad.to_host()[0].value == 5);
  const std::vector<float> grads = grad.to_host();
  for (size_t c = 0; c < 5; ++c) CHECK(grads[35 * 5 + c] == 0.0f);
  CHECK(std::isfinite(loss.to_host()[0]));
  // A mean over nothing is NaN; the note is not overwritten.
  forward(all_ignored);
  CHECK(std::isnan(loss.to_host()[0]));
  CHECK(grad.to_host() == std::vector<float>(static_cast<size_t>(n * classes), 0.0f));
  CHECK(bad.to_host()[0].position == 35);
}

TEST_CASE_TEMPLATE("the backward of cross-entropy gives the CPU's numbers", T, LOCKSTEP_FLOATING) {
  using A = accumulate_t<T>;
  for (const auto& [n, classes] : {std::pair<int64_t, int64_t>{0, 3}, {1, 1}, {7, 10}, {3, 1025}}) {
    for (const bool per_sample : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const std::vector<A> saved = random_values<A>(n * classes, 1);
        const std::vector<A> grad_loss = random_values<A>(per_sample ? n : 1, 2);
        std::vector<T> want = random_values<T>(n * classes, 3);
        const DeviceArray<A> s(saved), g(grad_loss);
        const DeviceArray<T> grad(want);
        cpu::cross_entropy_backward<T>(want.data(), saved.data(), grad_loss.data(), n, classes,
                                       per_sample, accumulate);
        on_stream([&](kernels::Stream stream) {
          cuda::cross_entropy_backward<T>(grad.data(), s.data(), g.data(), n, classes, per_sample,
                                          accumulate, stream);
        });
        CHECK(same(grad.to_host(), want));
      }
    }
  }
}
