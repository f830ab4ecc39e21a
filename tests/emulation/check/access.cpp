// Judges every load and store that the compiler announced: bounds, alignment, initialisation, and
// through races.cpp the order.
#include "tests/emulation/check/access.h"

#include <atomic>
#include <mutex>
#include <string>

#include "tests/emulation/check/check.h"
#include "tests/emulation/check/races.h"
#include "tests/emulation/executor/executor.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/streams.h"
#include "tests/emulation/runtime/symbols.h"

// The bounds of the program's own constants and tables; the linker defines them.
extern "C" char lockstep_emulation_image_begin[] __asm__("__executable_start");
extern "C" char lockstep_emulation_image_end[] __asm__("_end");

namespace lockstep::emulation {
namespace {

// Kinds of reports beside the four of races.cpp.
enum Kind { kNoPeer = 10, kNotDevice, kMisaligned, kDynamicBounds, kBounds, kUninitialised, kHost };

struct Pinned {
  std::vector<Area> areas;  ///< guarded by the kernel mutex
  // Bounds of all of them, for a quick answer; they only grow.
  std::atomic<uintptr_t> begin{~uintptr_t{0}};
  std::atomic<uintptr_t> end{0};
};
Pinned& pinned() {
  static auto* memory = new Pinned;
  return *memory;
}
thread_local std::vector<Area> shared_areas;
uint32_t generation = 1;  // counts blocks: cells of shared memory of another block are void
int64_t bytes_read = 0;
int64_t bytes_written = 0;

constexpr uint32_t kGenerationMask = 0xffffff;
constexpr size_t kWidestAccess = 16;

bool initialisation_matters() {
  static const bool on = setting("LOCKSTEP_EMU_INITCHECK", 1) != 0;
  return on;
}

bool is_in_image(uintptr_t address) {
  return address >= reinterpret_cast<uintptr_t>(lockstep_emulation_image_begin) &&
         address < reinterpret_cast<uintptr_t>(lockstep_emulation_image_end);
}

std::string words(uintptr_t address) { return describe(reinterpret_cast<void*>(address)); }

void tell(const char* kind, const std::string& message, uintptr_t program_counter,
          cudaError_t error, Kind number) {
  if (!is_first_report(program_counter, number)) return;
  report(kind, message + "\n    at " + source_line(reinterpret_cast<void*>(program_counter)),
         error);
}

// What a GPU would stop the kernel for.
[[noreturn]] void fail(const std::string& message, uintptr_t program_counter, cudaError_t error,
                       Kind number) {
  tell("memcheck", message, program_counter, error, number);
  abandon_kernel();
}

struct Target {
  Cell* cell;
  Area* shared;  ///< null: not shared memory
};

Target find_target(uintptr_t address, bool write, uintptr_t program_counter) {
  const int device = device_of_address(reinterpret_cast<void*>(address));
  if (device >= 0) {
    const int own = current_operation->device;
    if (!peer_access_enabled(own, device)) {
      fail("device " + std::to_string(own) + " touches " + words(address) + " without peer access",
           program_counter, cudaErrorIllegalAddress, kNoPeer);
    }
    return {device_cell(address), nullptr};
  }
  Area* area = nullptr;
  if (Cell* cell = find_cell(shared_areas, address, &area)) return {cell, area};
  if (Cell* cell = find_cell(pinned().areas, address)) return {cell, nullptr};
  if (is_in_image(address)) return {nullptr, nullptr};
  fail(std::string(write ? "write to " : "read of ") + words(address) + " in device code",
       program_counter, cudaErrorIllegalAddress, kNotDevice);
}

// A cell of shared memory starts afresh in each block.
void renew_shared(Cell& cell, const Area& area, uintptr_t address, uintptr_t program_counter) {
  if (cell.generation != (generation & kGenerationMask)) {
    cell = {};
    cell.generation = generation & kGenerationMask;
    cell.live = area.live.empty() ? 15 : area.live[(address - area.begin) / 4];
  }
  if (!area.live.empty()) return;
  const auto begin = reinterpret_cast<uintptr_t>(current_block.dynamic_shared);
  if (address >= begin && address < begin + current_block.dynamic_bytes) return;
  fail("out of bounds: " + words(address), program_counter, cudaErrorIllegalAddress,
       kDynamicBounds);
}

void count_traffic(size_t nbytes, bool write) {
  (write ? bytes_written : bytes_read) += static_cast<int64_t>(nbytes);
}

void device_access(uintptr_t address, size_t nbytes, bool write, bool atomic,
                   uintptr_t program_counter) {
  Unchecked unchecked;
  if (on_fiber_stack(reinterpret_cast<void*>(address))) return;
  const Target target = find_target(address, write, program_counter);
  if (target.cell == nullptr) return;
  if (nbytes <= kWidestAccess && address % nbytes != 0) {
    fail("misaligned " + std::to_string(nbytes) + "-byte access at " + words(address),
         program_counter, cudaErrorMisalignedAddress, kMisaligned);
  }
  if (target.shared == nullptr) count_traffic(nbytes, write);
  const Epoch epoch = current_epoch();
  const Current now{{current_operation->id, epoch.block, static_cast<uint32_t>(program_counter),
                     epoch.thread, epoch.barrier, epoch.warp, 0, atomic},
                    current_operation,
                    {}};
  for_each_cell(target.cell, address, nbytes, [&](Cell& cell, uintptr_t p, uint8_t bytes) {
    if (target.shared != nullptr) renew_shared(cell, *target.shared, p, program_counter);
    if ((cell.live & bytes) != bytes) {
      fail("out of bounds " + std::string(write ? "write" : "read") + " of " +
               std::to_string(nbytes) + " bytes: " + words(p),
           program_counter, cudaErrorIllegalAddress, kBounds);
    }
    if (!write && initialisation_matters() && (cell.initialised & bytes) != bytes) {
      tell("initcheck", "read of uninitialised " + words(p), program_counter, cudaSuccess,
           kUninitialised);
    }
    touch(cell, bytes, write, now, p, program_counter);
  });
}

Current whole_operation() {
  return {{current_operation->id, 0, 0, kWholeOperation, 0, 0, 0, 0}, current_operation, {}};
}

void host_access(uintptr_t address, size_t nbytes, bool write, uintptr_t program_counter) {
  if (device_of_address(reinterpret_cast<void*>(address)) >= 0) {
    tell("memcheck", "HOST code touches " + words(address), program_counter, cudaSuccess, kHost);
  }
  if (address < pinned().begin || address >= pinned().end) return;
  std::lock_guard lock(kernel_mutex());
  Cell* cell = find_cell(pinned().areas, address);
  if (cell == nullptr) return;
  Current now;
  if (current_operation != nullptr) {  // a host function in a stream
    remember_operation(*current_operation);
    now = whole_operation();
  } else {
    uint64_t time = 0;
    now = {{kHostOperation, 0, 0, kWholeOperation, 0, 0, 0, 0}, nullptr, host_clock(&time)};
    now.access.block = static_cast<uint32_t>(time);
  }
  now.access.program_counter = static_cast<uint32_t>(program_counter);
  for_each_cell(cell, address, nbytes, [&](Cell& c, uintptr_t p, uint8_t bytes) {
    touch(c, bytes, write, now, p, program_counter);
  });
}

Cell* operation_cell(uintptr_t address) {
  if (device_of_address(reinterpret_cast<void*>(address)) >= 0) return device_cell(address);
  return find_cell(pinned().areas, address);
}

}  // namespace

bool check_is_linked() { return true; }

void check_access(const void* address, size_t nbytes, bool write, bool atomic,
                  const void* return_address) {
  // The address of the call, not of what follows it.
  const auto program_counter = reinterpret_cast<uintptr_t>(return_address) - 1;
  const auto value = reinterpret_cast<uintptr_t>(address);
  if (in_device_code()) {
    if (current_thread != nullptr && current_thread->checked) {
      device_access(value, nbytes, write, atomic, program_counter);
    }
    return;
  }
  const bool of_device = value >= kArenaBase && value < kArenaBase + kArenaBytes * kMaxDevices;
  if (!of_device && (value < pinned().begin || value >= pinned().end)) return;
  // The emulator's own work on the thread of a stream is announced by check_range.
  if (current_operation != nullptr && !current_operation->is_host_function) return;
  host_access(value, nbytes, write, program_counter);
}

void check_alloc(const void* begin, size_t nbytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (device_of_address(begin) >= 0) {
    // Nobody knows the memory yet, so no lock is needed.
    for_each_cell(device_cell(address), address, nbytes,
                  [](Cell& cell, uintptr_t, uint8_t bytes) { cell.live = bytes & 15; });
    return;
  }
  std::lock_guard lock(kernel_mutex());
  Area area{address, address + nbytes, new_cells(nbytes), {}};
  for_each_cell(area.cells, address, nbytes, [](Cell& cell, uintptr_t, uint8_t bytes) {
    cell.live = bytes & 15;
    cell.initialised = bytes & 15;  // by code that may not be instrumented: not followed
  });
  pinned().areas.push_back(std::move(area));
  pinned().begin = std::min<uintptr_t>(pinned().begin, address);
  pinned().end = std::max<uintptr_t>(pinned().end, address + nbytes);
}

void check_free(const void* begin, size_t nbytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (device_of_address(begin) >= 0) {
    // Under the device's mutex, so not under the kernel mutex: who still uses it has a bug anyway.
    clear_device_cells(address, nbytes);
    return;
  }
  std::lock_guard lock(kernel_mutex());
  std::erase_if(pinned().areas, [&](const Area& area) {
    if (area.begin != address) return false;
    delete_cells(area.cells, nbytes);
    return true;
  });
}

void check_range(const void* begin, size_t nbytes, RangeAccess access) {
  if (current_operation == nullptr) return;
  remember_operation(*current_operation);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  Cell* cell = operation_cell(address);
  if (cell == nullptr) return;
  const bool write = access >= RangeAccess::Write;
  const bool must_be_initialised =
      access == RangeAccess::ReadInitialised && initialisation_matters();
  const Current now = whole_operation();
  const std::string name = current_operation->name;
  bool in_bounds = true;
  for_each_cell(cell, address, nbytes, [&](Cell& c, uintptr_t p, uint8_t bytes) {
    if (!in_bounds) return;
    if ((c.live & bytes) != bytes) {
      in_bounds = false;
      report("memcheck", name + (write ? " writes " : " reads ") + words(p),
             cudaErrorIllegalAddress);
      return;
    }
    if (must_be_initialised && (c.initialised & bytes) != bytes &&
        is_first_report(current_operation->id, kUninitialised)) {
      report("initcheck", name + " reads uninitialised " + words(p), cudaSuccess);
    }
    const uint32_t initialised = c.initialised;
    touch(c, bytes, write, now, p, 0);
    if (access == RangeAccess::Allocate) c.initialised = initialised & 15;
  });
}

void check_copy_initialised(const void* destination, const void* source, size_t nbytes) {
  const auto to = reinterpret_cast<uintptr_t>(destination);
  const auto from = reinterpret_cast<uintptr_t>(source);
  for (size_t i = 0; i < nbytes; ++i) {
    const Cell& source_cell = *device_cell(from + i);
    if ((source_cell.initialised >> (from + i) % 4 & 1u) != 0) continue;
    device_cell(to + i)->initialised &= ~(1u << (to + i) % 4) & 15u;
  }
}

void check_kernel_start(const std::vector<SharedVariable>& variables) {
  remember_operation(*current_operation);
  if (shared_areas.size() == (variables.empty() ? 1u : 2u)) return;
  shared_areas = make_shared_areas(variables);
}

void check_kernel_end() {
  count(&Counters::kernel_bytes_read, bytes_read);
  count(&Counters::kernel_bytes_written, bytes_written);
  bytes_read = bytes_written = 0;
}

void check_block_start() { ++generation; }

void check_atomic(const void* address, unsigned nbytes, const void* program_counter) {
  check_access(address, nbytes, false, true, program_counter);
  check_access(address, nbytes, true, true, program_counter);
}

}  // namespace lockstep::emulation
