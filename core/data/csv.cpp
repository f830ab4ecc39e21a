// CSV of numbers. One pass, line by line; a message shows at most a few characters of a field, with
// what cannot be printed replaced.
#include "core/data/csv.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "core/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// The whole field as a number; nothing when it is none, or none that a double can hold.
std::optional<double> number(std::string_view field) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return value;
}

/// The field for a message: short, on one line.
std::string printable(std::string_view field) {
  constexpr size_t kLongest = 24;
  std::string text = "\"";
  for (const char character : field.substr(0, kLongest)) {
    text += character >= ' ' && character <= '~' ? character : '?';
  }
  return text + (field.size() > kLongest ? "...\"" : "\"");
}

/// Calls use(field, column) for each field of a line; columns count from 1.
template <typename Use>
int64_t for_each_field(std::string_view line, Use&& use) {
  int64_t column = 1;
  for (;; ++column) {
    const size_t comma = line.find(',');
    use(trimmed(line.substr(0, comma)), column);
    if (comma == std::string_view::npos) return column;
    line.remove_prefix(comma + 1);
  }
}

bool is_header(std::string_view line) {
  bool has_number = false;
  for_each_field(line, [&](std::string_view field, int64_t) {
    if (number(field)) has_number = true;
  });
  return !has_number;
}

class Parser {
 public:
  Parser(const std::string& name, int64_t num_classes)
      : name_(name), num_classes_(num_classes > 0 ? num_classes : kMaxClasses) {}

  void parse_line(std::string_view line, int64_t number) {
    line_ = number;
    int64_t columns = 0;
    double last = 0;
    std::string_view last_field;
    // A value is known to be a feature, not the label, when another one follows it.
    columns = for_each_field(line, [&](std::string_view field, int64_t column) {
      if (column > 1) add_feature(last, last_field, column - 1);
      last = parse_number(field, column);
      last_field = field;
    });
    if (table_.labels.empty()) {
      check(columns >= 2, columns, "the line has one column, expected features and a label");
      table_.num_features = columns - 1;
    }
    check(columns == table_.num_features + 1, columns, "the line has ", columns,
          " columns, the first one has ", table_.num_features + 1);
    const bool is_class = last >= 0 && last < static_cast<double>(num_classes_);
    check(is_class && last == std::floor(last), columns, "the label is ", printable(last_field),
          ", expected a whole number from 0 to ", num_classes_ - 1);
    table_.labels.push_back(static_cast<int64_t>(last));
  }

  CsvTable finish() {
    LOCKSTEP_CHECK_KIND(BadData, !table_.labels.empty(), name_,
                        ": no line with numbers; expected features and a label on each line");
    return std::move(table_);
  }

 private:
  template <typename... Parts>
  void check(bool good, int64_t column, const Parts&... parts) const {
    LOCKSTEP_CHECK_KIND(BadData, good, name_, ", line ", line_, ", column ", column, ": ", parts...,
                        "; correct the file");
  }

  double parse_number(std::string_view field, int64_t column) const {
    check(!field.empty(), column, "the field is empty, expected a number");
    const std::optional<double> value = number(field);
    check(value.has_value(), column, printable(field), " is not a number");
    return *value;
  }

  void add_feature(double value, std::string_view field, int64_t column) {
    const auto feature = static_cast<float>(value);
    check(std::isfinite(feature), column, printable(field),
          " is not finite in 32 bits, expected a finite number");
    table_.features.push_back(feature);
  }

  const std::string& name_;
  const int64_t num_classes_;
  int64_t line_ = 0;
  CsvTable table_;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& name, int64_t num_classes) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  Parser parser(name, num_classes);
  bool is_first = true;
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    if (!is_first || !is_header(line)) parser.parse_line(line, line_number);
    is_first = false;
  }
  return parser.finish();
}

}  // namespace lockstep::data
