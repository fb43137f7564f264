#include "tests/unit/real_cuda/toy.hpp"

#include <atomic>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "real/cuda/environment.hpp"
#include "real/engine/initial_weights.hpp"
#include "real/engine/rank_state.hpp"
#include "real/host/host_backend.hpp"

namespace cuda_test {
namespace {

// Every token follows from the one before it.
std::vector<std::int32_t> tokens_of(const ToyRun& run, int step, int replica) {
  const sim::Layout& layout = run.layout;
  const std::int64_t packed = layout.sequence_length / layout.attended_length();
  const std::int64_t rows = layout.micro_batches() * layout.micro_batch * packed;
  std::vector<std::int32_t> tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    // Replicas take turns, so that every layout sees the same rows in a step.
    const std::int64_t global = row * layout.data_parallel + replica;
    std::int64_t token = (step * 31 + global * 7) % run.shape.vocabulary;
    for (std::int64_t i = 0; i <= layout.attended_length(); ++i) {
      tokens.push_back(static_cast<std::int32_t>(token));
      token = (token * 5 + 3) % run.shape.vocabulary;
    }
  }
  return tokens;
}

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
        parameters_{real::parameters_of(model)},
        pieces_{real::pieces_of(bound_, parameters_)},
        backend_{make_backend(run, bound_, transport)} {
    real::write_initial_state(bound_, parameters_, run.training.seed, 1, *backend_);
    if (!run.poison.empty()) poison();
  }

  real::StepOutcome step(int index) {
    return backend_->step(
        {.step = index, .tokens = tokens_of(run_, index, bound_.at.data), .record = run_.record});
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
    const auto replicas =
        static_cast<double>(run.layout.data_parallel * run.layout.tensor_parallel);
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
