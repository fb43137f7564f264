#include "tests/unit/real_host/toy_run.hpp"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "sim/base/random.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

namespace real_test {
namespace {

constexpr const char* name_of_table = "-1.embedding";

const sim::ModelOp& op_of(const sim::Model& model, const sim::Site& site) {
  const auto op = static_cast<std::size_t>(site.op);
  switch (site.place) {
    case sim::BlockPlace::input:
      return model.input.ops[op];
    case sim::BlockPlace::output:
      return model.output.ops[op];
    default:
      return model.layers[static_cast<std::size_t>(site.layer)].ops[op];
  }
}

// A tied head holds the table of the embedding, here or on another stage.
std::string name_of(const sim::Model& model, const sim::Site& site) {
  if (op_of(model, site).tied_to_embedding) return name_of_table;
  return std::to_string(site.layer) + "." + op_of(model, site).name;
}

// The same for every layout: numbers drawn by the name of the operator.
Floats initial(const sim::Model& model, const sim::Site& site) {
  std::uint64_t stream = 17;
  for (const char letter : name_of(model, site))
    stream = sim::hash_combine(stream, static_cast<std::uint64_t>(letter));
  Floats values = random_floats(1, stream, site.elements, 0.1);
  const sim::ModelOp& op = op_of(model, site);
  if (op.kind != sim::ModelOpKind::norm) return values;
  for (float& value : values)
    value += 1.0F;
  return values;
}

// Every token follows from the one before it.
std::vector<std::int32_t> tokens_of(const ToyRun& run, int step, int replica) {
  const sim::Layout& layout = run.layout;
  const std::int64_t rows = layout.micro_batches() * layout.micro_batch;
  std::vector<std::int32_t> tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    // Replicas take turns, so that every layout sees the same rows in a step.
    const std::int64_t global = row * layout.data_parallel + replica;
    std::int64_t token = (step * 31 + global * 7) % run.shape.vocabulary;
    for (std::int64_t i = 0; i <= layout.sequence_length; ++i) {
      tokens.push_back(static_cast<std::int32_t>(token));
      token = (token * 5 + 3) % run.shape.vocabulary;
    }
  }
  return tokens;
}

class Rank {
 public:
  Rank(const ToyRun& run, const sim::Model& model, const sim::Plan& plan,
       real::Transport& transport)
      : run_{run},
        bound_{real::bind(plan, model, sim::RankId{static_cast<std::uint32_t>(transport.rank())})},
        backend_{real::make_host_backend({.program = &bound_,
                                          .transport = &transport,
                                          .training = run.training,
                                          .algorithms = run.algorithms,
                                          .heartbeat = nullptr})} {
    for (const sim::Site& site : bound_.program->sites)
      if (site.elements > 0) fill(site);
  }

  real::StepOutcome step(int index) {
    return backend_->step(
        {.step = index, .tokens = tokens_of(run_, index, bound_.at.data), .record = run_.record});
  }

  // ZeRO-0/1/2: whole weights. With ZeRO-1/2 and overlap they are gathered in the next step.
  void collect(ToyResult& result) {
    for (const sim::Site& site : bound_.program->sites) {
      if (site.elements == 0) continue;
      Floats values(static_cast<std::size_t>(site.elements));
      backend_->read(bound_.buckets[site.bucket].weight.offset + site.first * 4,
                     std::as_writable_bytes(std::span{values}));
      result.weights[name_of(*bound_.model, site)] = values;
    }
  }

 private:
  // Element by element: where a rank holds it (whole or shard), and in the master copy.
  void fill(const sim::Site& site) {
    const real::BoundBucket& bucket = bound_.buckets[site.bucket];
    Floats values = initial(*bound_.model, site);
    if (op_of(*bound_.model, site).name == run_.poison)
      values[0] = std::numeric_limits<float>::quiet_NaN();
    const bool whole = bucket.weight.bytes == bucket.padded * 4;
    for (std::int64_t i = 0; i < site.elements; ++i) {
      const std::int64_t at = site.first + i;
      const std::int64_t own = at - bucket.owned_first;
      const bool owned = own >= 0 && own < bucket.owned;
      const auto bytes =
          std::as_bytes(std::span{values}).subspan(static_cast<std::size_t>(i) * 4, 4);
      if (whole || owned) backend_->write(bucket.weight.offset + (whole ? at : own) * 4, bytes);
      if (owned && run_.layout.master_weights)
        backend_->write(bucket.optimizer.offset + own * 4, bytes);
    }
  }

  const ToyRun& run_;
  real::BoundProgram bound_;
  std::unique_ptr<real::Backend> backend_;
};

}  // namespace

sim::TransformerShape toy_shape() {
  sim::TransformerShape shape;
  shape.name = "toy";
  shape.family = "toy";
  shape.layers = 2;
  shape.hidden = 16;
  shape.heads = 4;
  shape.kv_heads = 4;
  shape.head_dim = 4;
  shape.feed_forward = 32;
  shape.vocabulary = 23;
  shape.max_sequence = 12;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  return shape;
}

sim::Layout toy_layout() {
  sim::Layout layout;
  layout.sequence_length = 8;
  layout.global_batch = 8;
  layout.micro_batch = 2;
  layout.compute_dtype = layout.activation_dtype = layout.gradient_dtype = layout.reduce_dtype =
      sim::DType::fp32;
  return layout;
}

ToyResult run_toy(const ToyRun& run) {
  const sim::Model model = sim::build_transformer(run.shape);
  ToyResult result;
  for (const sim::LayoutProblem& problem : sim::layout_problems(run.layout, model))
    FAIL(problem.key << ": " << problem.what);
  result.plan = sim::make_plan(model, run.layout);
  const auto size = static_cast<std::size_t>(result.plan.world_size());
  auto world = real::make_local_world(static_cast<int>(size));
  result.loss.assign(static_cast<std::size_t>(run.steps), 0.0);
  result.norm.assign(static_cast<std::size_t>(run.steps), 0.0);
  result.spans.resize(size);
  result.not_finite.resize(size, -1);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto body = [&](std::size_t index) {
    try {
      const std::unique_ptr<real::Transport> transport = std::move(world[index]);
      Rank rank{run, model, result.plan, *transport};
      for (int step = 0; step < run.steps; ++step) {
        const real::StepOutcome outcome = rank.step(step);
        const std::lock_guard lock{mutex};
        const auto replicas =
            static_cast<double>(run.layout.data_parallel * run.layout.tensor_parallel);
        result.loss[static_cast<std::size_t>(step)] +=
            outcome.loss / static_cast<double>(run.layout.micro_batches()) / replicas;
        if (index == 0) result.norm[static_cast<std::size_t>(step)] = outcome.gradient_norm;
        result.spans[index] = outcome.spans;
        result.not_finite[index] = outcome.first_not_finite;
      }
      const std::lock_guard lock{mutex};
      if (run.layout.zero_stage < 3 && run.layout.tensor_parallel == 1) rank.collect(result);
    } catch (...) {
      const std::lock_guard lock{mutex};
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < size; ++index)
    threads.emplace_back(body, index);
  for (std::thread& thread : threads)
    thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return result;
}

}  // namespace real_test
