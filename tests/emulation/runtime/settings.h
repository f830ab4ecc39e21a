// Environment variables of the emulator, and the way it gives up when its own ground is missing.
#pragma once

#include <cstdlib>
#include <string>

namespace lockstep::emulation {

/// The number in an environment variable, or fallback when it is unset or empty.
int setting(const char* name, int fallback);
/// The word in an environment variable, or "".
std::string setting_word(const char* name);
/// Prints "emulation: message (errno)" and aborts: nothing of the program could be trusted after.
[[noreturn]] void fatal(const char* message);

}  // namespace lockstep::emulation
