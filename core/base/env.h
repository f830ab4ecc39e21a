// Reading the environment: one place, so that docs/env_vars.md can be checked against it. The
// library never changes the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::env {

/// The value, or nothing when the variable is unset or empty.
std::optional<std::string> get(const char* name);

/// The value as a whole number; throws Error(Usage) naming variable and value when it is not one.
std::optional<int64_t> get_int(const char* name);

/// True for 1, true, yes, on (any case); false for 0, false, no, off and unset; else Error(Usage).
bool get_flag(const char* name);

}  // namespace lockstep::env
