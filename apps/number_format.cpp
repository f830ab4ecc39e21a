// std::to_chars finds the shortest digits; Python's layout of them is applied here.
#include "apps/number_format.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace lockstep::apps {
namespace {

/// Where Python changes to scientific notation: below 1e-4 and from 1e16 on.
constexpr int kSmallestFixedExponent = -4;
constexpr int kFirstScientificExponent = 16;

std::string fixed_notation(std::string_view digits, int exponent) {
  const int count = static_cast<int>(digits.size());
  if (exponent < 0) {
    return "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + std::string(digits);
  }
  if (count <= exponent + 1) {
    return std::string(digits) + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return std::string(digits.substr(0, whole)) + "." + std::string(digits.substr(whole));
}

std::string scientific_notation(std::string_view digits, int exponent) {
  std::string text(digits.substr(0, 1));
  if (digits.size() > 1) text += "." + std::string(digits.substr(1));
  const std::string power = std::to_string(exponent < 0 ? -exponent : exponent);
  return text + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  if (value == 0) return sign + "0.0";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  int exponent = 0;
  const char* first = buffer + e + 1;
  if (*first == '+') ++first;
  std::from_chars(first, end, exponent);
  const bool scientific = exponent < kSmallestFixedExponent || exponent >= kFirstScientificExponent;
  return sign +
         (scientific ? scientific_notation(digits, exponent) : fixed_notation(digits, exponent));
}

std::string fixed(double value, int decimals) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  const int64_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

}  // namespace lockstep::apps
