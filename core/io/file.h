// Whole files: read into memory, and replaced in one step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::io {

/// Every byte of a regular file.
/// throws Error(Io) naming the path and the system's reason
std::vector<uint8_t> read_file(const std::string& path);

/// Writes the parts one after the other to a temporary file beside `path`, flushes it to the disk
/// and renames it over `path`; on an error the temporary file is removed.
/// throws Error(Io) naming the path and the system's reason
void replace_file(const std::string& path, std::span<const std::span<const uint8_t>> parts);

}  // namespace lockstep::io
