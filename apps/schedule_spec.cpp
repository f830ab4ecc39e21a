// One table: the schedules, how many numbers each takes, and what the missing ones are.
#include "apps/schedule_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

/// Stands for "the number of epochs" among the defaults.
constexpr double kEpochs = -1;

struct Form {
  const char* name;
  const char* arguments;  ///< as shown to the user
  size_t required;
  std::vector<double> defaults;  ///< of all its numbers, the required ones' unused
  std::vector<bool> is_count;    ///< which must be whole numbers of epochs, from 1
};

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      {"none", "", 0, {}, {}},
      {"step", ":EPOCHS[,GAMMA]", 1, {0, 0.1}, {true, false}},
      {"multistep", ":EPOCH,...", 1, {}, {}},
      {"exponential", ":GAMMA", 1, {0}, {false}},
      {"linear", "[:START[,END[,EPOCHS]]]", 0, {1.0 / 3, 1, 5}, {false, false, true}},
      {"constant", "[:FACTOR[,EPOCHS]]", 0, {1.0 / 3, 5}, {false, true}},
      {"cosine", "[:EPOCHS[,MIN_LR]]", 0, {kEpochs, 0}, {true, false}},
      {"cosine_restarts", ":EPOCHS[,FACTOR]", 1, {0, 1}, {true, true}},
      {"polynomial", "[:EPOCHS[,POWER]]", 0, {kEpochs, 1}, {true, false}},
      {"onecycle", ":MAX_LR", 1, {0}, {false}},
  };
  return kForms;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

bool is_whole_count(double value) {
  return value >= 1 && value == std::floor(value) && value < 0x1p40;
}

[[noreturn]] void refuse(const std::string& text, const Form* form) {
  const std::string expected = form == nullptr
                                   ? schedule_forms()
                                   : std::string(form->name) + form->arguments +
                                         " (EPOCHS: whole numbers from 1; the others: 0 or more)";
  LOCKSTEP_THROW(Usage, "--schedule \"", text, "\": expected ", expected);
}

std::vector<double> parse_numbers(const std::string& text, const Form& form) {
  std::vector<double> values;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return values;
  const std::string_view rest = std::string_view(text).substr(colon + 1);
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t comma = std::min(rest.find(',', begin), rest.size());
    const auto value = parse_number(rest.substr(begin, comma - begin));
    if (!value || *value < 0) refuse(text, &form);
    values.push_back(*value);
    begin = comma + 1;
  }
  return values;
}

}  // namespace

std::string schedule_forms(const std::string& separator) {
  std::string list;
  for (const Form& form : forms()) {
    list += (list.empty() ? "" : separator) + std::string(form.name) + form.arguments;
  }
  return list;
}

ScheduleSpec parse_schedule_spec(const std::string& text, int64_t epochs) {
  const std::string name = text.substr(0, text.find(':'));
  const auto form = std::find_if(forms().begin(), forms().end(),
                                 [&](const Form& candidate) { return name == candidate.name; });
  if (form == forms().end()) refuse(text, nullptr);
  ScheduleSpec spec{name, parse_numbers(text, *form)};
  const bool is_list = name == "multistep";
  if (spec.values.size() < form->required) refuse(text, &*form);
  if (!is_list && spec.values.size() > form->defaults.size()) refuse(text, &*form);
  for (size_t i = spec.values.size(); i < form->defaults.size(); ++i) {
    const bool is_length = form->defaults[i] == kEpochs;
    spec.values.push_back(is_length ? static_cast<double>(std::max<int64_t>(epochs, 1))
                                    : form->defaults[i]);
  }
  for (size_t i = 0; i < spec.values.size(); ++i) {
    if ((is_list || form->is_count[i]) && !is_whole_count(spec.values[i])) refuse(text, &*form);
  }
  if (is_list && !std::is_sorted(spec.values.begin(), spec.values.end())) refuse(text, &*form);
  return spec;
}

std::unique_ptr<optim::LRScheduler> make_scheduler(const ScheduleSpec& spec,
                                                   optim::Optimizer& optimizer,
                                                   int64_t total_steps) {
  const auto number = [&](size_t i) { return spec.values[i]; };
  const auto count = [&](size_t i) { return static_cast<int64_t>(spec.values[i]); };
  if (spec.name == "step") return std::make_unique<optim::StepLR>(optimizer, count(0), number(1));
  if (spec.name == "multistep") {
    return std::make_unique<optim::MultiStepLR>(
        optimizer, std::vector<int64_t>(spec.values.begin(), spec.values.end()));
  }
  if (spec.name == "exponential") {
    return std::make_unique<optim::ExponentialLR>(optimizer, number(0));
  }
  if (spec.name == "linear") {
    return std::make_unique<optim::LinearLR>(optimizer, number(0), number(1), count(2));
  }
  if (spec.name == "constant") {
    return std::make_unique<optim::ConstantLR>(optimizer, number(0), count(1));
  }
  if (spec.name == "cosine") {
    return std::make_unique<optim::CosineAnnealingLR>(optimizer, count(0), number(1));
  }
  if (spec.name == "cosine_restarts") {
    return std::make_unique<optim::CosineAnnealingWarmRestarts>(optimizer, count(0), count(1));
  }
  if (spec.name == "polynomial") {
    return std::make_unique<optim::PolynomialLR>(optimizer, count(0), number(1));
  }
  if (spec.name == "onecycle") {
    return std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleOptions{.max_lr = number(0), .total_steps = total_steps});
  }
  return nullptr;
}

}  // namespace lockstep::apps
