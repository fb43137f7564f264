#include "tests/unit/real_host/toy_run.hpp"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "real/engine/initial_weights.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

namespace real_test {
namespace {

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
        parameters_{real::parameters_of(model)},
        pieces_{real::pieces_of(bound_, parameters_)},
        backend_{real::make_host_backend({.program = &bound_,
                                          .transport = &transport,
                                          .training = run.training,
                                          .algorithms = run.algorithms,
                                          .heartbeat = nullptr})} {
    real::write_initial_state(bound_, parameters_, run.training.seed, 1, *backend_);
    constexpr float bad = std::numeric_limits<float>::quiet_NaN();
    for_each_owned([&](const std::string& name, std::int64_t at, std::int64_t offset) {
      if (name == run_.poison && at == 0)
        backend_->write(offset, std::as_bytes(std::span{&bad, 1}));
    });
  }

  real::StepOutcome step(int index) {
    return backend_->step(
        {.step = index, .tokens = tokens_of(run_, index, bound_.at.data), .record = run_.record});
  }

  // The owned elements of every parameter into their places.
  void collect(ToyResult& result) {
    for (const real::Parameter& parameter : parameters_)
      result.weights[parameter.name].resize(static_cast<std::size_t>(parameter.elements()));
    for_each_owned([&](const std::string& name, std::int64_t at, std::int64_t offset) {
      float& to = result.weights[name][static_cast<std::size_t>(at)];
      backend_->read(offset, std::as_writable_bytes(std::span{&to, 1}));
    });
  }

 private:
  // visit(parameter, element of it, offset in the arena)
  template <class Visit>
  void for_each_owned(Visit visit) {
    for (const real::Piece& piece : pieces_) {
      const real::BoundBucket& bucket = bound_.buckets[piece.bucket];
      const bool whole = bucket.weight.bytes == bucket.padded * 4;
      const real::Parameter& parameter = parameters_[piece.parameter];
      const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = piece.first + from + i;
          const std::int64_t own = at - bucket.owned_first;
          if (own < 0 || own >= bucket.owned) continue;
          visit(parameter.name, to + i, bucket.weight.offset + (whole ? at : own) * 4);
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

namespace {

// Gathered is what the threads of all ranks write, one at a time.
struct Gathered {
  ToyResult result;
  std::mutex mutex;
  std::exception_ptr failure;

  void add(const ToyRun& run, std::size_t rank, int step, const real::StepOutcome& outcome) {
    const std::lock_guard lock{mutex};
    // Every tensor rank has the loss of its replica.
    const std::int64_t copies = run.layout.data_parallel * run.layout.tensor_parallel;
    result.loss[static_cast<std::size_t>(step)] +=
        outcome.loss / static_cast<double>(run.layout.micro_batches() * copies);
    if (rank == 0) result.norm[static_cast<std::size_t>(step)] = outcome.gradient_norm;
    result.spans[rank] = outcome.spans;
    result.not_finite[rank] = outcome.first_not_finite;
  }
};

void run_rank(const ToyRun& run, const sim::Model& model, std::size_t index,
              std::unique_ptr<real::Transport> transport, Gathered& gathered) {
  try {
    const std::unique_ptr<real::Transport> own = std::move(transport);
    Rank rank{run, model, gathered.result.plan, *own};
    for (int step = 0; step < run.steps; ++step) {
      if (step == 1 && static_cast<int>(index) == run.quits) throw std::runtime_error{"quit"};
      gathered.add(run, index, step, rank.step(step));
    }
    const std::lock_guard lock{gathered.mutex};
    rank.collect(gathered.result);
  } catch (const real::RankFailure&) {
    // Another rank's failure ends this one so.
    const std::lock_guard lock{gathered.mutex};
    ++gathered.result.ended_by_others;
  } catch (...) {
    const std::lock_guard lock{gathered.mutex};
    if (gathered.failure == nullptr) gathered.failure = std::current_exception();
  }
}

}  // namespace

ToyResult run_toy(const ToyRun& run) {
  const sim::Model model = sim::build_transformer(run.shape);
  for (const sim::LayoutProblem& problem : sim::layout_problems(run.layout, model))
    FAIL(problem.key << ": " << problem.what);
  Gathered gathered;
  ToyResult& result = gathered.result;
  result.plan = sim::make_plan(model, run.layout);
  const auto size = static_cast<std::size_t>(result.plan.world_size());
  result.loss.assign(static_cast<std::size_t>(run.steps), 0.0);
  result.norm.assign(static_cast<std::size_t>(run.steps), 0.0);
  result.spans.resize(size);
  result.not_finite.resize(size, -1);
  auto world = real::make_local_world(static_cast<int>(size));
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < size; ++index) {
    threads.emplace_back(
        [&, index] { run_rank(run, model, index, std::move(world[index]), gathered); });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (gathered.failure != nullptr) std::rethrow_exception(gathered.failure);
  CHECK(result.ended_by_others == 0);
  return std::move(result);
}

}  // namespace real_test
