// The generator: seeding, bulk draws, and its state as bytes.
#include "core/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "kernels/random.h"

namespace lockstep {
namespace {

static_assert(Generator::kStateWords == kernels::cpu::kMt19937Words);

/// The saved state as bytes; the tag's low byte is its version.
struct SavedState {
  uint64_t tag = 0;
  uint64_t seed = 0;
  double cached_normal = 0;
  uint32_t has_cached_normal = 0;
  uint32_t next = 0;
  std::array<uint32_t, Generator::kStateWords> words{};
};
static_assert(sizeof(SavedState) == 32 + 4 * Generator::kStateWords, "no padding in saved bytes");

constexpr uint64_t kTag = 0x3139392d746d0001;

/// The recurrence uses only the highest bit of the first word: where that and all other words are
/// zero, every draw is zero for ever.
bool is_dead(std::span<const uint32_t> words) {
  if ((words[0] & 0x80000000u) != 0) return false;
  return std::all_of(words.begin() + 1, words.end(), [](uint32_t word) { return word == 0; });
}

}  // namespace

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (size_t i = 1; i < state_.size(); ++i) {
    const uint32_t previous = state_[i - 1];
    state_[i] = 1812433253u * (previous ^ (previous >> 30)) + static_cast<uint32_t>(i);
  }
  next_ = kStateWords;
  cached_normal.reset();
}

void Generator::refill() {
  kernels::cpu::mt19937_twist(state_.data());
  next_ = 0;
}

void Generator::random_fill(std::span<uint32_t> out) {
  while (!out.empty()) {
    if (next_ == kStateWords) refill();
    const size_t count = std::min(out.size(), static_cast<size_t>(kStateWords - next_));
    kernels::cpu::mt19937_temper(out.data(), state_.data() + next_, static_cast<int64_t>(count));
    next_ += static_cast<int>(count);
    out = out.subspan(count);
  }
}

std::vector<uint8_t> Generator::state() const {
  SavedState saved;
  saved.tag = kTag;
  saved.seed = seed_;
  saved.cached_normal = cached_normal.value_or(0.0);
  saved.has_cached_normal = cached_normal.has_value() ? 1 : 0;
  saved.next = static_cast<uint32_t>(next_);
  saved.words = state_;
  std::vector<uint8_t> bytes(sizeof saved);
  std::memcpy(bytes.data(), &saved, sizeof saved);
  return bytes;
}

void Generator::set_state(std::span<const uint8_t> state) {
  LOCKSTEP_CHECK_KIND(BadData, state.size() == sizeof(SavedState), "set_state: got ", state.size(),
                      " bytes, expected the ", sizeof(SavedState), " that state() returns");
  SavedState saved;
  std::memcpy(&saved, state.data(), sizeof saved);
  LOCKSTEP_CHECK_KIND(BadData, saved.tag == kTag,
                      "set_state: the bytes do not begin with the tag that state() writes");
  LOCKSTEP_CHECK_KIND(BadData, saved.next <= kStateWords, "set_state: the position is ", saved.next,
                      ", expected at most ", kStateWords);
  LOCKSTEP_CHECK_KIND(BadData, saved.has_cached_normal <= 1 && std::isfinite(saved.cached_normal),
                      "set_state: the cached normal is not a finite number");
  LOCKSTEP_CHECK_KIND(BadData, !is_dead(saved.words),
                      "set_state: all words are zero, which no seed leads to");
  seed_ = saved.seed;
  next_ = static_cast<int>(saved.next);
  state_ = saved.words;
  cached_normal.reset();
  if (saved.has_cached_normal == 1) cached_normal = saved.cached_normal;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

int64_t random_int64(Generator& generator) {
  return static_cast<int64_t>(generator.random64() & ~(uint64_t{1} << 63));
}

}  // namespace lockstep
