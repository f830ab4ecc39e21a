// SGD, AdamW and unscaling of many tensors in one launch, on emulated devices. The arithmetic is
// that of the CPU's portable path, so several steps give the same numbers.
#include "kernels/adamw.h"
#include "kernels/sgd.h"
#include "kernels/unscale.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

namespace {

const std::vector<int64_t> kSizes = {0, 1, 31, 33, 1023, 1024, 1025, 2049, 4};

/// The same tensors on the host and on the device; `shift` elements before the data.
template <typename T>
class Tensors {
 public:
  Tensors(unsigned seed, double low, double high, int64_t shift = 0) : shift_(shift) {
    for (const int64_t n : kSizes) {
      host.push_back(random_values<T>(n + shift, seed++, low, high));
      device.push_back(std::make_unique<DeviceArray<T>>(host.back()));
    }
  }
  T* on_host(size_t k) { return host[k].data() + shift_; }
  T* on_device(size_t k) { return device[k]->data() + shift_; }
  bool are_same() const {
    for (size_t k = 0; k < host.size(); ++k) {
      CAPTURE(k);
      if (!same(device[k]->to_host(), host[k])) return false;
    }
    return true;
  }

  std::vector<std::vector<T>> host;
  std::vector<std::unique_ptr<DeviceArray<T>>> device;

 private:
  int64_t shift_;
};

template <typename T>
void compare_sgd(const cpu::SgdScalars& scalars, int64_t shift) {
  Tensors<T> parameters(1, -1, 1, shift), grads(100, -1, 1), buffers(200, 0, 0);
  const bool has_buffer = scalars.momentum != 0.0;
  for (const bool first : {true, false, false}) {
    std::vector<cpu::SgdParameter<T>> on_host, on_device;
    for (size_t k = 0; k < kSizes.size(); ++k) {
      on_host.push_back({parameters.on_host(k), grads.on_host(k),
                         has_buffer ? buffers.on_host(k) : nullptr, kSizes[k], first});
      on_device.push_back({parameters.on_device(k), grads.on_device(k),
                           has_buffer ? buffers.on_device(k) : nullptr, kSizes[k], first});
    }
    cpu::sgd<T>(on_host, scalars, CpuCapability::Default);
    on_stream([&](kernels::Stream stream) { cuda::sgd<T>(on_device, scalars, stream); });
    CHECK(parameters.are_same());
    CHECK(buffers.are_same());
  }
}

template <typename T>
void compare_adamw(const cpu::AdamWScalars& scalars, bool amsgrad) {
  Tensors<T> parameters(1, -1, 1), grads(100, -1, 1), averages(200, 0, 0), squares(300, 0, 0);
  Tensors<T> largest(400, 0, 0);
  for (const int64_t step : {1, 2, 3}) {
    std::vector<cpu::AdamWParameter<T>> on_host, on_device;
    for (size_t k = 0; k < kSizes.size(); ++k) {
      const int64_t own_step = step + (k == 3 ? 10 : 0);  // one that has been trained before
      on_host.push_back({parameters.on_host(k), grads.on_host(k), averages.on_host(k),
                         squares.on_host(k), amsgrad ? largest.on_host(k) : nullptr, kSizes[k],
                         own_step});
      on_device.push_back({parameters.on_device(k), grads.on_device(k), averages.on_device(k),
                           squares.on_device(k), amsgrad ? largest.on_device(k) : nullptr,
                           kSizes[k], own_step});
    }
    cpu::adamw<T>(on_host, scalars, CpuCapability::Default);
    on_stream([&](kernels::Stream stream) { cuda::adamw<T>(on_device, scalars, stream); });
    CHECK(parameters.are_same());
    CHECK(averages.are_same());
    CHECK(squares.are_same());
    CHECK(largest.are_same());
  }
}

}  // namespace

TEST_CASE_TEMPLATE("three steps of SGD give the CPU's numbers", T, LOCKSTEP_FLOATING) {
  compare_sgd<T>({.lr = 0.1}, 0);
  compare_sgd<T>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 0);
  compare_sgd<T>({.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .maximize = true}, 1);
  compare_sgd<T>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, 0);
}

TEST_CASE_TEMPLATE("three steps of AdamW give the CPU's numbers", T, LOCKSTEP_FLOATING) {
  compare_adamw<T>({}, false);
  compare_adamw<T>({.lr = 0.1, .beta1 = 0.4, .weight_decay = 0.1}, true);
  compare_adamw<T>({.beta1 = 0.0, .maximize = true}, true);
}

TEST_CASE("a momentum buffer that is unset is written without being read") {
  const DeviceArray<float> parameter(random_values<float>(1025, 1)),
      grad(random_values<float>(1025, 2));
  const DeviceArray<float> buffer(1025);  // never written by the host
  const std::vector<cpu::SgdParameter<float>> parameters = {
      {parameter.data(), grad.data(), buffer.data(), 1025, true}};
  on_stream([&](kernels::Stream stream) {
    cuda::sgd<float>(parameters, {.lr = 0.1, .momentum = 0.9}, stream);
  });
  CHECK(same(buffer.to_host(), grad.to_host()));
}

TEST_CASE("all tensors take one launch up to 128, and then one more") {
  const DeviceArray<float> parameter(random_values<float>(300, 1)),
      grad(random_values<float>(300, 2));
  std::vector<float> expected = parameter.to_host();
  const std::vector<float> grads = grad.to_host();
  std::vector<cpu::SgdParameter<float>> parameters;
  for (int64_t i = 0; i < 128; ++i) {
    parameters.push_back({parameter.data() + 2 * i, grad.data() + 2 * i, nullptr, 2, false});
  }
  const auto launches_of_step = [&] {
    const emulation::Counters before = emulation::counters();
    on_stream([&](kernels::Stream stream) { cuda::sgd<float>(parameters, {.lr = 0.5}, stream); });
    for (size_t i = 0; i < 2 * parameters.size(); ++i) expected[i] += -0.5f * grads[i];
    return (emulation::counters() - before).launches;
  };
  CHECK(launches_of_step() == 1);
  parameters.push_back({parameter.data() + 256, grad.data() + 256, nullptr, 2, false});
  CHECK(launches_of_step() == 2);
  parameters.clear();
  CHECK(launches_of_step() == 0);
  CHECK(same(parameter.to_host(), expected));
}

TEST_CASE_TEMPLATE("unscale multiplies all gradients and finds the one that is not finite", T,
                   LOCKSTEP_FLOATING) {
  Tensors<T> grads(1, -1, 1);
  const auto unscale = [&](double factor) {
    const DeviceArray<float> found_inf(std::vector<float>{0.0f});
    std::vector<cuda::UnscaleGrad<T>> items;
    for (size_t k = 0; k < kSizes.size(); ++k) items.push_back({grads.on_device(k), kSizes[k]});
    on_stream(
        [&](kernels::Stream stream) { cuda::unscale<T>(found_inf.data(), items, factor, stream); });
    return found_inf.to_host()[0];
  };
  CHECK(unscale(0.25) == 0.0f);
  for (std::vector<T>& values : grads.host) {
    for (T& value : values) value = from_double<T>(to_double(value) * 0.25);
  }
  CHECK(grads.are_same());
  for (const double special : {double{INFINITY}, double{NAN}}) {
    for (const size_t tensor : {1u, 6u}) {
      const T value = from_double<T>(special);
      T* const at = grads.on_device(tensor) + kSizes[tensor] - 1;
      T before;
      LOCKSTEP_CUDA_CHECK(cudaMemcpy(&before, at, sizeof(T), cudaMemcpyDeviceToHost));
      LOCKSTEP_CUDA_CHECK(cudaMemcpy(at, &value, sizeof(T), cudaMemcpyHostToDevice));
      CHECK(unscale(1.0) == 1.0f);
      LOCKSTEP_CUDA_CHECK(cudaMemcpy(at, &before, sizeof(T), cudaMemcpyHostToDevice));
    }
  }
  CHECK(unscale(1.0) == 0.0f);
}
