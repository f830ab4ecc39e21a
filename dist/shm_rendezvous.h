// How ranks that share only a Store come to share memory: rank 0 makes it and hands it out over an
// abstract Unix socket (which has no name in the file system) whose random address is in the store.
#pragma once

#include <memory>

#include "dist/shared_memory.h"
#include "dist/store.h"

namespace lockstep::dist {

/// The memory of the group, nbytes long, the same for all ranks. Ranks of one process get the same
/// object. Rank 0 returns when every rank has been served.
/// throws Error(Usage) when two ranks claim one number, when world sizes differ, and when the ranks
/// are on different hosts; Error(Timeout) naming the ranks that did not come; Error(PeerLost) when
/// rank 0 is gone
std::shared_ptr<SharedMemory> meet_in_shared_memory(Store& store, int rank, int world_size,
                                                    int64_t nbytes, Milliseconds timeout);

}  // namespace lockstep::dist
