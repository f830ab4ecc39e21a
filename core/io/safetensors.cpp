// Reading safetensors: every number of the header is checked against the file before it is used.
#include "core/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/io/file.h"

namespace lockstep::io {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = uint64_t{100} << 20;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

struct Range {
  uint64_t begin;
  uint64_t end;
};

[[noreturn]] void refuse(const std::string& name, std::string reason) {
  // The reason quotes the file, whose names may hold line ends.
  std::replace_if(
      reason.begin(), reason.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  LOCKSTEP_THROW(BadData, name, ": ", reason, "; expected a complete safetensors file");
}

std::optional<DType> dtype_from(const std::string& text) {
  if (text == "F32") return DType::Float32;
  if (text == "F64") return DType::Float64;
  if (text == "F16") return DType::Float16;
  if (text == "BF16") return DType::BFloat16;
  if (text == "I64") return DType::Int64;
  if (text == "U8") return DType::UInt8;
  return std::nullopt;
}

uint64_t little_endian(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

Json parse_header(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) refuse(name, concat("only ", bytes.size(), " bytes"));
  const uint64_t length = little_endian(bytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    refuse(name, concat("its header claims ", length, " bytes, the file has ", bytes.size()));
  }
  const auto first = bytes.begin() + kLengthBytes;
  // Depth first, by callback: the header is three levels deep, and a deeper one could exhaust the
  // stack when it is destroyed.
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > 4;
    return !too_deep;
  };
  Json header = Json::parse(first, first + static_cast<std::ptrdiff_t>(length), watch,
                            /*allow_exceptions=*/false);
  if (too_deep || header.is_discarded() || !header.is_object()) {
    refuse(name, "its header is not a JSON object");
  }
  return header;
}

Shape parse_shape(const Json& entry, const std::string& name, const std::string& key) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array() || shape->size() > Shape::kMaxDims) {
    refuse(name,
           concat("tensor \"", key, "\" has no shape of at most ", Shape::kMaxDims, " extents"));
  }
  std::vector<int64_t> extents;
  for (const Json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > uint64_t{1} << 48) {
      refuse(name, concat("tensor \"", key, "\" has an extent that is no whole number below 2^48"));
    }
    extents.push_back(extent.get<int64_t>());
  }
  try {
    return Shape(extents);
  } catch (const Error& error) {
    refuse(name, concat("tensor \"", key, "\": ", error.what()));
  }
}

Range parse_range(const Json& entry, const std::string& name, const std::string& key) {
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    refuse(name, concat("tensor \"", key, "\" has no pair of data_offsets"));
  }
  return {(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
}

struct Entry {
  std::string key;
  DType dtype;
  Shape shape;
  Range range;
};

Entry parse_entry(const std::string& key, const Json& json, uint64_t data_bytes,
                  const std::string& name) {
  if (!json.is_object()) refuse(name, concat("\"", key, "\" does not describe a tensor"));
  const auto dtype_text = json.find("dtype");
  const auto dtype = dtype_text != json.end() && dtype_text->is_string()
                         ? dtype_from(dtype_text->get<std::string>())
                         : std::nullopt;
  if (!dtype) {
    refuse(name,
           concat("tensor \"", key, "\" has a dtype other than F32, F64, F16, BF16, I64, U8"));
  }
  Entry entry{key, *dtype, parse_shape(json, name, key), parse_range(json, name, key)};
  const Range range = entry.range;
  if (range.begin > range.end || range.end > data_bytes) {
    refuse(name, concat("tensor \"", key, "\" lies at bytes ", range.begin, " to ", range.end,
                        " of ", data_bytes));
  }
  uint64_t nbytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(entry.shape.numel()),
                             static_cast<uint64_t>(element_size(*dtype)), &nbytes) ||
      nbytes != range.end - range.begin) {
    refuse(name, concat("tensor \"", key, "\" of ", *dtype, " ", entry.shape, " has ",
                        range.end - range.begin, " bytes"));
  }
  return entry;
}

void check_tiling(const std::vector<Entry>& entries, uint64_t data_bytes, const std::string& name) {
  uint64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.range.begin != position) {
      refuse(name, concat("tensor \"", entry.key, "\" begins at byte ", entry.range.begin,
                          " of the data, the one before it ends at ", position));
    }
    position = entry.range.end;
  }
  if (position != data_bytes) {
    refuse(name, concat("its tensors have ", position, " bytes, the file has ", data_bytes));
  }
}

Metadata parse_metadata(const Json& json, const std::string& name) {
  Metadata metadata;
  if (!json.is_object()) refuse(name, "its __metadata__ is not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) refuse(name, concat("metadata \"", key, "\" is not a string"));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

NamedTensors parse_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                               Metadata* metadata) {
  const Json header = parse_header(bytes, name);
  const size_t data_begin = kLengthBytes + static_cast<size_t>(little_endian(bytes));
  const std::span<const uint8_t> data = bytes.subspan(data_begin);
  Metadata strings;
  std::vector<Entry> entries;
  for (const auto& [key, json] : header.items()) {
    if (key == kMetadata) {
      strings = parse_metadata(json, name);
    } else {
      entries.push_back(parse_entry(key, json, data.size(), name));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.range.begin, a.range.end) < std::pair(b.range.begin, b.range.end);
  });
  check_tiling(entries, data.size(), name);
  NamedTensors tensors;
  for (const Entry& entry : entries) {
    Tensor tensor = empty(entry.shape, entry.dtype);
    if (tensor.numel() > 0) {
      std::memcpy(tensor.raw_data(), data.data() + entry.range.begin,
                  static_cast<size_t>(tensor.nbytes()));
    }
    tensors.emplace_back(entry.key, std::move(tensor));
  }
  if (metadata != nullptr) *metadata = std::move(strings);
  return tensors;
}

NamedTensors load_safetensors(const std::string& path, Metadata* metadata) {
  return parse_safetensors(read_file(path), path, metadata);
}

}  // namespace lockstep::io
