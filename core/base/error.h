// The one error type and the one check macro. Policy: everything throws lockstep::Error, main
// catches once and turns the kind into the process exit code; nothing in the library exits or
// asserts.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace lockstep {

/// What went wrong, as far as a caller can act on it. The values are the exit codes of the binary
/// (sysexits.h where it has one).
enum class ErrorKind : int {
  Usage = 64,     ///< a bad flag, a contradiction between options
  BadData = 65,   ///< a file's or the user's data is not what it must be
  PeerLost = 69,  ///< another rank died or left
  Internal = 70,  ///< a broken invariant, a shape or dtype error
  Io = 74,        ///< the operating system refused a read, write, open, map
  Timeout = 75,   ///< a deadline passed
};

/// The exit code that the binary returns for an error of this kind.
constexpr int exit_code(ErrorKind kind) { return static_cast<int>(kind); }

/// The only exception type that the library throws. what() is one line: what failed, what was
/// given, what was expected, how to fix it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  explicit Error(const std::string& message) : Error(ErrorKind::Internal, message) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Concatenates its arguments as operator<< prints them.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Out of line so that a failing check costs one call in the caller's code.
[[noreturn]] void throw_error(ErrorKind kind, const std::string& message);

/// The same for LOCKSTEP_ASSERT; appends the source position, which only our developers need.
[[noreturn]] void throw_internal(const char* file, int line, const std::string& message);

}  // namespace lockstep

/// Throws Error(kind, parts...).
#define LOCKSTEP_THROW(kind, ...) \
  ::lockstep::throw_error(::lockstep::ErrorKind::kind, ::lockstep::concat(__VA_ARGS__))

/// Checks what a caller gave: throws Error(Internal, parts...) unless cond. The message is
/// mandatory.
#define LOCKSTEP_CHECK(cond, ...)            \
  do {                                       \
    if (!(cond)) [[unlikely]] {              \
      LOCKSTEP_THROW(Internal, __VA_ARGS__); \
    }                                        \
  } while (false)

/// The same with a kind: LOCKSTEP_CHECK_KIND(BadData, cond, parts...).
#define LOCKSTEP_CHECK_KIND(kind, cond, ...) \
  do {                                       \
    if (!(cond)) [[unlikely]] {              \
      LOCKSTEP_THROW(kind, __VA_ARGS__);     \
    }                                        \
  } while (false)

/// Checks our own invariant; the message carries file and line.
#define LOCKSTEP_ASSERT(cond, ...)                                                     \
  do {                                                                                 \
    if (!(cond)) [[unlikely]] {                                                        \
      ::lockstep::throw_internal(__FILE__, __LINE__, ::lockstep::concat(__VA_ARGS__)); \
    }                                                                                  \
  } while (false)
