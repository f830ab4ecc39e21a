// What a launcher tells a rank that it starts, for init_process_group to find.
#pragma once

#include <memory>
#include <optional>

#include "dist/store.h"

namespace lockstep::dist {

struct RankContext {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  std::shared_ptr<Store> store;
};

/// Sets this thread's context (a rank may be a thread); init_process_group without rank, world size
/// or store in its options takes them from here.
void set_rank_context(RankContext context);
const std::optional<RankContext>& rank_context();

}  // namespace lockstep::dist
