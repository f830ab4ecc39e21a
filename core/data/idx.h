// The IDX format of MNIST: 0, 0, type, dimensions; big-endian extents; the elements. Parsed from
// bytes, so that a fuzzer can call it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"

namespace lockstep::data {

struct IdxArray {
  Shape shape;
  std::span<const uint8_t> values;  ///< row-major, inside the bytes that were parsed
};

/// Unsigned bytes of one to four dimensions.
/// throws Error(BadData) naming `name`, the offset, what is there and what was expected
IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace lockstep::data
