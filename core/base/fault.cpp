// LOCKSTEP_FAULT="POINT:RANK:ACTION[:COUNT]", several separated by commas.
#include "core/base/fault.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::fault {
namespace {

constexpr const char* kVariable = "LOCKSTEP_FAULT";

struct Fault {
  std::string point;
  int rank = kFaultAnyRank;
  std::string action;
  int exit_code = 0;
  int count = 1;  ///< acts when the point is reached for the count-th time
};

/// Takes the text up to the next separator.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

int number(std::string_view text, const std::string& whole) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  LOCKSTEP_CHECK_KIND(Usage, error == std::errc() && stop == text.data() + text.size(), kVariable,
                      "=\"", whole, "\": \"", text, "\" is not a number; expected ",
                      "POINT:RANK:ACTION[:COUNT]");
  return value;
}

Fault parse_one(std::string_view text, const std::string& whole) {
  Fault fault;
  fault.point = take(text, ':');
  const std::string_view rank = take(text, ':');
  if (rank == "launcher") {
    fault.rank = kFaultLauncher;
  } else if (rank != "any") {
    fault.rank = number(rank, whole);
  }
  fault.action = take(text, ':');
  if (fault.action == "exit") fault.exit_code = number(take(text, ':'), whole);
  bool known = false;
  for (const char* action : {"kill", "stop", "throw", "exit", "segv", "hang"}) {
    known = known || fault.action == action;
  }
  LOCKSTEP_CHECK_KIND(Usage, known, kVariable, "=\"", whole, "\": action \"", fault.action,
                      "\", expected kill, stop, throw, exit:CODE, segv or hang");
  if (!text.empty()) fault.count = number(text, whole);
  return fault;
}

std::vector<Fault> parse_all() {
  const std::string whole = env::get(kVariable).value_or("");
  std::vector<Fault> faults;
  for (std::string_view rest = whole; !rest.empty();) {
    faults.push_back(parse_one(take(rest, ','), whole));
  }
  return faults;
}

void act(const Fault& fault, int rank) {
  if (fault.action == "kill") ::kill(::getpid(), SIGKILL);
  if (fault.action == "stop") ::kill(::getpid(), SIGSTOP);
  if (fault.action == "segv") ::raise(SIGSEGV);
  if (fault.action == "exit") ::_exit(fault.exit_code);
  while (fault.action == "hang") ::pause();
  LOCKSTEP_CHECK(fault.action != "throw", "fault at ", fault.point, " in rank ", rank, ", as ",
                 kVariable, " asks");
}

}  // namespace

const bool kArmed = env::get(kVariable).has_value();

void reach(const char* point, int rank) {
  static const std::vector<Fault> faults = parse_all();
  thread_local std::vector<int> reached(faults.size());
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    const bool here = fault.rank == rank || fault.rank == kFaultAnyRank || rank == kFaultAnyRank;
    if (here && fault.point == point && ++reached[i] == fault.count) act(fault, rank);
  }
}

}  // namespace lockstep::fault
