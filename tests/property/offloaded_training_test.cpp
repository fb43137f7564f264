// Training with parameters and activations on the host, executed on host ranks, against the same
// training without: the same losses to the last digit. A delayed update, which is another training,
// against its recurrence.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "real/engine/initial_weights.hpp"
#include "real/engine/scratch.hpp"
#include "real/host/host_backend.hpp"
#include "real/host/kernels/host_kernels.hpp"
#include "tests/catch.hpp"
#include "tests/property/small_training.hpp"

namespace real::test {
namespace {

using sim::OffloadTarget;

constexpr int steps = 4;

struct Lab : SmallModel {
  TrainedModel train(const sim::Layout& layout, int count = steps) const {
    return train_on_host(model, layout, training_of(count), corpus);
  }
  std::int64_t arena_of(const sim::Layout& layout) const {
    const sim::Plan plan = sim::make_plan(model, layout);
    return bind(plan, model, sim::RankId{0}).arena_bytes;
  }
  // Trains both, and finds no difference.
  void same(const sim::Layout& layout, const sim::Layout& plain) const {
    const TrainedModel there = train(layout), here = train(plain);
    REQUIRE(here.losses.size() == steps);
    CHECK(largest_relative(there.losses, here.losses) == 0);
    CHECK(largest_relative(there.norms, here.norms) == 0);
    CHECK(largest_difference(there.parameters, there.weights, here.weights).relative == 0);
  }
};

sim::Layout sharded(int ranks) {
  sim::Layout layout = replicas_in_fp32(ranks);
  layout.zero_stage = 3;
  return layout;
}

sim::Layout with_parameters_on(OffloadTarget target, sim::Layout layout) {
  layout.offload_parameters = layout.offload_optimizer = target;
  return layout;
}

// One rank trains `count` steps, each with the gradients of the step before, or before `after` with
// its own: gradients by the plain engine at weights that are written into it, updates here.
std::vector<double> losses_of_recurrence(const Lab& lab, const sim::Training& training, int count,
                                         int after) {
  sim::Layout layout = replicas_in_fp32(1);
  layout.bucket = sim::Bytes{1 << 30};
  const sim::Plan plan = sim::make_plan(lab.model, layout);
  auto world = make_local_world(1);
  const BoundProgram program = bind(plan, lab.model, sim::RankId{0});
  REQUIRE(program.buckets.size() == 1);
  const BoundBucket& bucket = program.buckets.front();
  const auto backend = make_host_backend({.program = &program,
                                          .transport = world.front().get(),
                                          .training = training,
                                          .algorithms = {}});
  write_initial_state(program, parameters_of(lab.model), training.seed, 1, *backend);
  const auto size = static_cast<std::size_t>(bucket.elements);
  std::vector<float> weights(size), master(size), m(size), v(size), gradient(size), waits;
  const auto read = [&](std::int64_t offset, std::vector<float>& to) {
    backend->read(offset, std::as_writable_bytes(std::span{to}));
  };
  read(bucket.weight.offset, weights);
  master = weights;
  float scale = 1, scale_of_waiting = 1;
  const std::vector<kernels::Range> decayed = decay_ranges(bucket);
  const auto update = [&](const std::vector<float>& with, const float& clip, int step) {
    const kernels::AdamStep at = adam_step(training, step);
    host_kernels().adam(
        {.rate = training.learning_rate.peak,
         .beta1 = training.beta1,
         .beta2 = training.beta2,
         .epsilon = training.epsilon,
         .decay = training.weight_decay},
        {.weight_dtype = sim::DType::fp32,
         .gradient_dtype = sim::DType::fp32,
         .weight = weights.data(),
         .master = master.data(),
         .m = m.data(),
         .v = v.data(),
         .gradient = with.data(),
         .clip_scale = &clip,
         .step = &at,
         .gate = nullptr},
        bucket.elements,
        {.ranges = decayed.data(), .count = static_cast<std::int64_t>(decayed.size())}, nullptr);
  };
  std::vector<double> losses;
  for (int step = 0; step < count; ++step) {
    backend->write(bucket.weight.offset, std::as_bytes(std::span{weights}));
    const auto tokens = tokens_of_rank(lab.corpus, layout, training.seed, step, 0);
    const StepOutcome outcome = backend->step({.step = step, .tokens = tokens, .record = false});
    losses.push_back(outcome.loss / static_cast<double>(layout.micro_batches()));
    read(bucket.gradient.offset, gradient);
    const auto sum = static_cast<float>(outcome.gradient_norm * outcome.gradient_norm);
    float norm = 0;
    host_kernels().finish_norm(&sum, training.clip, &norm, &scale, nullptr);
    if (step < after) {
      update(gradient, scale, step);
      continue;
    }
    if (!waits.empty()) update(waits, scale_of_waiting, step - 1);
    waits = gradient;
    scale_of_waiting = scale;
  }
  return losses;
}

}  // namespace

TEST_CASE("parameters on the host or on its disk train as those on the device", "[property]") {
  const Lab lab;
  for (const OffloadTarget target : {OffloadTarget::cpu, OffloadTarget::nvme}) {
    for (const int ranks : {2, 4}) {
      for (const auto recompute : {sim::Recompute::none, sim::Recompute::full}) {
        INFO(word(target) << ", " << ranks << " ranks, recompute " << word(recompute));
        sim::Layout plain = sharded(ranks);
        plain.recompute = recompute;
        plain.reshard_after_forward = ranks == 4;
        lab.same(with_parameters_on(target, plain), plain);
        CHECK(lab.arena_of(with_parameters_on(target, plain)) < lab.arena_of(plain));
      }
    }
  }
}

TEST_CASE("gradients of one micro-batch, or several, and of parameters without masters",
          "[property]") {
  const Lab lab;
  for (const int micro_batch : {1, 4}) {
    for (const bool masters : {true, false}) {
      INFO(micro_batch << (masters ? " with masters" : " without"));
      sim::Layout plain = sharded(2);
      plain.micro_batch = micro_batch;
      plain.master_weights = masters;
      plain.prefetch_layers = micro_batch == 1 ? 0 : 2;
      lab.same(with_parameters_on(OffloadTarget::cpu, plain), plain);
    }
  }
}

TEST_CASE("a rank alone keeps its parameters on the host, too", "[property]") {
  const Lab lab;
  for (const int micro_batch : {1, 8}) {
    INFO(micro_batch);
    sim::Layout plain = replicas_in_fp32(1);
    plain.micro_batch = micro_batch;
    sim::Layout host = plain;
    host.zero_stage = 3;
    // The norm is summed in another order over one unit than over several.
    const TrainedModel there = lab.train(with_parameters_on(OffloadTarget::cpu, host));
    const TrainedModel here = lab.train(plain);
    CHECK(largest_relative(there.losses, here.losses) < 1e-5);
    CHECK(there.losses.front() == here.losses.front());
    CHECK(lab.arena_of(with_parameters_on(OffloadTarget::cpu, host)) < lab.arena_of(plain));
  }
}

TEST_CASE("activations on the host give the same gradients", "[property]") {
  const Lab lab;
  for (const int zero : {0, 1, 3}) {
    for (const auto recompute :
         {sim::Recompute::none, sim::Recompute::selective, sim::Recompute::full}) {
      INFO("ZeRO-" << zero << ", recompute " << word(recompute));
      sim::Layout plain = replicas_in_fp32(2);
      plain.zero_stage = zero;
      plain.recompute = recompute;
      sim::Layout host = plain;
      host.offload_activations = OffloadTarget::cpu;
      lab.same(host, plain);
      // The inputs of four layers are fewer bytes than what is on its way.
      if (recompute != sim::Recompute::full) CHECK(lab.arena_of(host) < lab.arena_of(plain));
    }
  }
}

TEST_CASE("activations of a pipeline, of some layers, of some modules", "[property]") {
  const Lab lab;
  sim::Layout plain = replicas_in_fp32(1);
  plain.pipeline_parallel = 2;
  SECTION("1F1B") {}
  SECTION("interleaved") {
    plain.virtual_stages = 2;
    plain.schedule = sim::Schedule::interleaved;
  }
  SECTION("GPipe") {
    plain.schedule = sim::Schedule::gpipe;
  }
  SECTION("tensor parallelism") {
    plain.pipeline_parallel = 1;
    plain.tensor_parallel = 2;
    plain.sequence_parallel = true;
  }
  sim::Layout host = plain;
  host.offload_activations = OffloadTarget::cpu;
  host.offload_layers = 1;
  lab.same(host, plain);
  host.offload_modules = {sim::OffloadModule::core_attn, sim::OffloadModule::attn_proj};
  const TrainedModel there = lab.train(host), here = lab.train(plain);
  CHECK(largest_relative(there.losses, here.losses) == 0);
}

TEST_CASE("everything on the host at once", "[property]") {
  const Lab lab;
  sim::Layout plain = sharded(4);
  plain.recompute = sim::Recompute::full;
  sim::Layout host = with_parameters_on(OffloadTarget::nvme, plain);
  host.offload_activations = OffloadTarget::cpu;
  lab.same(host, plain);
}

TEST_CASE("a delayed update is the recurrence with the gradients of the step before",
          "[property]") {
  const Lab lab;
  constexpr int count = 8;
  const sim::Training training = training_of(count);
  sim::Layout layout = replicas_in_fp32(1);
  layout.bucket = sim::Bytes{1 << 30};
  layout.offload_optimizer = OffloadTarget::cpu;
  const std::vector<double> prompt = lab.train(layout, count).losses;
  layout.offload_delay = true;
  for (const int after : {0, 3, count}) {
    INFO("delayed after " << after);
    layout.offload_delay_after = after;
    const std::vector<double> delayed = lab.train(layout, count).losses;
    CHECK(delayed == losses_of_recurrence(lab, training, count, after));
    // The step behind the first that is delayed sees the weights that this one saw.
    for (int step = 0; step < count; ++step) {
      INFO("step " << step);
      const auto at = static_cast<std::size_t>(step);
      CHECK((delayed[at] == prompt[at]) == (step <= after));
    }
  }
}

TEST_CASE("a delayed update of shards is that of one rank", "[property]") {
  const Lab lab;
  sim::Layout one = replicas_in_fp32(1);
  one.offload_optimizer = OffloadTarget::cpu;
  one.offload_delay = true;
  const TrainedModel alone = lab.train(one, 6);
  for (const int zero : {0, 1, 2, 3}) {
    INFO("ZeRO-" << zero);
    sim::Layout layout = replicas_in_fp32(4);
    layout.zero_stage = zero;
    layout.offload_optimizer = zero == 3 ? OffloadTarget::nvme : OffloadTarget::cpu;
    layout.offload_delay = true;
    const TrainedModel shards = lab.train(layout, 6);
    CHECK(largest_relative(shards.losses, alone.losses) < 1e-5);
  }
}

}  // namespace real::test
