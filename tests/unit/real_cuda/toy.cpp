#include "tests/unit/real_cuda/toy.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>

#include "real/cuda/environment.hpp"
#include "real/engine/data/tokens.hpp"
#include "real/engine/initial_weights.hpp"
#include "real/engine/operator_facts.hpp"
#include "real/engine/rank_state.hpp"
#include "real/host/host_backend.hpp"

namespace cuda_test {
namespace {

// Sentences end in padding of unequal lengths, and in their label.
void make_sentence(const sim::TransformerShape& shape, std::int64_t number,
                   std::span<std::int32_t> row) {
  const std::int64_t tokens = std::ssize(row) - 1, padding = number % (tokens - 1);
  std::fill_n(row.end() - 1 - padding, padding, real::padding_id);
  row.back() = static_cast<std::int32_t>(number % shape.classes);
}

// Every token follows from the one before it.
class ToySamples : public real::Samples {
 public:
  explicit ToySamples(const ToyRun& run) : run_{run} {}
  void sample(std::uint64_t, std::int64_t step, std::int64_t sample,
              std::int32_t* to) const override {
    std::int64_t token = (step * 31 + sample * 7) % run_.shape.vocabulary;
    for (std::int64_t i = 0; i <= run_.layout.attended_length(); ++i) {
      to[i] = static_cast<std::int32_t>(token);
      token = (token * 5 + 3) % run_.shape.vocabulary;
    }
    if (run_.shape.head == sim::Head::classifier)
      make_sentence(run_.shape, sample,
                    {to, static_cast<std::size_t>(run_.layout.sequence_length + 1)});
  }

 private:
  const ToyRun& run_;
};

std::unique_ptr<real::Backend> make_backend(const ToyRun& run, const real::BoundProgram& bound,
                                            real::Transport& transport) {
  if (run.host) {
    return real::make_host_backend({.program = &bound,
                                    .transport = &transport,
                                    .training = run.training,
                                    .algorithms = run.algorithms,
                                    .heartbeat = nullptr});
  }
  return real::make_cuda_backend({.program = &bound,
                                  .control = &transport,
                                  .training = run.training,
                                  .algorithms = run.algorithms,
                                  .device = transport.rank(),
                                  .graphs = run.graphs,
                                  .shares_gpu = true,  // and the cores: ranks are threads
                                  .timeout = run.timeout,
                                  .connect_timeout = run.connect_timeout});
}

class Rank {
 public:
  Rank(const ToyRun& run, const sim::Model& model, const sim::Plan& plan,
       real::Transport& transport)
      : run_{run},
        bound_{real::bind(plan, model, sim::RankId{static_cast<std::uint32_t>(transport.rank())})},
        parameters_{real::parameters_of(model, run.layout)},
        pieces_{real::pieces_of(bound_, parameters_)},
        backend_{make_backend(run, bound_, transport)} {
    real::write_initial_state(bound_, parameters_, run.training.seed, 1, *backend_);
    if (!run.poison.empty()) poison();
  }

  real::StepOutcome step(int index) {
    const auto tokens = real::tokens_of_rank(ToySamples{run_}, run_.layout, 0, index,
                                             bound_.at.data, bound_.at.context);
    return backend_->step({.step = index, .tokens = tokens, .record = run_.record});
  }

  // The owned elements of every parameter into their places.
  void collect(ToyResult& result) {
    for (const real::Parameter& parameter : parameters_)
      result.weights[parameter.name].resize(static_cast<std::size_t>(parameter.elements()));
    for (std::uint32_t b = 0; b < bound_.buckets.size(); ++b) {
      const real::BoundBucket& bucket = bound_.buckets[b];
      std::vector<float> owned(static_cast<std::size_t>(bucket.owned));
      real::read_owned(bound_, *backend_, b, real::StateKind::master, 0, owned);
      for_each_owned(b, [&](const std::string& name, std::int64_t at, std::int64_t own) {
        result.weights[name][static_cast<std::size_t>(at)] = owned[static_cast<std::size_t>(own)];
      });
    }
  }

 private:
  void poison() {
    const auto fill = [&](std::uint32_t bucket, std::int64_t first, std::span<float> values) {
      std::fill(values.begin(), values.end(), 0.01F);
      for (const real::Piece& piece : pieces_) {
        const std::int64_t at = piece.first - first;
        if (piece.bucket != bucket || parameters_[piece.parameter].name != run_.poison) continue;
        if (at < 0 || at >= std::ssize(values)) continue;
        values[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      }
    };
    real::write_weights(bound_, *backend_, fill);
  }

  // visit(parameter, element of it, owned element of the bucket)
  template <class Visit>
  void for_each_owned(std::uint32_t index, Visit visit) {
    for (const real::Piece& piece : pieces_) {
      if (piece.bucket != index) continue;
      const real::BoundBucket& bucket = bound_.buckets[index];
      const real::Parameter& parameter = parameters_[piece.parameter];
      const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t own = piece.first + from + i - bucket.owned_first;
          if (own >= 0 && own < bucket.owned) visit(parameter.name, to + i, own);
        }
      };
      real::for_each_run(piece, parameter, 0, piece.elements(), run);
    }
  }

  const ToyRun& run_;
  real::BoundProgram bound_;
  std::vector<real::Parameter> parameters_;
  std::vector<real::Piece> pieces_;
  std::unique_ptr<real::Backend> backend_;
};

struct Shared {
  const ToyRun& run;
  const sim::Model& model;
  ToyResult result{};
  std::mutex mutex{};
  std::atomic<int> failed{0};
};

void run_steps(Shared& shared, Rank& rank, std::size_t index) {
  const ToyRun& run = shared.run;
  for (int step = 0; step < run.steps; ++step) {
    if (step == run.leaves_before && static_cast<int>(index) == run.quits)
      throw std::runtime_error{"quit"};
    if (step == run.leaves_before && static_cast<int>(index) == run.hangs) {
      while (shared.failed.load() + 1 < shared.result.plan.world_size())
        std::this_thread::yield();
      throw std::runtime_error{"hung"};
    }
    const real::StepOutcome outcome = rank.step(step);
    const std::lock_guard lock{shared.mutex};
    const auto replicas = static_cast<double>(run.layout.replicas() * run.layout.tensor_parallel);
    shared.result.loss[static_cast<std::size_t>(step)] +=
        outcome.loss / static_cast<double>(run.layout.micro_batches()) / replicas;
    if (index == 0) shared.result.norm[static_cast<std::size_t>(step)] = outcome.gradient_norm;
    shared.result.spans[index] = outcome.spans;
    shared.result.not_finite[index] = outcome.first_not_finite;
  }
}

void run_rank(Shared& shared, real::Transport& transport) {
  const auto index = static_cast<std::size_t>(transport.rank());
  try {
    Rank rank{shared.run, shared.model, shared.result.plan, transport};
    run_steps(shared, rank, index);
    const std::lock_guard lock{shared.mutex};
    rank.collect(shared.result);
  } catch (const std::exception& error) {
    const std::lock_guard lock{shared.mutex};
    shared.result.failures[index] = error.what();
    ++shared.failed;
  }
}

}  // namespace

sim::TransformerShape gpt_shape() {
  sim::TransformerShape shape;
  shape.name = "toy";
  shape.family = "toy";
  shape.layers = 2;
  shape.hidden = 16;
  shape.heads = 2;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.feed_forward = 32;
  shape.vocabulary = 23;
  shape.max_sequence = 12;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  return shape;
}

sim::TransformerShape llama_shape() {
  sim::TransformerShape shape = gpt_shape();
  shape.norm = sim::NormKind::rms;
  shape.activation = sim::Activation::swiglu;
  shape.positions = sim::Positions::rotary;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.max_sequence = 0;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = false;
  return shape;
}

sim::Layout toy_layout(sim::DType dtype) {
  sim::Layout layout;
  layout.sequence_length = 8;
  layout.global_batch = 8;
  layout.micro_batch = 2;
  layout.compute_dtype = layout.activation_dtype = layout.gradient_dtype = layout.reduce_dtype =
      dtype;
  return layout;
}

ToyResult run_toy(const ToyRun& run) {
  real::set_cuda_environment();
  fakes::set_behaviour(run.behaviour);
  sim::Model model = sim::build_transformer(run.shape);
  if (run.framework != sim::Framework{}) sim::run_with(run.framework, model);
  model.execution.shares_key_heads = run.shares_key_heads;
  model.execution.eight_bit = run.eight_bit;
  for (const sim::LayoutProblem& problem : sim::layout_problems(run.layout, model))
    throw std::logic_error(problem.key + ": " + problem.what);
  Shared shared{.run = run, .model = model};
  shared.result.plan = sim::make_plan(model, run.layout);
  const auto size = static_cast<std::size_t>(shared.result.plan.world_size());
  const auto steps = static_cast<std::size_t>(run.steps);
  shared.result.loss.assign(steps, 0.0);
  shared.result.norm.assign(steps, 0.0);
  shared.result.spans.resize(size);
  shared.result.not_finite.resize(size, -1);
  shared.result.failures.resize(size);
  auto world = real::make_local_world(static_cast<int>(size));
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < size; ++index) {
    threads.emplace_back([&shared, transport = std::move(world[index])]() mutable {
      run_rank(shared, *transport);
      transport.reset();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return std::move(shared.result);
}

}  // namespace cuda_test
