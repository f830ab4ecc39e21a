// Labelled samples as text, one a line: numbers separated by commas, the last one the class.
// Parsed from characters, so that a fuzzer can call it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct CsvTable {
  std::vector<float> features;  ///< [N, num_features], row-major
  std::vector<int64_t> labels;  ///< [N]
  int64_t num_features = 0;
};

/// A first line without any number is a header; blank lines, blanks round a field, a byte order
/// mark and carriage returns are skipped. Features are finite decimal numbers, labels whole numbers
/// from 0 to num_classes - 1 (num_classes 0: to kMaxClasses - 1).
/// throws Error(BadData) naming `name`, line, column, what is there and what was expected
CsvTable parse_csv(std::string_view text, const std::string& name, int64_t num_classes = 0);

/// A guard against identifiers or values in the place of labels.
inline constexpr int64_t kMaxClasses = 1'000'000;

}  // namespace lockstep::data
