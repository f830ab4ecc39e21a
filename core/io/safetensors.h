// Named tensors in a file, in the safetensors format, which PyTorch programs read and write: a
// length, a JSON header (name, dtype, shape, place), the bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace lockstep::io {

/// As nn::Module::state_dict() returns them and load_state_dict() takes them.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// Writes a temporary file beside `path`, flushes it to the disk and renames it: `path` is at all
/// times the old file or the whole new one. Names must differ; metadata goes to "__metadata__".
/// throws Error(Io) naming the path and the system's reason
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {});

/// The tensors in the order of their bytes in the file, on the CPU. `metadata`, when given, gets
/// the file's "__metadata__".
/// throws Error(Io), or Error(BadData) naming file and tensor for anything that is not a complete
/// file of known dtypes whose tensors tile the bytes without gap or overlap
NamedTensors load_safetensors(const std::string& path, Metadata* metadata = nullptr);

/// The same from memory; `name` stands for the file in messages.
NamedTensors parse_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                               Metadata* metadata = nullptr);

}  // namespace lockstep::io
