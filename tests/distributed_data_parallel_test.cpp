// DistributedDataParallel over real ranks, as threads and as processes: equal replicas, exact
// averages, no_sync, buffers, and the silent failures of other implementations, which are errors
// here. Numbers are small integers, so that every sum is exact.
#include "dist/distributed_data_parallel.h"

#include <doctest/doctest.h>

#include "core/optim/optimizer.h"
#include "core/random.h"
#include "dist/reducer.h"
#include "tests/ddp_models.h"
#include "tests/ranks.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

namespace {

Tensor rows(int64_t n, int64_t features, double value) { return full({n, features}, value); }

/// The sum's gradient for a weight row: the column sums of the input.
void expect_weight_gradient(const Tensor& weight, double expected) {
  for (const float value : gradient(weight)) {
    expect(value == static_cast<float>(expected), "gradient ", value, ", expected ", expected);
  }
}

/// What every rank's function threw; all of them must have thrown.
std::vector<std::string> messages_of(const std::vector<RankOutcome>& outcomes) {
  std::vector<std::string> messages;
  for (const RankOutcome& outcome : outcomes) {
    CHECK(outcome.signal == 0);
    CHECK(outcome.error.has_value());
    messages.push_back(outcome.message);
  }
  return messages;
}

/// Checks in both forms that each rank fails, with a message that holds `part`.
void check_fails_everywhere(int world_size, const RankFunction& function, const std::string& part) {
  for (const std::string& message : messages_of(run_rank_outcomes(world_size, function))) {
    CHECK_MESSAGE(contains(message, part), message);
  }
  for (const std::string& message : messages_of(run_rank_process_outcomes(world_size, function))) {
    CHECK_MESSAGE(contains(message, part), message);
  }
}

}  // namespace

TEST_CASE("construction makes every replica rank 0's") {
  run_both_forms(3, [](ProcessGroup& group) {
    manual_seed(static_cast<uint64_t>(group.rank()));
    Buffered model(static_cast<float>(group.rank()));
    expect(!replicas_equal(group, model), "different seeds gave equal weights");
    DistributedDataParallel ddp(model, borrow(group));
    expect(replicas_equal(group, model), "replicas differ after construction");
    expect(model.buffer.to_vector<float>()[0] == 0, "the buffer is not rank 0's");
  });
}

TEST_CASE("gradients are the average over ranks, exactly") {
  for (const int world_size : {1, 2, 4}) {
    run_both_forms(world_size, [](ProcessGroup& group) {
      nn::Linear model(3, 2);
      DistributedDataParallel ddp(model, borrow(group));
      // Mean of 1, ..., W over ranks, times 6 rows.
      const double expected = 6 * (group.world_size() + 1) / 2.0;
      for (int i = 0; i < 3; ++i) {
        step(ddp, rows(6, 3, group.rank() + 1));
        expect_weight_gradient(model.weight, expected);
        expect_weight_gradient(model.bias, 6);
        model.zero_grad();
      }
    });
  }
}

TEST_CASE("a frozen parameter is made equal, and not reduced") {
  run_both_forms(2, [](ProcessGroup& group) {
    manual_seed(static_cast<uint64_t>(group.rank()));
    nn::Linear model(3, 2);
    model.weight.requires_grad_(false);
    DistributedDataParallel ddp(model, borrow(group));
    expect(replicas_equal(group, model), "replicas differ after construction");
    step(ddp, rows(group.rank() + 1, 3, 1));
    expect_weight_gradient(model.bias, 1.5);
    expect(ddp.reducer().plan()[0].parameters.size() == 1, "the frozen parameter is in a bucket");
  });
}

TEST_CASE("without zero_grad the average of the sum is the sum of averages") {
  run_both_forms(2, [](ProcessGroup& group) {
    nn::Linear model(3, 2);
    DistributedDataParallel ddp(model, borrow(group));
    for (int i = 1; i <= 3; ++i) {
      step(ddp, rows(2, 3, group.rank() + 1));
      expect_weight_gradient(model.weight, 3.0 * i);
      expect(replicas_equal(group, model), "replicas differ");
    }
  });
}

TEST_CASE("accumulation in no_sync equals one big batch, and communicates nothing") {
  run_both_forms(2, [](ProcessGroup& group) {
    nn::Linear model(3, 2);
    DistributedDataParallel ddp(model, borrow(group));
    for (int round = 0; round < 2; ++round) {
      const int64_t before = group.bytes_communicated();
      for (int micro = 0; micro < 3; ++micro) {
        const auto guard = ddp.no_sync();
        step(ddp, rows(1, 3, 10 * group.rank() + micro));
      }
      expect(group.bytes_communicated() == before, "no_sync communicated");
      step(ddp, rows(1, 3, 10 * group.rank() + 3));
      // (0+1+2+3 and 40+0+1+2+3) / 2
      expect_weight_gradient(model.weight, (6 + 46) / 2.0);
      model.zero_grad();
    }
  });
}

TEST_CASE("several forwards, then one backward or several: each backward is reduced") {
  run_both_forms(2, [](ProcessGroup& group) {
    nn::Linear model(3, 2);
    DistributedDataParallel ddp(model, borrow(group));
    const double mine = group.rank() + 1;
    const auto forward = [&](double value) { return ops::sum(ddp(rows(1, 3, value * mine))); };
    (forward(1) + forward(2)).backward();
    expect_weight_gradient(model.weight, 3 * 1.5);
    model.zero_grad();
    const Tensor first = forward(1);
    const Tensor second = forward(2);
    first.backward();
    expect_weight_gradient(model.weight, 1.5);
    second.backward();
    expect_weight_gradient(model.weight, 4.5);
    expect(ddp.reducer().num_reductions() == 3, "a backward was not reduced");
    expect(replicas_equal(group, model), "replicas differ");
  });
}

TEST_CASE("ranks whose gradients arrive in different orders are averaged correctly") {
  run_both_forms(3, [](ProcessGroup& group) {
    class Ordered : public nn::Module {
     public:
      explicit Ordered(bool swapped) : swapped_(swapped) {
        register_module("a", a_);
        register_module("b", b_);
      }
      Tensor forward(const Tensor& input) override {
        if (swapped_) {
          Tensor b = ops::sum((*b_)(input));
          return b + ops::sum((*a_)(input));
        }
        Tensor a = ops::sum((*a_)(input));
        return a + ops::sum((*b_)(input));
      }

     private:
      bool swapped_;
      std::shared_ptr<nn::Linear> a_ = std::make_shared<nn::Linear>(3, 2);
      std::shared_ptr<nn::Linear> b_ = std::make_shared<nn::Linear>(3, 2);
    };
    Ordered model(group.rank() == 1);
    DistributedDataParallel ddp(model, borrow(group), {.bucket_cap_mb = kOneParameterBuckets});
    for (int i = 0; i < 3; ++i) {
      ddp(rows(1, 3, 3 * group.rank())).backward();
      for (const auto& [name, parameter] : model.named_parameters()) {
        const bool bias = name.ends_with("bias");
        // 3 ranks: the factor float(1/3) is rounded, the sum 0 + 3 + 6 times it is within 2 ulp.
        for (const float value : gradient(parameter)) {
          const double expected = bias ? 1 : 3;
          expect(std::abs(value - expected) <= 2 * expected * 0x1p-23, name, ": ", value);
        }
      }
      expect(replicas_equal(group, model), "replicas differ");
      model.zero_grad();
    }
    expect(ddp.reducer().has_rebuilt(), "not rebuilt");
  });
}

TEST_CASE("with 3 buckets, bucket 0 is reduced before the last leaf's hook runs") {
  run_both_forms(2, [](ProcessGroup& group) {
    nn::Sequential model = three_layers();
    const Tensor first_bias = model.named_parameters()[1].second;
    DistributedDataParallel* wrapped = nullptr;
    // The hook before the last one lets the communication thread come to its turn. The engine must
    // get on by itself: nobody waits for a bucket here.
    autograd::register_post_accumulate_grad_hook(first_bias, [&](const Tensor&) {
      for (int ms = 0; !wrapped->reducer().is_reduced(0) && ms < 20'000; ++ms) ::usleep(1000);
    });
    DistributedDataParallel ddp(model, borrow(group), {.bucket_cap_mb = 36.0 / 1024 / 1024});
    wrapped = &ddp;
    expect(ddp.reducer().plan().size() == 3, "expected 3 buckets");
    for (int i = 0; i < 3; ++i) {
      ddp.reducer().clear_events();
      ddp.reducer().record_events(true);
      step(ddp, ones({2, 4}));
      const auto& events = ddp.reducer().events();
      const auto position = [&](ReducerEvent event) {
        return std::find(events.begin(), events.end(), event) - events.begin();
      };
      const auto reduced = position({ReducerEventKind::BucketReduced, 0});
      const auto last_hook = position({ReducerEventKind::HookFired, 0});
      expect(reduced < last_hook, "bucket 0 reduced at ", reduced, ", last hook at ", last_hook);
      expect(last_hook < static_cast<int64_t>(events.size()), "the last hook did not run");
    }
  });
}

TEST_CASE("buffers are rank 0's before a synchronised training forward, and only then") {
  run_both_forms(2, [](ProcessGroup& group) {
    Buffered model(0);
    DistributedDataParallel ddp(model, borrow(group));
    const auto value = [&] { return model.buffer.to_vector<float>()[0]; };
    const auto mine = static_cast<float>(group.rank());
    model.buffer.fill_(mine);
    step(ddp, ones({1, 2}));
    expect(value() == 0, "not broadcast in training");
    model.buffer.fill_(mine);
    {
      const auto guard = ddp.no_sync();
      step(ddp, ones({1, 2}));
    }
    expect(value() == mine, "broadcast in no_sync");
    ddp.eval();
    step(ddp, ones({1, 2}));
    expect(value() == mine, "broadcast in evaluation mode");
    ddp.train();
    {
      const NoGradGuard guard;
      ddp(ones({1, 2}));
    }
    expect(value() == mine, "broadcast without gradients");
  });
  run_ranks(2, [](ProcessGroup& group) {
    Buffered model(0);
    DistributedDataParallel ddp(model, borrow(group), {.broadcast_buffers = false});
    model.buffer.fill_(group.rank());
    step(ddp, ones({1, 2}));
    expect(model.buffer.to_vector<float>()[0] == static_cast<float>(group.rank()), "broadcast");
  });
}

TEST_CASE("rank 0 may evaluate alone") {
  run_both_forms(3, [](ProcessGroup& group) {
    Buffered model(1);
    DistributedDataParallel ddp(model, borrow(group));
    for (int i = 0; i < 2; ++i) {
      step(ddp, ones({1, 2}));
      if (group.rank() == 0) {
        const NoGradGuard guard;
        ddp.eval();
        ddp(ones({1, 2}));
        ddp.train();
      }
      group.barrier();
    }
  });
}

TEST_CASE("a parameter without a gradient on one rank is an error on every rank") {
  check_fails_everywhere(
      3,
      [](ProcessGroup& group) {
        Shuffled model;
        model.use_c = group.rank() != 1;
        DistributedDataParallel ddp(model, borrow(group), {.bucket_cap_mb = kOneParameterBuckets});
        step(ddp, ones({1, 3}));
      },
      "got no gradient: c.weight, c.bias");
}

TEST_CASE("so it is when all ranks leave it out") {
  check_fails_everywhere(
      2,
      [](ProcessGroup& group) {
        Shuffled model;
        model.use_c = false;
        DistributedDataParallel ddp(model, borrow(group));
        step(ddp, ones({1, 3}));
      },
      "got no gradient: c.weight, c.bias");
}

TEST_CASE("a rank that skips a backward and leaves is named by the one that waits") {
  const RankFunction function = [](ProcessGroup& group) {
    nn::Linear model(3, 2);
    DistributedDataParallel ddp(model, borrow(group));
    step(ddp, ones({1, 3}));
    if (group.rank() == 0) step(ddp, ones({1, 3}));
  };
  for (const auto& outcomes :
       {run_rank_outcomes(2, function), run_rank_process_outcomes(2, function)}) {
    CHECK(outcomes[1].ok());
    CHECK(outcomes[0].error == ErrorKind::PeerLost);
    CHECK_MESSAGE(contains(outcomes[0].message, "rank 1"), outcomes[0].message);
  }
}

TEST_CASE("an exception in one rank's backward ends the others") {
  check_fails_everywhere(
      2,
      [](ProcessGroup& group) {
        nn::Linear model(3, 2);
        if (group.rank() == 1) {
          autograd::register_post_accumulate_grad_hook(
              model.weight, [](const Tensor&) { LOCKSTEP_THROW(BadData, "exception in a hook"); });
        }
        DistributedDataParallel ddp(model, borrow(group));
        step(ddp, ones({1, 3}));
      },
      "exception");
}

TEST_CASE("forward inside no_sync, backward outside is an error on every rank") {
  check_fails_everywhere(
      2,
      [](ProcessGroup& group) {
        nn::Linear model(3, 2);
        DistributedDataParallel ddp(model, borrow(group));
        Tensor loss;
        {
          const auto guard = ddp.no_sync();
          loss = ops::sum(ddp(ones({1, 3})));
        }
        loss.backward();
      },
      "no_sync");
}

TEST_CASE("the optimizer refuses gradients that were never reduced") {
  run_both_forms(2, [](ProcessGroup& group) {
    nn::Linear model(3, 2);
    DistributedDataParallel ddp(model, borrow(group));
    optim::SGD optimizer(ddp.parameters(), {.lr = 0.5});
    {
      const auto guard = ddp.no_sync();
      step(ddp, ones({1, 3}));
    }
    const std::string message = message_of([&] { optimizer.step(); });
    expect(contains(message, "weight") && contains(message, "bias"), message);
    expect(replicas_equal(group, model), "the refused step changed something");
    step(ddp, ones({1, 3}));
    optimizer.step();
    expect(replicas_equal(group, model), "replicas differ");
    optimizer.zero_grad();
    const auto guard = ddp.no_sync();
    step(ddp, rows(1, 3, group.rank()));
    optimizer.step();  // asked for, inside the guard: local steps are the user's decision
  });
}
