// Thread-local sink and prefix.
#include "core/base/log.h"

#include <utility>

namespace lockstep::log {
namespace {

thread_local Sink t_sink;
thread_local std::string t_prefix;

}  // namespace

void set_sink(Sink sink) { t_sink = std::move(sink); }
const Sink& sink() { return t_sink; }

void set_prefix(std::string prefix) { t_prefix = std::move(prefix); }
const std::string& prefix() { return t_prefix; }

void write(Level level, std::string_view message) noexcept {
  if (!t_sink) return;
  try {
    t_sink(level, message);
  } catch (...) {  // a failing sink must not end a run
  }
}

}  // namespace lockstep::log
