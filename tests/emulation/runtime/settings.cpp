// Reading LOCKSTEP_EMU_* and giving up.
#include "tests/emulation/runtime/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace lockstep::emulation {

int setting(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atoi(text) : fallback;
}

std::string setting_word(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

void fatal(const char* message) {
  std::fprintf(stderr, "emulation: %s (%s)\n", message, std::strerror(errno));
  std::abort();
}

}  // namespace lockstep::emulation
