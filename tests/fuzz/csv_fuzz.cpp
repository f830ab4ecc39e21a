// Fuzzes the CSV parser: any characters are a complete table of finite features and labels in
// range, or Error(BadData) with a message of one printable line. The first byte is the number of
// classes.
// Covers: core/data/csv.cpp
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/error.h"
#include "core/data/csv.h"

namespace {

void check(const lockstep::data::CsvTable& table, int64_t num_classes) {
  if (table.labels.empty() || table.num_features < 1) __builtin_trap();
  if (table.features.size() != table.labels.size() * static_cast<size_t>(table.num_features)) {
    __builtin_trap();
  }
  for (const float value : table.features) {
    if (!std::isfinite(value)) __builtin_trap();
  }
  const int64_t limit = num_classes > 0 ? num_classes : lockstep::data::kMaxClasses;
  for (const int64_t label : table.labels) {
    if (label < 0 || label >= limit) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int64_t num_classes = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    check(lockstep::data::parse_csv(text, "fuzz.csv", num_classes), num_classes);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::BadData) __builtin_trap();
    for (const char character : std::string_view(error.what())) {
      if (character < ' ' || character > '~') __builtin_trap();
    }
  }
  return 0;
}
