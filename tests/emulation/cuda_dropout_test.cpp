// Dropout on emulated devices: the random words against Philox4x32-10 written from its description,
// which is checked against its authors' test vectors; the rest against the CPU.
#include <array>

#include "kernels/dropout.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

namespace {

using Block = std::array<uint32_t, 4>;

Block philox(std::array<uint32_t, 2> key, Block counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = 0xD2511F53ull * counter[0], product1 = 0xCD9E8D57ull * counter[2];
    const Block next = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                        static_cast<uint32_t>(product1),
                        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                        static_cast<uint32_t>(product0)};
    counter = next;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

uint32_t word(uint64_t seed, uint64_t offset, int64_t i) {
  const uint64_t counter = offset + static_cast<uint64_t>(i) / 4;
  return philox({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0,
                 0})[static_cast<size_t>(i % 4)];
}

}  // namespace

TEST_CASE("the tests' Philox gives its authors' known answers") {
  CHECK(philox({0, 0}, {0, 0, 0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffffu;
  CHECK(philox({ones, ones}, {ones, ones, ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE_TEMPLATE("dropout, forward and backward", T, LOCKSTEP_FLOATING) {
  const uint64_t seed = 0x123456789abcdef0u, offset = 0xfffffff0u;  // the counter's carry is used
  for (const int64_t n : kEdgeSizes) {
    for (const int64_t shift : {0, 1}) {
      for (const double keep : {0.7, 1.0}) {
        CAPTURE(n);
        CAPTURE(keep);
        const std::vector<T> input = random_values<T>(n + shift, 1);
        std::vector<T> want(input.size());
        std::vector<uint8_t> want_mask(input.size());
        // The CPU's kernel for the values: it keeps everything or nothing of an element.
        for (int64_t i = 0; i < n; ++i) {
          const size_t at = static_cast<size_t>(i + shift);
          want_mask[at] = word(seed, offset, i) < keep * 0x1p32 ? 1 : 0;
        }
        cpu::dropout_backward<T>(want.data() + shift, input.data() + shift,
                                 want_mask.data() + shift, n, keep, false);
        const DeviceArray<T> x(input), output(input);
        const DeviceArray<uint8_t> mask(std::vector<uint8_t>(input.size(), 7));
        on_stream([&](kernels::Stream stream) {
          cuda::dropout_forward<T>(output.data() + shift, mask.data() + shift, x.data() + shift, n,
                                   keep, seed, offset, stream);
        });
        std::vector<uint8_t> mask_values = mask.to_host();
        CHECK(std::vector<uint8_t>(mask_values.begin() + shift, mask_values.end()) ==
              std::vector<uint8_t>(want_mask.begin() + shift, want_mask.end()));
        const std::vector<T> values = output.to_host();
        CHECK(same(std::vector<T>(values.begin() + shift, values.end()),
                   std::vector<T>(want.begin() + shift, want.end())));
        for (const bool accumulate : {false, true}) {
          std::vector<T> want_grad = random_values<T>(n + shift, 2);
          const DeviceArray<T> grad_input(want_grad);
          cpu::dropout_backward<T>(want_grad.data() + shift, input.data() + shift,
                                   want_mask.data() + shift, n, keep, accumulate);
          on_stream([&](kernels::Stream stream) {
            cuda::dropout_backward<T>(grad_input.data() + shift, x.data() + shift,
                                      mask.data() + shift, n, keep, accumulate, stream);
          });
          CHECK(same(grad_input.to_host(), want_grad));
        }
      }
    }
  }
}
