// write(2) without stdio: nothing is buffered, so a fork copies no half-written output.
#include "apps/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/number_format.h"
#include "core/base/error.h"

namespace lockstep::apps {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(300);
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int64_t kBarWidth = 30;
constexpr std::string_view kEraseLine = "\r\033[K";

}  // namespace

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void write_output(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return;
  LOCKSTEP_THROW(Io, "cannot write to standard output: ", std::strerror(errno));
}

Console::Console(bool enabled)
    : enabled_(enabled),
      bar_allowed_(enabled && ::isatty(STDOUT_FILENO) == 1),
      next_draw_(std::chrono::steady_clock::now() + kFirstDraw) {}

Console::~Console() { erase_bar(); }

void Console::line(std::string_view text) {
  if (!enabled_) return;
  erase_bar();
  write_output(std::string(text) + "\n");
}

void Console::progress(int64_t epoch, int64_t done, int64_t total, double loss) {
  if (!bar_allowed_ || total <= 1) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const int64_t filled = std::min(kBarWidth, kBarWidth * done / total);
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(static_cast<size_t>(kBarWidth), '.');
  write_all(STDOUT_FILENO, std::string(kEraseLine) + "Epoch " + std::to_string(epoch) + " [" + bar +
                               "] " + std::to_string(done) + "/" + std::to_string(total) +
                               " loss " + fixed(loss, 4));
  bar_shown_ = true;
}

void Console::erase_bar() {
  if (std::exchange(bar_shown_, false)) write_all(STDOUT_FILENO, kEraseLine);
}

}  // namespace lockstep::apps
