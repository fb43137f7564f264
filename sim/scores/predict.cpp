#include "sim/scores/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/base/work.hpp"
#include "sim/engine/unfolded.hpp"
#include "sim/report/memory_kinds.hpp"
#include "sim/report/report.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

// From the first begin to the last end of what is added.
struct Extent {
  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();
  void add(const Span& span) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  Duration length() const { return end < begin ? Duration{} : end - begin; }
};

bool of_backward(Pass pass) {
  return pass == Pass::recompute || pass == Pass::backward || pass == Pass::weight_backward;
}

Duration layer_time_of(const Program& program, const RankTrack& track, int layer) {
  Extent forward, backward;
  for (const Span& span : track.spans) {
    if (program.label[span.op.value].layer != layer) continue;
    const Pass pass = program.pass[span.op.value];
    if (pass == Pass::forward) forward.add(span);
    if (of_backward(pass)) backward.add(span);
  }
  return forward.length() + backward.length();
}

void leave_out(Mechanism mechanism, SimulationOptions& options) {
  switch (mechanism) {
    case Mechanism::none:
    case Mechanism::framework:  // of the model
      break;
    case Mechanism::link_contention:
      options.link_contention = false;
      break;
    case Mechanism::waves:
      options.waves = Waves::fractional;
      break;
    case Mechanism::host_issue:
      options.free_host = true;
      break;
    case Mechanism::device_spread:
      options.device_spread = options.jitter = 0;
      break;
    case Mechanism::interference:
      options.interference = false;
      break;
    case Mechanism::persistent:
      options.persistent = false;
      break;
    case Mechanism::measured:
      options.measured = false;
      break;
  }
}

// The overrides that make every kernel of a scenario fused.
std::vector<std::string> all_fused() {
  std::vector<std::string> overrides;
  for (const char* part : {"layer_norm", "rms_norm", "qkv", "rotary", "key_heads", "gate",
                           "softmax", "loss", "optimizer", "token_collectives", "weight_gathers"})
    overrides.push_back(fmt::format("framework.{}=fused", part));
  return overrides;
}

Bytes peak_activations(const Plan& plan) {
  Bytes most{};
  for (const Program& program : plan.programs)
    most = std::max(
        most, memory_use(program).peak_of[static_cast<std::size_t>(BufferCategory::activations)]);
  return most;
}

// The activations of `plan` as a share of those without sequence parallelism and recomputation.
double activation_share(const Scenario& it, const Plan& plan) {
  Layout baseline = it.layout;
  baseline.sequence_parallel = false;
  baseline.recompute = Recompute::none;
  baseline.recompute_modules.clear();
  const Bytes whole = peak_activations(make_plan(it.model, baseline));
  const Bytes part = peak_activations(plan);
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

// The most that is simulated of a row, rank by rank: ten seconds. A table has many rows.
constexpr std::uint64_t million = 1'000'000, most_activities = 100 * million;

void require_simulable(const Plan& plan, const SimulationOptions& options) {
  const std::uint64_t activities = unfolded_activities(plan, options);
  if (activities <= most_activities) return;
  throw NotSimulated(
      fmt::format("the step has {} million operators and messages, rank by rank; allowed of a row: "
                  "{} million. Leave out simulation.jitter, simulation.fold and "
                  "simulation.collectives, or forecast the row alone: stepcast validate emit, "
                  "stepcast simulate",
                  activities / million, most_activities / million));
}

// Fills in the time and what is asked for of the timeline.
void add_time(const MeasuredSet& set, const Plan& plan, const Scenario& it,
              const std::string& scenario, bool traits, const Control& control,
              Prediction& prediction) {
  if (plan.layout.trains_apart())
    throw InputError{SourcePosition{scenario, 0, 0},
                     "layout.local_steps: a row is one step, and has no meetings"};
  if (plan.layout.has_servers())
    throw InputError{SourcePosition{scenario, 0, 0},
                     "layout.servers: a row is one step, without parameter servers"};
  SimulationOptions options = it.options;
  require_simulable(plan, options);
  options.record_spans = traits || set.quantity == Quantity::layer;
  const Simulation simulation = simulate(plan, it.cluster, options, control);
  const Duration time = set.quantity == Quantity::layer
                            ? layer_time(plan, simulation.timeline, set.layer)
                            : simulation.timeline.end.time_since_epoch();
  if (time <= Duration{})
    throw InputError{SourcePosition{scenario, 0, 0},
                     fmt::format("the model has no layer {}", set.layer)};
  prediction.time = time;
  if (traits && set.quantity == Quantity::step)
    prediction.traits = traits_of(
        it, step_shares(plan, simulation.timeline, mean_breakdown(plan, simulation.timeline)));
}

// first_alone(): measured runs print what PyTorch's allocator has taken: torchtitan the most of any
// GPU, NeMo that of rank 0 (nemo/collections/nlp/models/language_modeling/megatron_gpt_model.py,
// "peak_memory_usage": max_memory_reserved(), rank_zero_only).
bool first_alone(const MeasuredRow& row) {
  return row.cells &&
         (*row.cells)["mem_metric"].find("peak_memory_usage") != std::string_view::npos;
}

Bytes reserved_memory(const MeasuredRow& row, const Plan& plan, PlanMemory& memory,
                      const Device& device) {
  const Bytes room = device.memory - device.reserved;
  const std::vector<Program>& programs = plan.memory_programs();
  Bytes most{};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (first_alone(row) && programs[i].stage > 0) continue;
    most = std::max(most, memory.held(i, room).reserved);
  }
  return most;
}

// counts_tensors() holds where the row has the peak of the tensors alone
// (torch.cuda.max_memory_allocated).
bool counts_tensors(const MeasuredRow& row) {
  return row.cells &&
         (*row.cells)["mem_metric"].find("max_memory_allocated") != std::string_view::npos;
}

Bytes most_tensors(const std::vector<StageMemory>& stages) {
  Bytes most{};
  for (const StageMemory& stage : stages)
    most = std::max(most, stage.use.peak);
  return most;
}

// replayed_fragments() is what the allocator holds besides the tensors of a stage, by a replay.
Bytes replayed_fragments(const Plan& plan, PlanMemory& memory, const Device& device,
                         const StageMemory& of) {
  const std::vector<Program>& programs = plan.memory_programs();
  Bytes most{};
  for (std::size_t i = 0; i < programs.size(); ++i)
    if (programs[i].stage == of.stage)
      most = std::max(most, memory.held(i, device.memory - of.reserved).reserved);
  return std::max(Bytes{}, most - of.use.peak);
}

// How much more than forecast five runs printed that they had reserved (validation/MEMORY.md, "What
// the figures leave out"). Rows of tensors alone take them in turn, by their names.
double replay_error(const MeasuredRow& row) {
  constexpr std::array shares{-0.008, 0.009, 0.015, 0.043, 0.046};
  std::uint64_t hash = 0;
  for (const char c : row.id)
    hash = mix64(hash ^ static_cast<unsigned char>(c));
  return shares[hash % shares.size()];
}

// memory_excess() is what a measured run needed beyond what `memory` says of it. Where its tensors
// alone were measured, it needed what the allocator holds besides them, too, as the replay has it,
// with the error of such replays.
double memory_excess(const MeasuredRow& row, const Plan& plan, PlanMemory& memory,
                     const Device& device, const std::vector<StageMemory>& stages) {
  const StageMemory& told = first_alone(row)
                                ? stages.front()
                                : *std::max_element(stages.begin(), stages.end(),
                                                    [](const StageMemory& a, const StageMemory& b) {
                                                      return a.total < b.total;
                                                    });
  Bytes needed = *row.memory + told.reserved;
  if (counts_tensors(row)) needed += replayed_fragments(plan, memory, device, told);
  const double beyond = counts_tensors(row) ? replay_error(row) : 0;
  return static_cast<double>(needed.count()) / static_cast<double>(told.total.count()) - 1 + beyond;
}

// Forecasted is a forecast of a scenario, made once for all rows that have this scenario.
struct Forecasted {
  Scenario it;
  Plan plan;
  PlanMemory memory;
  std::vector<StageMemory> stages;
  Prediction prediction;  // without what each row says

  Forecasted(Scenario scenario, Plan made)
      : it{std::move(scenario)}, plan{std::move(made)}, memory{plan} {}
  Forecasted(Forecasted&&) = delete;
};

void add_memory(Forecasted& of) {
  Prediction& prediction = of.prediction;
  prediction.fits = true;
  of.stages = of.memory.stages(of.it.cluster);
  for (const StageMemory& stage : of.stages) {
    prediction.peak_memory = std::max(prediction.peak_memory, stage.total);
    prediction.plan_memory = std::max(prediction.plan_memory, stage.use.peak + stage.fragments);
    prediction.fits = prediction.fits && stage.fits();
  }
}

std::unique_ptr<Forecasted> forecast_once(const MeasuredSet& set, const MeasuredRow& row,
                                          Scenario it, const PredictOptions& options,
                                          const Control& control) {
  leave_out(options.without, it.options);
  if (set.quantity == Quantity::layer && it.layout.micro_batches() != 1)
    throw InputError{SourcePosition{row.scenario, 0, 0},
                     "a layer is timed in a step of one micro-batch"};
  Plan plan = make_plan(it.model, it.layout);
  auto made = std::make_unique<Forecasted>(std::move(it), std::move(plan));
  Prediction& prediction = made->prediction;
  if (row.outcome != Outcome::analytic)
    add_time(set, made->plan, made->it, row.scenario, options.traits, control, prediction);
  add_memory(*made);
  prediction.framework = made->it.framework.name;
  prediction.schedule = made->it.layout.schedule;
  prediction.capacity = made->it.cluster.device().memory;
  prediction.device = made->it.cluster.device().name;
  prediction.gpus = made->it.layout.world_size();
  return made;
}

Prediction prediction_of(const MeasuredRow& row, Forecasted& of) {
  Prediction prediction = of.prediction;
  const Device& device = of.it.cluster.device();
  if (row.memory && row.outcome == Outcome::ran) {
    prediction.memory_excess = memory_excess(row, of.plan, of.memory, device, of.stages);
    prediction.memory_kinds = memory_kinds(of.it.framework.name, of.it.layout, of.it.model);
    prediction.plan_memory = counts_tensors(row) ? most_tensors(of.stages)
                                                 : reserved_memory(row, of.plan, of.memory, device);
  }
  if (row.memory && row.outcome == Outcome::analytic)
    prediction.plan_memory = most_tensors(of.stages);
  if (row.activation_share) prediction.activation_share = activation_share(of.it, of.plan);
  return prediction;
}

}  // namespace

double RowResult::error() const {
  SIM_CHECK(prediction && row.has_time(), row.id);
  const double measured = to_seconds(row.measured);
  return (to_seconds(prediction->time) - measured) / measured;
}

double RowResult::memory_error() const {
  SIM_CHECK(prediction && row.has_memory(), row.id);
  if (!row.memory)
    return (prediction->activation_share - *row.activation_share) / *row.activation_share;
  const auto measured = static_cast<double>(row.memory->count());
  return (static_cast<double>(prediction->plan_memory.count()) - measured) / measured;
}

std::string reason_in_a_line(const std::runtime_error& error) {
  std::string text = error.what();
  if (const auto* input = dynamic_cast<const InputError*>(&error)) {
    const Problem& first = input->problems().front();
    text = fmt::format("{}:{}: {}", first.where.file, first.where.line, first.what);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Duration layer_time(const Plan& plan, const Timeline& timeline, int layer) {
  for (const RankTrack& track : timeline.tracks) {
    const Duration time = layer_time_of(plan.program(track.rank), track, layer);
    if (time > Duration{}) return time;
  }
  return {};
}

Scenario row_scenario(const MeasuredSet& set, const MeasuredRow& row, Mechanism without) {
  const bool fused = without == Mechanism::framework;
  Scenario scenario =
      row.cells ? run_scenario(*row.cells, set.data_folder,
                               fused ? KernelForms::all_fused : KernelForms::of_framework)
                : load_scenario(row.scenario, fused ? all_fused() : std::vector<std::string>{});
  if (fused) scenario.names_framework = false;
  return scenario;
}

std::vector<RowResult> predict(const MeasuredSet& set, std::span<const MeasuredRow* const> rows,
                               const PredictOptions& options, const Control& control) {
  throw_if_stopped(control);
  std::vector<RowResult> results;
  for (const MeasuredRow* row : rows)
    results.push_back({.row = *row, .prediction = {}, .skipped = row->unreadable});
  const MeasuredRow& first = *rows.front();
  if (!first.unreadable.empty()) return results;
  count_work(Work::rows_forecast, rows.size());
  try {
    const std::unique_ptr<Forecasted> made =
        forecast_once(set, first, row_scenario(set, first, options.without), options, control);
    for (RowResult& result : results)
      result.prediction = prediction_of(result.row, *made);
  } catch (const std::runtime_error& error) {
    for (RowResult& result : results)
      result.skipped = reason_in_a_line(error);
  }
  return results;
}

RowResult predict(const MeasuredSet& set, const MeasuredRow& row, const PredictOptions& options,
                  const Control& control) {
  return predict(set, std::array{&row}, options, control).front();
}

}  // namespace sim
