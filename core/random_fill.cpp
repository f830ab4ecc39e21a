// Tensors of random numbers, drawn in PyTorch's order: which words of the generator become which
// element is part of the result.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/random.h"

namespace lockstep {
namespace {

// Draws go through a buffer on the stack, so that words, uniforms and normals of a block stay in
// the first-level cache. A multiple of the 16 elements of a Box-Muller block.
constexpr int64_t kChunk = 1024;

Generator& or_default(Generator* generator) {
  return generator != nullptr ? *generator : default_generator();
}

/// Calls fill(cpu_tensor) for the elements of `tensor`, wherever they are.
template <typename Fill>
void fill_in_place(const char* operation, Tensor& tensor, Fill&& fill) {
  LOCKSTEP_CHECK(tensor.defined(), operation, ": the tensor is undefined; give it a value first");
  LOCKSTEP_CHECK(!is_grad_enabled() || !tensor.requires_grad(), operation,
                 ": in place on a tensor that autograd tracks (shape ", tensor.shape(),
                 "); use a NoGradGuard");
  if (tensor.device().is_cpu()) {
    fill(tensor);
    tensor.bump_version();
  } else {
    Tensor host = empty(tensor.shape(), tensor.dtype());
    fill(host);
    tensor.copy_(host);
  }
}

/// output[i] = u * range + from for the next n uniforms of the generator.
template <typename T>
void draw_uniform(T* output, int64_t n, T range, T from, Generator& generator) {
  constexpr int64_t kWords = kernels::cpu::kWordsPerUniform<T>;
  std::array<uint32_t, kChunk * kWords> words;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    generator.random_fill(std::span(words.data(), static_cast<size_t>(count * kWords)));
    kernels::cpu::uniform<T>(output + begin, words.data(), count, range, from);
  }
}

/// Fewer than 16 elements: pairs in double, the second of a pair waits in the generator.
double draw_normal(Generator& generator) {
  if (generator.cached_normal) {
    const double value = *generator.cached_normal;
    generator.cached_normal.reset();
    return value;
  }
  const double u1 = generator.uniform_double();
  const double u2 = generator.uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  generator.cached_normal = radius * std::sin(angle);
  return radius * std::cos(angle);
}

template <typename T>
void fill_normal(T* data, int64_t n, double mean, double std, Generator& generator) {
  constexpr int64_t kBlock = kernels::cpu::kNormalBlock;
  if (n < kBlock) {
    for (int64_t i = 0; i < n; ++i) {
      const double value = draw_normal(generator) * std + mean;
      if constexpr (sizeof(T) == 2) {
        data[i] = static_cast<T>(static_cast<float>(value));
      } else {
        data[i] = static_cast<T>(value);
      }
    }
    return;
  }
  using A = accumulate_t<T>;
  const T zero = static_cast<T>(A{0});
  const T one = static_cast<T>(A{1});
  const T typed_mean = static_cast<T>(static_cast<A>(mean));
  const T typed_std = static_cast<T>(static_cast<A>(std));
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    draw_uniform<T>(data + begin, count, one, zero, generator);
    kernels::cpu::normal_from_uniform<T>(data + begin, count / kBlock * kBlock, typed_mean,
                                         typed_std);
  }
  if (n % kBlock != 0) {  // the last 16 elements are drawn anew, as one block
    T* last = data + n - kBlock;
    draw_uniform<T>(last, kBlock, one, zero, generator);
    kernels::cpu::normal_from_uniform<T>(last, kBlock, typed_mean, typed_std);
  }
}

}  // namespace

void uniform_(Tensor& tensor, double from, double to, Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, from <= to && std::isfinite(from) && std::isfinite(to),
                      "uniform_: from ", from, " to ", to, ", expected finite bounds, from <= to");
  fill_in_place("uniform_", tensor, [&](const Tensor& host) {
    dispatch_floating("uniform_", host.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using A = accumulate_t<T>;
      const T low = static_cast<T>(static_cast<A>(from));
      const T high = static_cast<T>(static_cast<A>(to));
      const T range = static_cast<T>(static_cast<A>(high) - static_cast<A>(low));
      draw_uniform<T>(host.data<T>(), host.numel(), range, low, or_default(generator));
    });
  });
}

void normal_(Tensor& tensor, double mean, double std, Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, std >= 0.0, "normal_: std is ", std, ", expected at least 0");
  fill_in_place("normal_", tensor, [&](const Tensor& host) {
    dispatch_floating("normal_", host.dtype(), [&](auto zero) {
      using T = decltype(zero);
      fill_normal<T>(host.data<T>(), host.numel(), mean, std, or_default(generator));
    });
  });
}

void bernoulli_(Tensor& tensor, double p, Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, p >= 0.0 && p <= 1.0, "bernoulli_: p is ", p, ", expected 0 to 1");
  fill_in_place("bernoulli_", tensor, [&](const Tensor& host) {
    Generator& source = or_default(generator);
    std::array<double, kChunk> uniforms;
    for (int64_t begin = 0; begin < host.numel(); begin += kChunk) {
      const int64_t count = std::min(kChunk, host.numel() - begin);
      draw_uniform<double>(uniforms.data(), count, 1.0, 0.0, source);
      dispatch_all(host.dtype(), [&](auto zero) {
        using T = decltype(zero);
        T* output = host.data<T>() + begin;
        for (int64_t i = 0; i < count; ++i) {
          output[i] = static_cast<T>(uniforms[static_cast<size_t>(i)] < p ? 1.0f : 0.0f);
        }
      });
    }
  });
}

Tensor rand(const Shape& shape, DType dtype, Generator* generator) {
  Tensor result = empty(shape, dtype);
  uniform_(result, 0.0, 1.0, generator);
  return result;
}

Tensor randn(const Shape& shape, DType dtype, Generator* generator) {
  Tensor result = empty(shape, dtype);
  normal_(result, 0.0, 1.0, generator);
  return result;
}

}  // namespace lockstep
