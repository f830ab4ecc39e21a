// Initial weights against values recorded from PyTorch, seed 0, on both paths; and what the
// formulas promise about bounds and moments.
#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/nn/init.h"
#include "core/nn/layers.h"
#include "core/random.h"
#include "kernels/erfinv.h"
#include "tests/bits.h"
#include "tests/both_paths.h"

namespace lockstep::test {
namespace {

using Bits = std::vector<uint32_t>;

Bits first_bits(const Tensor& tensor, size_t count) {
  Bits bits = bits_of(tensor);
  bits.resize(count);
  return bits;
}

}  // namespace

TEST_CASE("Linear draws its weight, then its bias") {
  manual_seed(0);
  const nn::Linear linear(4, 3);
  CHECK(bits_of(linear.weight) == Bits{0xbb755400, 0x3e89545e, 0xbed2b316, 0xbebc6680, 0xbe4532f4,
                                       0x3e094bec, 0xbc224f40, 0x3ecaface, 0xbd35bf70, 0x3e077b4c,
                                       0xbe1abbac, 0xbdc94870});
  CHECK(bits_of(linear.bias) == Bits{0xbef491b8, 0xbea98b52, 0xbe530ee8});
}

TEST_CASE("a multilayer perceptron's first and last values") {
  manual_seed(0);
  const nn::Linear first(784, 256);
  const nn::Linear second(256, 10);
  CHECK(first_bits(first.weight, 4) ==
        by_path(Bits{0xb98c3000, 0x3c9cf2b5, 0xbcf0ccac, 0xbcd75093},
                Bits{0xb98c3000, 0x3c9cf2b6, 0xbcf0ccac, 0xbcd75093}));
  CHECK(first_bits(first.bias, 2) ==
        by_path(Bits{0xbc3ffbee, 0x3c596a17}, Bits{0xbc3ffbee, 0x3c596a18}));
  CHECK(first_bits(second.weight, 2) == Bits{0xbc7bd890, 0x3c1e87b8});
  CHECK(bits_of(second.bias)[9] == 0x3c76b810);
}

TEST_CASE("a convolution's weight, as Kaiming's uniform with the slope sqrt(5)") {
  manual_seed(0);
  Tensor weight = empty({2, 1, 3, 3});
  nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
  CHECK(bits_of(weight) ==
        by_path(Bits{0xbb238d56, 0x3e371b28, 0xbe8c7764, 0xbe7b3356, 0xbe03774e, 0x3db70fe6,
                     0xbbd869ab, 0x3e8751df, 0xbcf25496, 0x3db4a466, 0xbdce4f90, 0xbd86304b,
                     0xbea30bd0, 0xbe620f18, 0xbe0cb49b, 0x3c4a4eab, 0x3e06f0eb, 0x3e4ccecb},
                Bits{0xbb238d80, 0x3e371b2a, 0xbe8c7764, 0xbe7b3356, 0xbe03774e, 0x3db70fe4,
                     0xbbd869c0, 0x3e8751df, 0xbcf25490, 0x3db4a464, 0xbdce4f90, 0xbd86304c,
                     0xbea30bd0, 0xbe620f18, 0xbe0cb49b, 0x3c4a4ea0, 0x3e06f0ea, 0x3e4cceca}));
}

TEST_CASE("Embedding is a standard normal") {
  manual_seed(0);
  const nn::Embedding embedding(5, 4);
  manual_seed(0);
  CHECK(bits_of(embedding.weight) == bits_of(randn({5, 4})));
}

TEST_CASE("Xavier's uniform and Kaiming's normal") {
  manual_seed(0);
  Tensor weight = empty({3, 4});
  nn::init::xavier_uniform_(weight);
  CHECK(first_bits(weight, 4) == by_path(Bits{0xbbe32135, 0x3efe48f2, 0xbf4311e4, 0xbf2e6cc4},
                                         Bits{0xbbe32100, 0x3efe48f0, 0xbf4311e4, 0xbf2e6cc4}));
  manual_seed(0);
  nn::init::kaiming_normal_(weight);
  CHECK(first_bits(weight, 4) == Bits{0x3f8b799d, 0xbe547719, 0xbfc53396, 0x3ecdcb4a});
}

TEST_CASE("truncated normals") {
  manual_seed(0);
  Tensor weight = empty({4});
  nn::init::trunc_normal_(weight, 0.0, 0.02);
  CHECK(bits_of(weight) == by_path(Bits{0xb944c926, 0x3c7030c6, 0xbcdd3719, 0xbcb6fbd6},
                                   Bits{0xb944c926, 0x3c7030c6, 0xbcdd3718, 0xbcb6fbd7}));
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    Tensor many = empty({20'000}, dtype);
    nn::init::trunc_normal_(many, 1.0, 2.0, 0.5, 3.0);
    for (const double value : many.to(DType::Float64).to_vector<double>()) {
      CHECK((value >= 0.5 && value <= 3.0));
    }
  }
}

TEST_CASE("erfinv is the inverse of erf") {
  for (const CpuCapability path : {CpuCapability::Default, CpuCapability::Avx2}) {
    for (double y = -0.999; y < 1.0; y += 0.001) {
      double x = y;
      kernels::cpu::erfinv(&x, 1, path);
      // A relative error e of x moves erf by |x| erf'(x) e, at most 0.49 e; erf itself rounds too.
      CHECK(std::abs(std::erf(x) - y) <= 4 * 0x1p-53);
    }
    double one = 1.0;
    kernels::cpu::erfinv(&one, 1, path);
    CHECK(std::isinf(one));
  }
}

TEST_CASE("bounds and fans") {
  const Tensor weight = empty({6, 5, 2, 3});
  CHECK(nn::init::fan_in(weight) == 30);
  CHECK(nn::init::fan_out(weight) == 36);
  CHECK_THROWS_AS(nn::init::fan_in(empty({6})), Error);
  manual_seed(0);
  Tensor drawn = empty({100, 50});
  nn::init::kaiming_uniform_(drawn, 1.0);  // gain 1
  const double bound = std::sqrt(3.0 / 50.0);
  double largest = 0;
  for (const float value : drawn.to_vector<float>())
    largest = std::max(largest, std::abs(double{value}));
  CHECK(largest <= bound * (1 + 0x1p-23));
  CHECK(largest > bound * 0.99);  // 5000 draws all below 0.99 of the bound: probability 1e-22
}

TEST_CASE("bad arguments are refused") {
  Tensor weight = empty({4});
  CHECK_THROWS_AS(nn::init::trunc_normal_(weight, 0.0, 1.0, 2.0, -2.0), Error);
  CHECK_THROWS_AS(nn::init::trunc_normal_(weight, 0.0, 0.0), Error);
  Tensor half = empty({4}, DType::Float16);
  CHECK_THROWS_AS(nn::init::trunc_normal_(half), Error);
}

TEST_CASE("all of it on the portable path") {
  if (!is_avx2_path()) {
    MESSAGE("skipped: this process runs the portable path already");
    return;
  }
  CHECK(passes_on_portable_path("all of it on the portable path"));
}

}  // namespace lockstep::test
