// Where a rank's number, the world size and the store come from, in this order: the options, the
// launcher, the environment; alone, a group of one.
#include <unistd.h>

#include <limits>
#include <string_view>
#include <utility>

#include "core/base/env.h"
#include "core/base/log.h"
#include "dist/process_group.h"
#include "dist/rank_context.h"
#include "dist/shm_process_group.h"
#include "dist/shm_report.h"

namespace lockstep::dist {
namespace {

thread_local std::optional<RankContext> t_context;

/// Everything that is known before the store is opened.
struct Membership {
  int rank = -1;
  int world_size = -1;
  std::shared_ptr<Store> store;
};

int from_environment(int given, const char* variable) {
  if (given >= 0) return given;
  const auto set = env::get_int(variable);
  if (!set) return -1;
  constexpr int64_t kLargest = std::numeric_limits<int>::max();
  LOCKSTEP_CHECK_KIND(Usage, *set >= 0 && *set <= kLargest, "environment variable ", variable, "=",
                      *set, ": expected a whole number from 0 to ", kLargest);
  return static_cast<int>(*set);
}

void check_backend(const std::string& backend) {
  // "nccl" is what a script for GPUs says; on a host without one the best engine is meant.
  LOCKSTEP_CHECK_KIND(Usage, backend.empty() || backend == "shm" || backend == "nccl",
                      "init_process_group: backend \"", backend,
                      "\" is not in this build; use \"shm\" (one host) or leave it empty");
}

Membership find_membership(const ProcessGroupOptions& options) {
  Membership found{options.rank, options.world_size, options.store};
  LOCKSTEP_CHECK_KIND(Usage, options.store == nullptr || options.init_method.empty(),
                      "init_process_group: both a store and init_method \"", options.init_method,
                      "\" are given; give one");
  const bool by_launcher =
      t_context.has_value() && options.store == nullptr && options.init_method.empty();
  if (by_launcher) {
    if (found.rank < 0) found.rank = t_context->rank;
    if (found.world_size < 0) found.world_size = t_context->world_size;
    found.store = t_context->store;
  } else {
    found.rank = from_environment(found.rank, "RANK");
    found.world_size = from_environment(found.world_size, "WORLD_SIZE");
  }
  return found;
}

void check_membership(const Membership& found) {
  LOCKSTEP_CHECK_KIND(Usage, found.rank >= 0, "init_process_group: world size ", found.world_size,
                      " but no rank; set ProcessGroupOptions::rank or RANK");
  LOCKSTEP_CHECK_KIND(Usage, found.world_size >= 0, "init_process_group: rank ", found.rank,
                      " but no world size; set ProcessGroupOptions::world_size or WORLD_SIZE");
  LOCKSTEP_CHECK_KIND(Usage, found.world_size >= 1 && found.rank < found.world_size,
                      "init_process_group: rank ", found.rank, " of world size ", found.world_size,
                      "; ranks are 0 to world size - 1");
  LOCKSTEP_CHECK_KIND(Usage, found.world_size <= kMaxRanks, "init_process_group: world size ",
                      found.world_size, "; the shm engine takes at most ", kMaxRanks);
}

std::shared_ptr<Store> open_store(const std::string& init_method, int world_size) {
  constexpr std::string_view kFile = "file://";
  if (init_method.starts_with(kFile)) {
    return make_file_store(init_method.substr(kFile.size()), world_size);
  }
  if (world_size == 1) return make_memory_store();
  LOCKSTEP_CHECK_KIND(Usage, init_method.empty() || init_method == "env://",
                      "init_process_group: init_method \"", init_method,
                      "\" is not in this build; use \"file://PATH\", a path that all ranks see");
  LOCKSTEP_THROW(Usage, "init_process_group: world size ", world_size,
                 " but no store: meeting at MASTER_ADDR is not in this build; start the ranks with "
                 "the launcher, or give init_method \"file://PATH\", a path that all ranks see");
}

}  // namespace

const char* reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "Sum";
    case ReduceOp::Average:
      return "Average";
    case ReduceOp::Max:
      return "Max";
    case ReduceOp::Min:
      return "Min";
  }
  return "?";
}

void set_rank_context(RankContext context) { t_context = std::move(context); }
const std::optional<RankContext>& rank_context() { return t_context; }

std::shared_ptr<ProcessGroup> init_process_group(const ProcessGroupOptions& options) {
  check_backend(options.backend);
  Membership found = find_membership(options);
  if (found.rank < 0 && found.world_size < 0) found = {0, 1, found.store};  // alone
  check_membership(found);
  if (found.store == nullptr) found.store = open_store(options.init_method, found.world_size);
  log::set_prefix(rank_prefix(found.rank, found.world_size));
  return std::make_shared<ShmProcessGroup>(*found.store, found.rank, found.world_size,
                                           options.timeout);
}

}  // namespace lockstep::dist
