// Fuzzes the reader of weight files: any bytes are tensors that tile the data, or Error(BadData).
// Covers: core/io/safetensors.cpp
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    lockstep::io::Metadata metadata;
    size_t nbytes = 0;
    for (const auto& [name, tensor] :
         lockstep::io::parse_safetensors({data, size}, "fuzz.safetensors", &metadata)) {
      nbytes += static_cast<size_t>(tensor.nbytes());
    }
    if (nbytes > size) __builtin_trap();
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::BadData) __builtin_trap();
  }
  return 0;
}
