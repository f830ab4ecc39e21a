// Where cells are.
#include "tests/emulation/check/shadow.h"

#include <sys/mman.h>

#include <cstring>

#include "tests/emulation/executor/executor.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/state.h"

namespace lockstep::emulation {
namespace {

constexpr uint64_t kShadowBase = 0x300000000000;
constexpr uint64_t kDeviceBytes = kArenaBytes * kMaxDevices;
constexpr uint64_t kShadowBytes = kDeviceBytes / 4 * sizeof(Cell);
constexpr size_t kPage = 4096;
constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

size_t cells_bytes(size_t nbytes) { return (nbytes / 4 + 2) * sizeof(Cell); }

char* map_shadow() {
  void* wanted = reinterpret_cast<void*>(kShadowBase);
  void* base =
      mmap(wanted, kShadowBytes, PROT_READ | PROT_WRITE, kPrivate | MAP_FIXED_NOREPLACE, -1, 0);
  if (base != wanted) fatal("cannot map the shadow of device memory");
  return static_cast<char*>(base);
}

}  // namespace

Cell* new_cells(size_t nbytes) {
  void* cells = mmap(nullptr, cells_bytes(nbytes), PROT_READ | PROT_WRITE, kPrivate, -1, 0);
  if (cells == MAP_FAILED) fatal("cannot map the shadow of host memory");
  return static_cast<Cell*>(cells);
}

void delete_cells(Cell* cells, size_t nbytes) { munmap(cells, cells_bytes(nbytes)); }

Cell* device_cell(uintptr_t address) {
  static char* const base = map_shadow();
  return reinterpret_cast<Cell*>(base) + (address - kArenaBase) / 4;
}

void clear_device_cells(uintptr_t begin, size_t nbytes) {
  auto* first = reinterpret_cast<char*>(device_cell(begin));
  auto* last = reinterpret_cast<char*>(device_cell(begin + nbytes + 3));
  const auto page_begin = (reinterpret_cast<uintptr_t>(first) + kPage - 1) / kPage * kPage;
  const auto page_end = reinterpret_cast<uintptr_t>(last) / kPage * kPage;
  if (page_end <= page_begin) {
    std::memset(first, 0, static_cast<size_t>(last - first));
    return;
  }
  auto* from = reinterpret_cast<char*>(page_begin);
  auto* to = reinterpret_cast<char*>(page_end);
  std::memset(first, 0, static_cast<size_t>(from - first));
  madvise(from, static_cast<size_t>(to - from), MADV_DONTNEED);
  std::memset(to, 0, static_cast<size_t>(last - to));
}

Cell* find_cell(std::vector<Area>& areas, uintptr_t address, Area** area) {
  for (Area& candidate : areas) {
    if (address < candidate.begin || address >= candidate.end) continue;
    if (area != nullptr) *area = &candidate;
    return candidate.cells + (address / 4 - candidate.begin / 4);
  }
  return nullptr;
}

std::vector<Area> make_shared_areas(const std::vector<SharedVariable>& variables) {
  std::vector<Area> areas;
  const DynamicShared arena = dynamic_shared_arena();
  const auto begin = reinterpret_cast<uintptr_t>(arena.begin);
  areas.push_back({begin, begin + arena.nbytes, new_cells(arena.nbytes), {}});
  if (variables.empty()) return areas;
  Area area{~uintptr_t{0}, 0, nullptr, {}};
  for (const SharedVariable& variable : variables) {
    const auto first = reinterpret_cast<uintptr_t>(variable.begin);
    area.begin = std::min(area.begin, first / 4 * 4);
    area.end = std::max(area.end, first + variable.nbytes);
  }
  area.cells = new_cells(area.end - area.begin);
  area.live.resize((area.end - area.begin) / 4 + 1);
  for (const SharedVariable& variable : variables) {
    const auto first = reinterpret_cast<uintptr_t>(variable.begin);
    for (uintptr_t p = first; p < first + variable.nbytes; ++p) {
      area.live[(p - area.begin) / 4] |= static_cast<uint8_t>(1u << p % 4);
    }
  }
  areas.push_back(std::move(area));
  return areas;
}

}  // namespace lockstep::emulation
