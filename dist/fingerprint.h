// The fingerprint of a model: every fact that must agree between ranks before gradients are
// averaged, one a line. Ranks compare a hash; only when it differs do they exchange the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/nn/module.h"
#include "dist/process_group.h"

namespace lockstep::dist {

/// Library version, then parameters and buffers in their order: name, dtype, shape, kind of device,
/// requires_grad, and which names share a tensor. `options` are further lines ("option x 1").
std::string model_fingerprint(const nn::Module& module, const std::vector<std::string>& options);

/// Collective. Throws Error on *every* rank when the texts are not all equal: which ranks agree,
/// and for each that does not agree with rank 0, the lines that differ.
void check_fingerprints(ProcessGroup& process_group, const std::string& fingerprint);

/// The lines of `theirs` against those of `ours`, in the way of diff: "- " only in ours, "+ " only
/// in theirs, each after four spaces; at most max_lines, then how many more there are.
std::string diff_lines(const std::string& ours, const std::string& theirs, int max_lines);

/// FNV-1a, 64 bits.
uint64_t fingerprint_hash(std::string_view text);

}  // namespace lockstep::dist
