#include "real/engine/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "real/engine/collective_summary.hpp"
#include "real/engine/initial_weights.hpp"
#include "real/engine/operator_name.hpp"
#include "sim/base/check.hpp"
#include "sim/schedule/placement.hpp"

namespace real {
namespace {

// RankStep is what a rank reports of a step.
struct RankStep {
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t picoseconds = 0;
  std::int64_t first_not_finite = -1;
};

// The first of several ranks' findings, from which the others follow: numbers flow from the first
// chunk to the last in the forward pass, and back.
std::string first_culprit(const sim::Plan& plan, const std::vector<RankStep>& ranks) {
  using Order = std::tuple<int, int, int, std::int64_t, int>;
  std::optional<Order> first;
  std::string name;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::int64_t op = ranks[r].first_not_finite;
    const sim::Program& program = plan.program(sim::RankId{static_cast<std::uint32_t>(r)});
    if (op < 0 || op >= static_cast<std::int64_t>(program.size())) continue;
    const auto i = static_cast<std::size_t>(op);
    const bool forward = program.pass[i] == sim::Pass::forward;
    const int chunk = program.label[i].chunk;
    const Order order{forward ? 0 : 1, program.label[i].microbatch, forward ? chunk : -chunk, op,
                      static_cast<int>(r)};
    if (first && *first <= order) continue;
    first = order;
    name = fmt::format("on rank {} by {}", r, operator_name(plan, static_cast<int>(r), op));
  }
  return name.empty() ? "where, no rank can tell" : name;
}

}  // namespace

Trainer::Trainer(const TrainerSetup& setup)
    : setup_{setup},
      control_{*setup.transport, setup.heartbeat},
      parameters_{parameters_of(*setup.program->model)} {
  SIM_CHECK(control_.size() == setup.program->plan->world_size(), control_.size());
  SIM_CHECK(control_.rank() == static_cast<int>(setup.program->rank.value), control_.rank());
}

void Trainer::start() {
  if (setup_.heartbeat != nullptr) setup_.heartbeat->enter(RankPhase::preparing);
  write_initial_state(*setup_.program, parameters_, setup_.training.seed, setup_.threads,
                      *setup_.backend);
  next_step_ = 0;
  control_.barrier();
}

void Trainer::go_on(const KeptState& kept) {
  if (setup_.heartbeat != nullptr) setup_.heartbeat->enter(RankPhase::preparing);
  restore_state(kept, *setup_.program, parameters_, *setup_.backend);
  next_step_ = kept.next_step;
  control_.barrier();
}

KeptState Trainer::keep() {
  return keep_state(*setup_.program, parameters_, *setup_.backend, next_step_);
}

StepOutcome Trainer::run_step(bool record, bool together) {
  const BoundProgram& program = *setup_.program;
  const std::vector<std::int32_t> tokens =
      tokens_of_rank(*setup_.samples, program.plan->layout, setup_.training.seed, next_step_,
                     program.at.data, program.at.context);
  // All ranks start together: what one does between steps is no waiting of the next.
  if (together) control_.barrier();
  StepOutcome outcome =
      setup_.backend->step({.step = next_step_, .tokens = tokens, .record = record});
  if (record) {
    SIM_CHECK(outcome.spans.size() == program.ops.size(), outcome.spans.size());
    spans_ = std::move(outcome.spans);
  }
  std::vector<LayerLoad> loads = setup_.backend->expert_loads();
  if (!loads.empty()) loads_.push_back({next_step_, std::move(loads)});
  return outcome;
}

StepResult Trainer::step(bool record) {
  const StepResult result = agree_on(run_step(record, true));
  ++next_step_;
  return result;
}

StepResult Trainer::step_alone() {
  const StepOutcome outcome = run_step(false, false);
  const StepResult result{
      .step = next_step_,
      .loss = outcome.loss / static_cast<double>(setup_.program->plan->layout.micro_batches()),
      .gradient_norm = outcome.gradient_norm,
      .learning_rate = setup_.training.learning_rate.at(next_step_),
      .time = outcome.time};
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
    throw std::runtime_error(fmt::format("step {}: {} is not finite", next_step_,
                                         std::isfinite(result.loss) ? "the gradient" : "the loss"));
  ++next_step_;
  return result;
}

std::vector<StepResult> Trainer::agree_on(const std::vector<StepResult>& own) {
  const std::vector<std::size_t> sizes = control_.all(own.size());
  std::vector<StepResult> steps{
      own.begin(), own.begin() + static_cast<std::ptrdiff_t>(*std::ranges::min_element(sizes))};
  for (StepResult& step : steps) {
    const std::vector<RankStep> ranks =
        control_.all(RankStep{step.loss, step.gradient_norm, step.time.count(), -1});
    step.loss = 0;
    step.time = {};
    for (const RankStep& rank : ranks) {
      step.loss += rank.loss / static_cast<double>(ranks.size());
      step.time += sim::Duration{rank.picoseconds / static_cast<std::int64_t>(ranks.size())};
    }
    step.gradient_norm = ranks.front().gradient_norm;
  }
  return steps;
}

StepResult Trainer::agree_on(const StepOutcome& outcome) {
  const sim::Plan& plan = *setup_.program->plan;
  const std::vector<RankStep> ranks = control_.all(RankStep{
      outcome.loss, outcome.gradient_norm, outcome.time.count(), outcome.first_not_finite});
  StepResult result{.step = next_step_,
                    .learning_rate = setup_.training.learning_rate.at(next_step_)};
  const sim::Placement placement{plan.layout};
  const int last = placement.rank_of(placement.chunks() - 1);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const sim::RankCoordinates at =
        sim::coordinates_of(plan.layout, sim::RankId{static_cast<std::uint32_t>(r)});
    if (at.pipeline == last && at.tensor == 0) result.loss += ranks[r].loss;
    result.time = std::max(result.time, sim::Duration{ranks[r].picoseconds});
  }
  // The mean over all micro-batches, and over the ranks of a sequence: each has as many tokens.
  result.loss /= static_cast<double>(plan.layout.step_batches() * plan.layout.context_parallel);
  result.gradient_norm = ranks.front().gradient_norm;
  const bool found = std::any_of(ranks.begin(), ranks.end(),
                                 [](const RankStep& rank) { return rank.first_not_finite >= 0; });
  if (found || !std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
    throw NotFinite{fmt::format("step {}: {} is not finite; first made {}", next_step_,
                                std::isfinite(result.loss) ? "the gradient" : "the loss",
                                first_culprit(plan, ranks))};
  return result;
}

std::optional<sim::Timeline> Trainer::timeline(const std::string& engine,
                                               const Algorithms& algorithms) {
  const sim::Plan& plan = *setup_.program->plan;
  sim::Timeline timeline;
  timeline.engine = engine;
  for (int r = 0; r < control_.size(); ++r) {
    const sim::RankId rank{static_cast<std::uint32_t>(r)};
    std::vector<sim::Span> spans(plan.program(rank).size());
    if (r == control_.rank()) spans = spans_;
    control_.to_root(r, std::as_writable_bytes(std::span{spans}));
    if (control_.rank() == 0)
      timeline.tracks.push_back({.rank = rank, .represents = 1, .spans = std::move(spans)});
  }
  if (control_.rank() != 0) return std::nullopt;
  for (const sim::RankTrack& track : timeline.tracks) {
    for (const sim::Span& span : track.spans)
      timeline.end = std::max(timeline.end, span.end);
  }
  timeline.collectives = summarise_collectives(plan, timeline, algorithms);
  return timeline;
}

// Ranks have different layers: each adds its own to a table of all, which goes from rank to rank.
std::vector<StepLoads> Trainer::expert_loads() {
  const sim::Model& model = *setup_.program->model;
  if (!model.has_experts()) return {};
  const auto layers = model.layers.size();
  const auto experts = static_cast<std::size_t>(model.shape->experts.count);
  const std::vector<std::size_t> steps = control_.all(loads_.size());
  const std::size_t count = *std::min_element(steps.begin(), steps.end());
  std::vector<std::int64_t> sums(count * layers * experts, 0);
  for (int r = 0; r < control_.size(); ++r) {
    std::vector<std::int64_t> own(sums.size(), 0);
    if (r == control_.rank())
      for (std::size_t step = 0; step < count; ++step)
        for (const LayerLoad& load : loads_[step].layers)
          std::copy(
              load.tokens.begin(), load.tokens.end(),
              own.begin() + static_cast<std::ptrdiff_t>(
                                (step * layers + static_cast<std::size_t>(load.layer)) * experts));
    control_.to_root(r, std::as_writable_bytes(std::span{own}));
    if (control_.rank() == 0)
      std::transform(sums.begin(), sums.end(), own.begin(), sums.begin(), std::plus{});
  }
  if (control_.rank() != 0) return {};
  std::vector<StepLoads> all;
  for (std::size_t step = 0; step < count; ++step) {
    StepLoads& made = all.emplace_back(StepLoads{loads_[step].step, {}});
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const auto from =
          sums.begin() + static_cast<std::ptrdiff_t>((step * layers + layer) * experts);
      const std::vector<std::int64_t> tokens(from, from + static_cast<std::ptrdiff_t>(experts));
      if (std::any_of(tokens.begin(), tokens.end(), [](std::int64_t n) { return n > 0; }))
        made.layers.push_back({static_cast<std::int64_t>(layer), tokens});
    }
  }
  return all;
}

std::vector<RankMemory> Trainer::memory() {
  return control_.all(
      RankMemory{setup_.backend->arena_bytes(), setup_.backend->device_bytes_in_use()});
}

}  // namespace real
