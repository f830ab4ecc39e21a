// The shadow memory: 64 bytes for every 4 bytes that device code may touch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/emulation/runtime/symbols.h"

namespace lockstep::emulation {

inline constexpr uint32_t kHostOperation = 0xffffffffu;
inline constexpr uint16_t kWholeOperation = 0xffff;  // a thread number: a copy, a library call

/// One access. By the host: operation = kHostOperation, block = the host's time.
struct Access {
  uint32_t operation;
  uint32_t block;
  uint32_t program_counter;  ///< its lower half
  uint16_t thread;
  uint16_t barrier;
  uint16_t warp;
  uint8_t bytes;  ///< which of the 4, as bits
  uint8_t atomic;
};

/// The last write and the last two reads are enough: a later writer differs from one of the two.
struct Cell {
  Access write;
  Access read;
  Access earlier_read;
  uint32_t generation : 24;  ///< of shared memory: of which block this is
  uint32_t initialised : 4;
  uint32_t live : 4;
};
static_assert(sizeof(Cell) == 64);

/// Which bytes of the cell at `address` the n bytes from there on cover.
inline uint8_t cell_bytes(uintptr_t address, size_t n) {
  const size_t first = address % 4;
  const size_t count = std::min<size_t>(n, 4 - first);
  return static_cast<uint8_t>(((1u << count) - 1) << first);
}

/// Calls visit(cell, address, bytes) for each cell of a range.
template <typename F>
void for_each_cell(Cell* cell, uintptr_t begin, size_t nbytes, F visit) {
  const uintptr_t end = begin + nbytes;
  for (uintptr_t p = begin; p < end; p = (p / 4 + 1) * 4, ++cell) {
    visit(*cell, p, cell_bytes(p, end - p));
  }
}

/// A piece of memory outside of the devices that has cells of its own.
struct Area {
  uintptr_t begin;
  uintptr_t end;
  Cell* cells;
  std::vector<uint8_t> live;  ///< of shared variables: which bytes of each cell belong to one
};

/// Cells that are all zero, from the system; they cost nothing until they are touched.
Cell* new_cells(size_t nbytes);
void delete_cells(Cell* cells, size_t nbytes);
/// The cell of an address of a device.
Cell* device_cell(uintptr_t address);
/// Forgets a range of device memory; large ones by giving pages back.
void clear_device_cells(uintptr_t begin, size_t nbytes);

/// The area and cell of an address, or null.
Cell* find_cell(std::vector<Area>& areas, uintptr_t address, Area** area = nullptr);

/// One area for the static variables, one for dynamic shared memory; they belong to the thread that
/// runs kernels.
std::vector<Area> make_shared_areas(const std::vector<SharedVariable>& variables);

}  // namespace lockstep::emulation
