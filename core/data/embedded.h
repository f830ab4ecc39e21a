// Data that is part of the library's binary.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::data {

/// core/data/digits.csv.gz: 1797 lines of 64 pixels (0 to 16) and a label (0 to 9), gzipped.
std::span<const uint8_t> embedded_digits();

}  // namespace lockstep::data
