// Out-of-line throwing, so that checks stay small where they are used.
#include "core/base/error.h"

namespace lockstep {

void throw_error(ErrorKind kind, const std::string& message) { throw Error(kind, message); }

void throw_internal(const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::Internal,
              concat("internal error: ", message, " (", file, ":", line, "); please report this"));
}

}  // namespace lockstep
