// Rank 0's facts are broadcast as text; then all learn whether anybody differs.
#include "apps/same_options.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

std::string text_of(const std::vector<RunFact>& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += "--" + name + " " + value + "\n";
  return text;
}

std::string broadcast_text(dist::ProcessGroup& group, const std::string& mine) {
  Tensor size = full({1}, static_cast<double>(mine.size()), DType::Int64);
  group.broadcast(size, 0);
  Tensor bytes = zeros({size.data<int64_t>()[0]}, DType::UInt8);
  if (group.rank() == 0) std::memcpy(bytes.raw_data(), mine.data(), mine.size());
  group.broadcast(bytes, 0);
  const auto* data = bytes.data<uint8_t>();
  return {data, data + bytes.numel()};
}

/// The lines of `mine` that are not in `theirs`, in one line.
std::string difference(const std::string& mine, const std::string& theirs) {
  std::string list;
  for (size_t begin = 0; begin < mine.size();) {
    const size_t end = std::min(mine.find('\n', begin), mine.size());
    const std::string line = mine.substr(begin, end - begin);
    if (("\n" + theirs).find("\n" + line + "\n") == std::string::npos) {
      list += (list.empty() ? "" : ", ") + line;
    }
    begin = end + 1;
  }
  return list;
}

}  // namespace

void check_same_options(dist::ProcessGroup& group, const std::vector<RunFact>& facts) {
  const std::string mine = text_of(facts);
  const std::string theirs = broadcast_text(group, mine);
  const bool differs = mine != theirs;
  // The highest rank that differs, so that the ranks that do not can name one.
  Tensor flag = full({1}, differs ? group.rank() : -1, DType::Int64);
  group.all_reduce(flag, dist::ReduceOp::Max);
  const int64_t other = flag.data<int64_t>()[0];
  LOCKSTEP_CHECK_KIND(Usage, !differs, "rank ", group.rank(), " was started with ",
                      difference(mine, theirs), " where rank 0 has ", difference(theirs, mine),
                      "; start all ranks with the same options");
  LOCKSTEP_CHECK_KIND(Usage, other < 0, "rank ", other,
                      " was started with other options than rank 0; its message says which");
}

}  // namespace lockstep::apps
