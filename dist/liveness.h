// Is a process still there? Each peer's pid becomes a pidfd, which cannot be confused with a later
// process of the same number and turns readable the moment the process ends.
#pragma once

#include <vector>

#include "dist/unique_fd.h"

namespace lockstep::dist {

/// For one thread at a time.
class Liveness {
 public:
  explicit Liveness(int world_size) : peers_(static_cast<size_t>(world_size)) {}

  /// Begins to watch a rank's process (once). Ranks in this very process need no watching: they
  /// end together.
  void watch(int rank, int pid);

  /// True if the rank's process has ended. False for a rank that is not watched.
  bool is_gone(int rank) const;

 private:
  struct Peer {
    int pid = 0;  ///< 0: not watched
    UniqueFd pidfd;
    bool gone = false;  ///< it had ended before it could be watched
  };
  std::vector<Peer> peers_;
};

}  // namespace lockstep::dist
