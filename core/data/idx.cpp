// IDX: every extent is checked against the bytes that are there before anything is computed of it.
#include "core/data/idx.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace lockstep::data {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kMaxIdxDims = 4;
constexpr uint64_t kMaxElements = uint64_t{1} << 40;

uint32_t big_endian(std::span<const uint8_t> bytes, size_t offset) {
  return (uint32_t{bytes[offset]} << 24) | (uint32_t{bytes[offset + 1]} << 16) |
         (uint32_t{bytes[offset + 2]} << 8) | uint32_t{bytes[offset + 3]};
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name) {
  LOCKSTEP_CHECK_KIND(BadData, bytes.size() >= 4, name, ": ", bytes.size(),
                      " bytes, too short for an IDX file; copy it again");
  LOCKSTEP_CHECK_KIND(BadData, bytes[0] == 0 && bytes[1] == 0, name, ": begins with the bytes ",
                      int{bytes[0]}, " ", int{bytes[1]},
                      ", expected 0 0: this is no IDX file; check the path");
  LOCKSTEP_CHECK_KIND(BadData, bytes[2] == kUnsignedByte, name, ": byte 2, the element type, is ",
                      int{bytes[2]}, ", expected 8 (unsigned byte); convert the file");
  const size_t dims = bytes[3];
  LOCKSTEP_CHECK_KIND(BadData, dims >= 1 && dims <= kMaxIdxDims, name,
                      ": byte 3, the number of dimensions, is ", dims, ", expected 1 to ",
                      kMaxIdxDims);
  const size_t header = 4 + 4 * dims;
  LOCKSTEP_CHECK_KIND(BadData, bytes.size() >= header, name, ": ends at byte ", bytes.size(),
                      ", inside its header of ", header, " bytes; copy it again");
  const size_t rest = bytes.size() - header;
  std::array<int64_t, kMaxIdxDims> extents{};
  uint64_t count = 1;
  uint64_t elements = 1;
  for (size_t i = 0; i < dims; ++i) {
    const uint32_t extent = big_endian(bytes, 4 + 4 * i);
    extents[i] = extent;
    // Checked by division, and as if an empty extent were 1: later products cannot overflow either.
    LOCKSTEP_CHECK_KIND(BadData, extent <= kMaxElements / elements, name, ": extent ", i,
                        " at byte ", 4 + 4 * i, " is ", extent,
                        ", more than any file holds; the header is corrupt, copy the file again");
    elements *= std::max(extent, uint32_t{1});
    count *= extent;
  }
  const Shape shape(std::span<const int64_t>(extents.data(), dims));
  LOCKSTEP_CHECK_KIND(BadData, count == rest, name, ": the header says ", shape, ", ", count,
                      " bytes, but ", rest, " follow it: the file is ",
                      rest < count ? "truncated" : "longer than it should be", "; copy it again");
  return {shape, bytes.subspan(header)};
}

}  // namespace lockstep::data
