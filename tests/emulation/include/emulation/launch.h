// cudaLaunchKernelEx while the kernel's types are still known, and the C++ forms of runtime
// functions that NVIDIA's header declares under nvcc alone.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulation/device.h"

namespace lockstep::emulation {

/// One kernel argument as the runtime sees it; pointers are looked up in the map of allocations.
struct ArgumentView {
  const void* value;
  bool is_pointer;
};

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, const void* function,
                           std::function<void()> body, const ArgumentView* arguments,
                           unsigned count);

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                          Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "kernel arguments are copied byte by byte");
  auto values = std::make_shared<std::tuple<Parameters...>>(
      Parameters(std::forward<Arguments>(arguments))...);
  ArgumentView views[sizeof...(Parameters) + 1] = {};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((views[I] = {&std::get<I>(*values), std::is_pointer_v<Parameters>}), ...);
  }
  (std::index_sequence_for<Parameters...>{});
  // As on a GPU, every thread has its own copy of the parameters. It is made before the checks
  // start to look, because the original is memory of the host.
  auto body = [kernel, values] {
    std::tuple<Parameters...> mine = *values;
    auto function = kernel;
    set_checked(true);
    std::apply(function, mine);
    set_checked(false);
  };
  return enqueue_kernel(*config, reinterpret_cast<const void*>(kernel), std::move(body), views,
                        sizeof...(Parameters));
}

/// The block's dynamic shared memory.
template <typename T>
T* dynamic_shared_memory() {
  return reinterpret_cast<T*>(current_block.dynamic_shared);
}

}  // namespace lockstep::emulation

#define cudaLaunchKernelEx ::lockstep::emulation::launch_kernel

template <typename T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <typename T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* function) {
  return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(function));
}
