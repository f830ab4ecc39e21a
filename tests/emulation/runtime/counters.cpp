// The process's counters and the launches of each kernel.
#include "tests/emulation/runtime/counters.h"

#include <map>
#include <mutex>

#include "tests/emulation/runtime/symbols.h"

namespace lockstep::emulation {
namespace {

struct Totals {
  Counters values;
  std::mutex mutex;
  std::map<const void*, int64_t> launches;
};
Totals& totals() {
  static auto* all = new Totals;  // threads of streams outlive main
  return *all;
}

// Every counter, for the arithmetic below.
constexpr int64_t Counters::*kFields[] = {
    &Counters::launches,
    &Counters::library_calls,
    &Counters::copies,
    &Counters::bytes_to_device,
    &Counters::bytes_to_host,
    &Counters::bytes_on_device,
    &Counters::bytes_set,
    &Counters::synchronisations,
    &Counters::mallocs,
    &Counters::frees,
    &Counters::host_mallocs,
    &Counters::async_mallocs,
    &Counters::async_frees,
    &Counters::pool_growths,
    &Counters::pool_growth_bytes,
    &Counters::pool_shrinks,
    &Counters::event_records,
    &Counters::event_waits,
    &Counters::barriers,
    &Counters::warp_collectives,
    &Counters::kernel_bytes_read,
    &Counters::kernel_bytes_written,
    &Counters::library_bytes_read,
    &Counters::library_bytes_written,
};
static_assert(sizeof(Counters) == sizeof(kFields) / sizeof(kFields[0]) * sizeof(int64_t));

}  // namespace

void count(int64_t Counters::*field, int64_t amount) {
  __atomic_fetch_add(&(totals().values.*field), amount, __ATOMIC_RELAXED);
}

void count_launch(const void* kernel) {
  count(&Counters::launches);
  std::lock_guard lock(totals().mutex);
  ++totals().launches[kernel];
}

Counters counters() {
  Counters now;
  for (auto field : kFields) {
    now.*field = __atomic_load_n(&(totals().values.*field), __ATOMIC_RELAXED);
  }
  return now;
}

Counters operator-(const Counters& after, const Counters& before) {
  Counters difference;
  for (auto field : kFields) difference.*field = after.*field - before.*field;
  return difference;
}

std::vector<std::pair<std::string, int64_t>> kernel_launches() {
  std::lock_guard lock(totals().mutex);
  std::vector<std::pair<std::string, int64_t>> named;
  for (const auto& [kernel, launches] : totals().launches) {
    named.emplace_back(function_name(kernel), launches);
  }
  return named;
}

}  // namespace lockstep::emulation
