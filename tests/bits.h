// Exact comparison with recorded values: by the bits of each, or by a checksum of very many.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace lockstep::test {

inline std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

inline std::vector<uint32_t> bits_of(const Tensor& tensor) {
  return bits_of(tensor.to_vector<float>());
}

/// CRC-32 as in zlib and Python's binascii, of the bytes as they lie in memory.
inline uint32_t crc32(const void* data, size_t nbytes) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t crc = ~0u;
  for (size_t i = 0; i < nbytes; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (-(crc & 1u) & 0xedb88320u);
  }
  return ~crc;
}

inline uint32_t crc32(const Tensor& tensor) {
  return crc32(tensor.raw_data(), static_cast<size_t>(tensor.nbytes()));
}

}  // namespace lockstep::test
