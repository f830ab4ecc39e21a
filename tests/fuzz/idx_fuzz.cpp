// Fuzzes the IDX parser: any bytes are an array that tiles them, or Error(BadData).
// Covers: core/data/idx.cpp
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto array = lockstep::data::parse_idx({data, size}, "fuzz.idx");
    const bool inside =
        array.values.data() >= data && array.values.data() + array.values.size() == data + size;
    if (!inside || array.shape.numel() != static_cast<int64_t>(array.values.size())) {
      __builtin_trap();
    }
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::BadData) __builtin_trap();
  }
  return 0;
}
