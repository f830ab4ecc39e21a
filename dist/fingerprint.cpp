// Two rounds: hashes and lengths always; texts only between ranks that disagree.
#include "dist/fingerprint.h"

#include <algorithm>
#include <bit>
#include <map>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/version.h"

namespace lockstep::dist {
namespace {

constexpr int kMaxDiffLines = 24;

std::string describe(const char* kind, const nn::NamedTensor& entry) {
  const Tensor& tensor = entry.second;
  return concat(kind, " \"", entry.first, "\" ", tensor.dtype(), " ", tensor.shape(),
                tensor.device().is_cpu() ? " cpu" : " cuda",
                tensor.requires_grad() ? " requires_grad" : "");
}

/// Names beyond the first of parameters that occur twice.
void append_shared(const nn::Module& module, const std::vector<nn::NamedTensor>& listed,
                   std::ostringstream& out) {
  const std::vector<nn::NamedTensor> all = module.state_dict();
  if (all.size() == listed.size()) return;
  for (const auto& [name, tensor] : all) {
    for (const auto& [first_name, first] : listed) {
      if (!first.is_same(tensor) || first_name == name) continue;
      out << "shared \"" << name << "\" is \"" << first_name << "\"\n";
    }
  }
}

/// Everybody's numbers, by rank. The process group moves tensors on its device.
std::vector<int64_t> all_gather_numbers(ProcessGroup& process_group,
                                        const std::vector<int64_t>& numbers) {
  const auto n = static_cast<int64_t>(numbers.size());
  const Tensor input = Tensor::from_values(numbers, {n}).to(process_group.device());
  const Tensor output =
      empty({n * process_group.world_size()}, DType::Int64, process_group.device());
  process_group.all_gather(output, input);
  return output.to_vector<int64_t>();
}

/// Everybody's text; `sizes` are known.
std::vector<std::string> all_gather_texts(ProcessGroup& process_group, const std::string& text,
                                          const std::vector<int64_t>& sizes) {
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<uint8_t> padded(text.begin(), text.end());
  padded.resize(static_cast<size_t>(longest));
  const Tensor input = Tensor::from_values(padded, {longest}).to(process_group.device());
  const Tensor output =
      empty({longest * process_group.world_size()}, DType::UInt8, process_group.device());
  process_group.all_gather(output, input);
  const std::vector<uint8_t> bytes = output.to_vector<uint8_t>();
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto begin = bytes.begin() + static_cast<int64_t>(rank) * longest;
    texts.emplace_back(begin, begin + sizes[rank]);
  }
  return texts;
}

/// "rank 2" or "ranks 1, 3".
std::string rank_list(const std::vector<int>& ranks) {
  std::ostringstream out;
  out << (ranks.size() == 1 ? "rank " : "ranks ");
  for (size_t i = 0; i < ranks.size(); ++i) out << (i == 0 ? "" : ", ") << ranks[i];
  return out.str();
}

/// Ranks with the same text are one group; each group is compared with rank 0's.
std::string disagreement(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> groups;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    groups[texts[rank]].push_back(static_cast<int>(rank));
  }
  std::ostringstream out;
  for (const auto& [text, ranks] : groups) {
    if (ranks.front() == 0) continue;
    out << "\n  " << rank_list(ranks) << (ranks.size() == 1 ? " differs" : " differ") << " from "
        << rank_list(groups[texts[0]]) << " (- rank 0, + rank " << ranks.front() << "):\n"
        << diff_lines(texts[0], text, kMaxDiffLines);
  }
  return out.str();
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

using Lines = std::span<const std::string_view>;

/// lengths[i][j]: of the longest common subsequence of a[i..] and b[j..].
std::vector<std::vector<int>> common_lengths(Lines a, Lines b) {
  std::vector<std::vector<int>> lengths(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      lengths[i][j] =
          a[i] == b[j] ? lengths[i + 1][j + 1] + 1 : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/// "- x" and "+ y" for what a longest common subsequence leaves over.
std::vector<std::string> changes(Lines a, Lines b) {
  // Beyond this the table would be large, and so many differences are read as "all of it" anyway.
  constexpr size_t kMaxTable = 4'000'000;
  const bool comparable = (a.size() + 1) * (b.size() + 1) <= kMaxTable;
  std::vector<std::vector<int>> common;
  if (comparable) common = common_lengths(a, b);
  std::vector<std::string> result;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (comparable && i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i;
      ++j;
    } else if (i < a.size() &&
               (j == b.size() || !comparable || common[i + 1][j] >= common[i][j + 1])) {
      result.push_back(concat("- ", a[i++]));
    } else {
      result.push_back(concat("+ ", b[j++]));
    }
  }
  return result;
}

}  // namespace

uint64_t fingerprint_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

std::string model_fingerprint(const nn::Module& module, const std::vector<std::string>& options) {
  std::ostringstream out;
  out << "lockstep " LOCKSTEP_VERSION_STRING "\n";
  for (const std::string& option : options) out << option << '\n';
  std::vector<nn::NamedTensor> listed = module.named_parameters();
  for (const nn::NamedTensor& entry : listed) out << describe("parameter", entry) << '\n';
  for (const nn::NamedTensor& entry : module.named_buffers()) {
    out << describe("buffer", entry) << '\n';
    listed.push_back(entry);
  }
  append_shared(module, listed, out);
  return out.str();
}

std::string diff_lines(const std::string& ours, const std::string& theirs, int max_lines) {
  const std::vector<std::string_view> our_lines = split_lines(ours);
  const std::vector<std::string_view> their_lines = split_lines(theirs);
  Lines a = our_lines;
  Lines b = their_lines;
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a = a.subspan(1);
    b = b.subspan(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a = a.first(a.size() - 1);
    b = b.first(b.size() - 1);
  }
  const std::vector<std::string> all = changes(a, b);
  const size_t shown = std::min(all.size(), static_cast<size_t>(std::max(max_lines, 0)));
  std::ostringstream out;
  for (size_t i = 0; i < shown; ++i) out << (i == 0 ? "" : "\n") << "    " << all[i];
  if (shown < all.size()) out << "\n    ... and " << all.size() - shown << " more lines";
  return out.str();
}

void check_fingerprints(ProcessGroup& process_group, const std::string& fingerprint) {
  const auto hash = std::bit_cast<int64_t>(fingerprint_hash(fingerprint));
  const std::vector<int64_t> numbers =
      all_gather_numbers(process_group, {hash, static_cast<int64_t>(fingerprint.size())});
  std::vector<int64_t> sizes;
  bool equal = true;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    equal = equal && numbers[i] == numbers[0] && numbers[i + 1] == numbers[1];
    sizes.push_back(numbers[i + 1]);
  }
  if (equal) return;
  // Every rank sees the same numbers, so all come here together.
  const std::vector<std::string> texts = all_gather_texts(process_group, fingerprint, sizes);
  LOCKSTEP_THROW(Internal, "DistributedDataParallel on rank ", process_group.rank(), " of ",
                 process_group.world_size(),
                 ": the ranks do not have the same model; build it in the same order and with the "
                 "same options on every rank",
                 disagreement(texts));
}

}  // namespace lockstep::dist
