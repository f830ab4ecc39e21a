// What a person sees on standard output: lines, and below them, on a terminal, a progress bar.
// Every line is written at once, so that ranks and pipes never mix halves of lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::apps {

class Console {
 public:
  /// enabled: false prints nothing (--quiet, and every rank but 0).
  explicit Console(bool enabled);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Prints `text` and a newline to standard output, above the progress bar.
  void line(std::string_view text);

  /// Shows that `done` of `total` steps of the epoch are done; drawn on a terminal only, at most
  /// ten times a second, and not before a run has taken a while.
  void progress(int64_t epoch, int64_t done, int64_t total, double loss);

 private:
  void erase_bar();

  bool enabled_;
  bool bar_allowed_;
  bool bar_shown_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

/// Writes all of `text` to a file descriptor; false when the system refused some of it (errno says
/// why). For messages on their way out, which nobody can be told of.
bool write_all(int descriptor, std::string_view text);

/// Writes results to standard output: a result that was lost must not look like success.
/// throws Error(Io)
void write_output(std::string_view text);

}  // namespace lockstep::apps
