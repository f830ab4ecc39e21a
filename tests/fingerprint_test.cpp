// The model's fingerprint: what is in it, and that a difference is a diff on every rank.
#include "dist/fingerprint.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/ddp_models.h"
#include "tests/ranks.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

namespace {

using MakeModel = std::function<std::unique_ptr<nn::Module>(int rank)>;

/// Wraps each rank's model; every rank must fail with a message that holds all `parts`.
void check_differ(int world_size, const MakeModel& make_model,
                  const std::vector<std::string>& parts,
                  const std::function<DdpOptions(int rank)>& options = {}) {
  const RankFunction construct = [&](ProcessGroup& group) {
    const auto model = make_model(group.rank());
    DistributedDataParallel ddp(*model, borrow(group),
                                options ? options(group.rank()) : DdpOptions{});
  };
  for (const bool processes : {false, true}) {
    CAPTURE(processes);
    const auto outcomes = processes ? run_rank_process_outcomes(world_size, construct)
                                    : run_rank_outcomes(world_size, construct);
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      const std::string& message = outcomes[rank].message;
      REQUIRE(outcomes[rank].error == ErrorKind::Internal);
      CHECK(contains(message, concat("on rank ", rank, " of ", world_size)));
      for (const std::string& part : parts) CHECK_MESSAGE(contains(message, part), message);
    }
  }
}

std::unique_ptr<nn::Module> sequential(std::initializer_list<nn::Sequential::Item> layers) {
  return std::make_unique<nn::Sequential>(layers);
}

}  // namespace

TEST_CASE("the text lists every fact, in order") {
  Buffered model(1);
  model.named_parameters()[1].second.requires_grad_(false);
  const std::string text = model_fingerprint(model, {"option x 1"});
  CHECK(text.starts_with("lockstep "));
  CHECK(
      text.ends_with("\noption x 1\n"
                     "parameter \"linear.weight\" Float32 [2, 2] cpu requires_grad\n"
                     "parameter \"linear.bias\" Float32 [2] cpu\n"
                     "buffer \"offset\" Float32 [1, 2] cpu\n"));
}

TEST_CASE("shared tensors are part of it") {
  const auto layer = std::make_shared<nn::Linear>(2, 2, nn::LinearOptions{.bias = false});
  nn::Sequential shared;
  shared.add(layer);
  shared.add(layer);
  const std::string text = model_fingerprint(shared, {});
  CHECK(contains(text, "shared \"1.weight\" is \"0.weight\"\n"));
}

TEST_CASE("the hash tells texts apart") {
  CHECK(fingerprint_hash("") == 0xcbf29ce484222325u);  // published values of FNV-1a
  CHECK(fingerprint_hash("a") == 0xaf63dc4c8601ec8cu);
  CHECK(fingerprint_hash("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("a diff shows what was removed, added, moved and changed") {
  CHECK(diff_lines("a\nb\nc\n", "a\nb\nc\n", 9).empty());
  CHECK(diff_lines("a\nb\nc\n", "a\nc\n", 9) == "    - b");
  CHECK(diff_lines("a\nc\n", "a\nb\nc\n", 9) == "    + b");
  CHECK(diff_lines("a\nb\nc\n", "a\nx\nc\n", 9) == "    - b\n    + x");
  CHECK(diff_lines("a\nb\nc\n", "b\na\nc\n", 9) == "    - a\n    + a");
  CHECK(diff_lines("", "a\n", 9) == "    + a");
  CHECK(diff_lines("a\nb\nc\n", "", 2) == "    - a\n    - b\n    ... and 1 more lines");
}

TEST_CASE("a large diff is cut, quickly") {
  std::string ours;
  std::string theirs;
  for (int i = 0; i < 5000; ++i) {
    ours += concat("parameter ", i, "\n");
    theirs += concat("other ", i, "\n");
  }
  const std::string diff = diff_lines(ours, theirs, 3);
  CHECK(diff ==
        "    - parameter 0\n    - parameter 1\n    - parameter 2\n    ... and 9997 more lines");
}

TEST_CASE("equal models pass, whatever the values") {
  run_both_forms(3, [](ProcessGroup& group) {
    const auto model = sequential({nn::Linear(3, 2), nn::LayerNorm(2)});
    DistributedDataParallel ddp(*model, borrow(group));
  });
}

TEST_CASE("layers registered in another order") {
  check_differ(
      2,
      [](int rank) {
        class TwoLayers : public nn::Module {
         public:
          explicit TwoLayers(bool swapped) {
            register_module(swapped ? "b" : "a", std::make_shared<nn::Linear>(3, 3));
            register_module(swapped ? "a" : "b", std::make_shared<nn::Linear>(3, 3));
          }
          Tensor forward(const Tensor& input) override { return input; }
        };
        return std::make_unique<TwoLayers>(rank == 1);
      },
      {"rank 1 differs from rank 0", "- parameter \"a.weight\"", "+ parameter \"a.weight\""});
}

TEST_CASE("another dtype") {
  check_differ(3,
               [](int rank) {
                 auto model = sequential({nn::Linear(3, 2)});
                 if (rank == 2) model->to(DType::Float64);
                 return model;
               },
               {"rank 2 differs from ranks 0, 1", "- parameter \"0.bias\" Float32 [2]",
                "+ parameter \"0.bias\" Float64 [2]"});
}

TEST_CASE("another number of parameters, another shape") {
  check_differ(4,
               [](int rank) {
                 if (rank == 1) return sequential({nn::Linear(3, 2), nn::Linear(2, 2)});
                 return sequential({nn::Linear(3, rank == 2 ? 5 : 2)});
               },
               {"rank 1 differs from ranks 0, 3", "+ parameter \"1.weight\" Float32 [2, 2]",
                "rank 2 differs from ranks 0, 3", "+ parameter \"0.weight\" Float32 [5, 3]"});
}

TEST_CASE("frozen on one rank") {
  check_differ(2,
               [](int rank) {
                 auto model = sequential({nn::Linear(3, 2)});
                 model->named_parameters()[0].second.requires_grad_(rank != 0);
                 return model;
               },
               {"- parameter \"0.weight\" Float32 [2, 3] cpu\n",
                "+ parameter \"0.weight\" Float32 [2, 3] cpu requires_grad"});
}

TEST_CASE("other options") {
  check_differ(
      2, [](int) { return sequential({nn::Linear(3, 2)}); },
      {"- option bucket_cap_mb 0", "+ option bucket_cap_mb 4"},
      [](int rank) { return DdpOptions{.bucket_cap_mb = 4.0 * rank}; });
}
