// What the reducer says when a backward cannot be reduced: which parameters, why, what to do; and
// how the other ranks learn of it instead of waiting.
#include <sstream>

#include "core/autograd_node.h"
#include "core/base/error.h"
#include "dist/reducer.h"

namespace lockstep::dist {
namespace {

constexpr size_t kMaxNames = 8;

template <typename Names>
std::string join_names(const Names& names) {
  std::ostringstream out;
  for (size_t i = 0; i < names.size() && i < kMaxNames; ++i)
    out << (i == 0 ? "" : ", ") << names[i];
  if (names.size() > kMaxNames) out << " and " << names.size() - kMaxNames << " more";
  return out.str();
}

const char* inside(bool synced) { return synced ? "outside" : "inside"; }

}  // namespace

void Reducer::give_up(const std::string& reason) noexcept {
  try {
    process_group_->abort(concat("rank ", process_group_->rank(), " gave up in step ",
                                 num_reductions_, ": ", reason));
  } catch (...) {  // no memory for the message: a reason without details still ends the others
    process_group_->abort("a rank gave up in backward");
  }
}

void Reducer::throw_incomplete() {
  std::vector<std::string> unused;
  std::vector<std::string> replaced;
  for (const Parameter& parameter : parameters_) {
    if (parameter.ready) continue;
    (parameter.tensor.leaf() == parameter.leaf ? unused : replaced).push_back(parameter.name);
  }
  std::string reason;
  if (!unused.empty()) {
    reason = concat("got no gradient: ", join_names(unused),
                    "; every parameter must take part in the loss of every rank (use it in forward "
                    "and in the loss, or freeze it with requires_grad_(false) before "
                    "DistributedDataParallel is constructed)");
  }
  if (!replaced.empty()) {
    reason += concat(reason.empty() ? "" : "; ",
                     "requires_grad was changed since construction: ", join_names(replaced),
                     "; construct DistributedDataParallel after that");
  }
  give_up(reason);
  drop_works();
  LOCKSTEP_THROW(Internal, "backward: DistributedDataParallel parameters of rank ",
                 process_group_->rank(), " ", reason);
}

// The others are told as well: when only this rank made the mistake, they wait for its buckets.
void Reducer::throw_mode_mismatch(bool forward_synced) {
  const std::string reason =
      concat("forward ran ", inside(forward_synced), " no_sync and its backward ",
             inside(!forward_synced), "; both must be inside, or both outside");
  give_up(reason);
  LOCKSTEP_THROW(Internal, "backward: DistributedDataParallel: ", reason);
}

void Reducer::throw_moved(const Parameter& parameter) {
  LOCKSTEP_THROW(Internal, "backward: the gradient of ", parameter.name,
                 " is no longer in its bucket; move or convert a module (Module::to) before "
                 "DistributedDataParallel is constructed, and construct it again after");
}

// Called in a handler.
void Reducer::rethrow_for_bucket(size_t bucket) {
  try {
    throw;
  } catch (const Error& error) {
    drop_works();
    throw Error(error.kind(), concat("backward: ", bucket_name(bucket), ": ", error.what()));
  } catch (...) {
    drop_works();
    throw;
  }
}

/// "bucket 0 of 2 (1.bias, 1.weight)": names, because nobody knows a bucket's number.
std::string Reducer::bucket_name(size_t bucket) const {
  std::vector<std::string> names;
  for (const int64_t index : plan_[bucket].parameters) {
    names.push_back(parameters_[static_cast<size_t>(index)].name);
  }
  return concat("bucket ", bucket, " of ", plan_.size(), " (", join_names(names), ")");
}

}  // namespace lockstep::dist
