// Messages that are not errors. The library prints nothing: a message goes to the sink that the app
// has set for this thread, and nowhere when there is none. Thread-local, because a rank may be a
// thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace lockstep::log {

enum class Level : int { Info, Warning };

using Sink = std::function<void(Level, std::string_view message)>;

/// Sets this thread's sink; an empty one drops messages.
void set_sink(Sink sink);

/// This thread's sink (to hand on to a thread that works for this rank).
const Sink& sink();

/// "[rank 2/4 hostname] " once a process group exists in this thread, else "".
void set_prefix(std::string prefix);
const std::string& prefix();

/// Never throws: destructors call it.
void write(Level level, std::string_view message) noexcept;

template <typename... Parts>
void warn(const Parts&... parts) noexcept {
  try {
    write(Level::Warning, concat(prefix(), parts...));
  } catch (...) {  // out of memory while logging: the message is lost, the program is not
  }
}

template <typename... Parts>
void info(const Parts&... parts) noexcept {
  try {
    write(Level::Info, concat(prefix(), parts...));
  } catch (...) {
  }
}

}  // namespace lockstep::log
