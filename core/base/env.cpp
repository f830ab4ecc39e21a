// std::getenv with types and clear errors.
#include "core/base/env.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"

namespace lockstep::env {
namespace {

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int64_t> get_int(const char* name) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  LOCKSTEP_CHECK_KIND(Usage, error == std::errc() && stop == end, "environment variable ", name,
                      "=\"", *text, "\": expected a whole number; correct it or unset it");
  return value;
}

bool get_flag(const char* name) {
  const auto text = get(name);
  if (!text) return false;
  const std::string value = lower(*text);
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  const bool off = value == "0" || value == "false" || value == "no" || value == "off";
  LOCKSTEP_CHECK_KIND(Usage, off, "environment variable ", name, "=\"", *text,
                      "\": expected 1, true, yes, on, 0, false, no or off");
  return false;
}

}  // namespace lockstep::env
