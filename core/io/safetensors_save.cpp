// Writing safetensors: tensors lie in the order given, each aligned to its element.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/io/file.h"
#include "core/io/safetensors.h"

namespace lockstep::io {
namespace {

const char* dtype_text(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "F32";
    case DType::Float64:
      return "F64";
    case DType::Float16:
      return "F16";
    case DType::BFloat16:
      return "BF16";
    case DType::Int64:
      return "I64";
    case DType::UInt8:
      return "U8";
  }
  return "?";
}

std::span<const uint8_t> bytes_of(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.raw_data()), static_cast<size_t>(tensor.nbytes())};
}

/// Wide elements first, so that every tensor is aligned to its own size whatever the others are.
NamedTensors aligned_order(const NamedTensors& given) {
  NamedTensors tensors;
  std::set<std::string> names{"__metadata__"};
  for (const auto& [name, tensor] : given) {
    LOCKSTEP_CHECK(names.insert(name).second, "save_safetensors: the name \"", name,
                   "\" is given twice or reserved");
    tensors.emplace_back(name, tensor.to(kCPU));
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return element_size(a.second.dtype()) > element_size(b.second.dtype());
  });
  return tensors;
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& given,
                      const Metadata& metadata) {
  const NamedTensors tensors = aligned_order(given);
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t position = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int64_t> extents(tensor.shape().begin(), tensor.shape().end());
    header[name] = {{"dtype", dtype_text(tensor.dtype())},
                    {"shape", extents},
                    {"data_offsets", {position, position + tensor.nbytes()}}};
    position += tensor.nbytes();
  }
  std::string text = header.empty() ? "{}"
                                    : header.dump(-1, ' ', false,
                                                  nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data begin at a multiple of 8

  std::array<uint8_t, 8> length{};
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<uint8_t>(text.size() >> (8 * i) & 0xff);
  }
  std::vector<std::span<const uint8_t>> pieces{
      length, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}};
  for (const auto& [name, tensor] : tensors) pieces.push_back(bytes_of(tensor));
  replace_file(path, pieces);
}

}  // namespace lockstep::io
