// Gzipped bytes. Input is untrusted: every way it can be broken is an error that says where.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::io {

/// More than any data set that is held in memory needs; a bound on what a small file can make of
/// itself.
inline constexpr int64_t kMaxUnpackedBytes = int64_t{1} << 32;

/// True if the bytes begin as a gzip file does.
bool is_gzip(std::span<const uint8_t> bytes);

/// The unpacked bytes of all members.
/// throws Error(BadData) naming `name` when they are truncated, corrupt, followed by something
/// else, or unpack to more than max_nbytes
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& name,
                            int64_t max_nbytes = kMaxUnpackedBytes);

/// The file's bytes, unpacked when it is gzipped.
std::vector<uint8_t> read_file_or_gzip(const std::string& path);

}  // namespace lockstep::io
