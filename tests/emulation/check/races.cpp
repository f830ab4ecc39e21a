// Race detection. Within a kernel, threads are ordered by the barriers between them; operations and
// the host are ordered by clocks (Note [Clocks] in runtime/state.h).
#include "tests/emulation/check/races.h"

#include <mutex>
#include <set>
#include <string>

#include "tests/emulation/check/check.h"
#include "tests/emulation/runtime/symbols.h"

namespace lockstep::emulation {
namespace {

struct Known {
  uint32_t stream = 0;
  uint32_t sequence = 0;
  const char* name = "";
};
// By operation id; guarded by the kernel mutex.
std::vector<Known>& known_operations() {
  static auto* known = new std::vector<Known>;
  return *known;
}

struct Seen {
  std::mutex mutex;
  std::set<std::pair<uintptr_t, int>> places;
};
Seen& seen() {
  static auto* all = new Seen;
  return *all;
}

bool has_finished(const Clock& clock, const Known& operation) {
  return operation.stream < clock.size() && clock[operation.stream] >= operation.sequence;
}

bool ordered_in_kernel(const Access& before, const Access& now) {
  if (before.thread == kWholeOperation || now.thread == kWholeOperation) return true;
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.barrier != now.barrier) return true;
  return before.thread / 32 == now.thread / 32 && before.warp != now.warp;
}

bool is_ordered(const Access& before, const Current& now) {
  if (before.operation == 0) return true;  // there was none
  if (before.operation == kHostOperation) {
    return now.operation == nullptr || before.block <= now.operation->enqueued_at;
  }
  const Known& operation = known_operations()[before.operation];
  if (now.operation == nullptr) return has_finished(now.host_clock, operation);
  if (before.operation == now.access.operation) return ordered_in_kernel(before, now.access);
  return has_finished(*now.operation->after, operation);
}

// A program counter is kept as 32 bits; the rest is that of the program.
const void* whole_program_counter(uint32_t lower) {
  const auto here = reinterpret_cast<uintptr_t>(&is_first_report);
  return reinterpret_cast<const void*>((here & ~uintptr_t{0xffffffff}) | lower);
}

std::string to_string(const Access& access, bool write) {
  std::string text = write ? "write" : "read";
  if (access.atomic) text = "atomic " + text;
  if (access.operation == kHostOperation) {
    text += " by the host";
  } else {
    const Known& operation = known_operations()[access.operation];
    const std::string where = "operation " + std::to_string(operation.sequence) + " of stream " +
                              std::to_string(operation.stream) + ", " + operation.name;
    if (access.thread == kWholeOperation) {
      text += " by " + where;
    } else {
      text += " by thread " + std::to_string(access.thread) + " of block " +
              std::to_string(access.block) + " (" + where + ")";
    }
  }
  if (access.program_counter != 0) {
    text += " at " + source_line(whole_program_counter(access.program_counter));
  }
  return text;
}

void report_race(const Access& before, bool before_writes, const Current& now, bool writes,
                 uintptr_t address, uintptr_t program_counter) {
  const uintptr_t place =
      program_counter != 0 ? program_counter : uintptr_t{now.access.operation} << 20;
  if (!is_first_report(place, (before_writes ? 2 : 0) + (writes ? 1 : 0))) return;
  report("racecheck",
         to_string(now.access, writes) + "\n    is not ordered after the " +
             to_string(before, before_writes) +
             "\n    address: " + describe(reinterpret_cast<void*>(address)),
         cudaSuccess);
}

bool same_reader(const Access& a, const Access& b) {
  return a.operation == b.operation && a.thread == b.thread && a.block == b.block;
}

}  // namespace

void touch(Cell& cell, uint8_t bytes, bool write, const Current& now, uintptr_t address,
           uintptr_t program_counter) {
  const auto clashes = [&](const Access& before) {
    return (before.bytes & bytes) != 0 && !(before.atomic && now.access.atomic) &&
           !is_ordered(before, now);
  };
  if (clashes(cell.write)) {
    report_race(cell.write, true, now, write, address, program_counter);
  }
  if (write) {
    if (clashes(cell.read)) {
      report_race(cell.read, false, now, true, address, program_counter);
    } else if (clashes(cell.earlier_read)) {
      report_race(cell.earlier_read, false, now, true, address, program_counter);
    }
    cell.write = now.access;
    cell.write.bytes = bytes;
    cell.initialised |= bytes;
    return;
  }
  if (!same_reader(cell.read, now.access) || cell.read.bytes != bytes) {
    cell.earlier_read = cell.read;
  }
  cell.read = now.access;
  cell.read.bytes = bytes;
}

void remember_operation(const Operation& operation) {
  auto& known = known_operations();
  if (known.size() <= operation.id) known.resize(operation.id + 1024);
  known[operation.id] = {operation.stream, operation.sequence, operation.name};
}

bool is_first_report(uintptr_t place, int kind) {
  std::lock_guard lock(seen().mutex);
  return seen().places.insert({place, kind}).second;
}

void check_forget_reports() {
  std::lock_guard lock(seen().mutex);
  seen().places.clear();
}

}  // namespace lockstep::emulation
