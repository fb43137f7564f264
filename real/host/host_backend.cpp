#include "real/host/host_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "real/engine/operator_facts.hpp"
#include "real/host/arrivals.hpp"
#include "real/host/communication.hpp"
#include "real/host/host_program.hpp"
#include "real/host/parameter_servers.hpp"
#include "real/host/partial_average.hpp"
#include "real/host/server_exchange.hpp"
#include "real/host/stream_schedule.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/meeting.hpp"

namespace real {
namespace {

using sim::OpId;

// The steady clock of the machine: one for all processes on it, so that the spans of their ranks
// can be laid side by side.
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class HostBackend : public Backend {
 public:
  explicit HostBackend(const HostSetup& setup);
  StepOutcome step(const StepInput& input) override;
  void read(std::int64_t offset, std::span<std::byte> to) override;
  void write(std::int64_t offset, std::span<const std::byte> from) override;
  std::int64_t arena_bytes() const override { return setup_.program->arena_bytes; }
  std::int64_t device_bytes_in_use() const override;
  std::vector<LayerLoad> expert_loads() const override {
    return routing_ ? routing_->loads() : std::vector<LayerLoad>{};
  }

 private:
  std::span<std::byte> memory(std::int64_t offset, std::int64_t bytes);
  void begin_program(const StepInput& input);
  void run_step();
  void wait_for_workers();
  bool start_communication();
  std::unique_ptr<HostExchange> exchange_with_servers(const BoundOp& op);
  bool poll_communication();
  bool run_kernel();
  bool pass_over();
  bool is_of_step(OpId op) const {
    return sim::runs_in_step(*setup_.program->program, op, begins_, ends_);
  }
  // Not what is yet to be passed over: it may have become ready since.
  std::optional<OpId> ready(sim::Stream stream) const {
    const std::optional<OpId> op = schedule_.ready(stream);
    return op && is_of_step(*op) ? op : std::nullopt;
  }
  void begin(OpId op);
  void end(OpId op);
  const BoundOp& bound(OpId op) const { return setup_.program->ops[op.value]; }

  HostSetup setup_;
  std::optional<RoutingTables> routing_;
  HostProgram program_;
  std::optional<LostContributions> lost_;
  Communication communication_;
  StreamSchedule schedule_;
  bool scans_ = false;                // looks for numbers that are not finite in all results
  std::optional<int> begins_, ends_;  // fragments that meet in this step (sim/plan/meeting.hpp)
  struct UnderWay {
    OpId op;
    std::unique_ptr<HostExchange> exchange;
  };
  std::vector<UnderWay> under_way_;
  std::vector<Moments> moments_;  // of each operator
  std::int64_t step_ = 0;
  std::vector<std::vector<kernels::Range>> decayed_;  // by bucket
};

std::optional<LostContributions> lost_by(const HostSetup& setup) {
  if (setup.lost_rate == 0) return std::nullopt;
  return LostContributions{.rate = setup.lost_rate, .seed = setup.training.seed};
}

std::optional<RoutingTables> tables_of(const HostSetup& setup) {
  if (!setup.routing || !setup.program->model->has_experts()) return std::nullopt;
  RoutingTables tables{*setup.program, *setup.routing};
  tables.lie_on_host();
  return tables;
}

HostBackend::HostBackend(const HostSetup& setup)
    : setup_{setup},
      routing_{tables_of(setup)},
      program_{*setup.program, setup_.training, routing_ ? &*routing_ : nullptr},
      lost_{lost_by(setup_)},
      communication_{{.program = *setup.program,
                      .algorithms = setup_.algorithms,
                      .transport = *setup.transport,
                      .arena = program_.arena(),
                      .memory = program_.memory(),
                      .routing = routing_ ? &*routing_ : nullptr,
                      .lost = lost_ ? &*lost_ : nullptr}},
      schedule_{*setup.program->program},
      moments_(setup.program->ops.size()) {
  for (const BoundBucket& bucket : setup.program->buckets)
    decayed_.push_back(decay_ranges(bucket));
}

std::unique_ptr<HostBackend> checked(const HostSetup& setup) {
  SIM_CHECK(setup.program != nullptr && setup.transport != nullptr);
  SIM_CHECK(setup.program->ops.size() == setup.program->program->size(), setup.program->ops.size());
  return std::make_unique<HostBackend>(setup);
}

StepOutcome HostBackend::step(const StepInput& input) {
  if (setup_.heartbeat != nullptr) setup_.heartbeat->begin_step(input.step);
  const std::int64_t start = now();
  step_ = input.step;
  communication_.begin_step(input.step);
  wait_for_workers();
  begins_ = sim::meeting_that_begins(setup_.program->plan->layout, input.step);
  ends_ = sim::meeting_that_ends(setup_.program->plan->layout, input.step);
  begin_program(input);
  run_step();
  StepOutcome outcome;
  outcome.time = std::chrono::nanoseconds{now() - start};
  outcome.loss = *program_.memory().loss;
  const float square_sum = *program_.memory().square_sum;
  outcome.gradient_norm = std::sqrt(static_cast<double>(square_sum));
  if (input.record) {
    outcome.spans = share_arrivals({.program = *setup_.program,
                                    .communication = communication_,
                                    .transport = *setup_.transport,
                                    .heartbeat = setup_.heartbeat},
                                   start, moments_);
  }
  const bool alone = setup_.program->plan->layout.updates_on_servers();
  if (setup_.servers != nullptr) setup_.servers->end_step(setup_.program->at.data);
  if (!std::isfinite(square_sum) && !alone) {
    // All ranks have the same norm, so all run the step again. Nothing was updated: it is the same
    // step to the last bit.
    begin_program(input);
    begins_ = ends_ = std::nullopt;  // other ranks may have had a gradient that is finite
    scans_ = true;
    run_step();
    scans_ = false;
    const std::int32_t first = *program_.memory().first_not_finite;
    if (static_cast<std::size_t>(first) < setup_.program->ops.size())
      outcome.first_not_finite = first;
  }
  return outcome;
}

void HostBackend::begin_program(const StepInput& input) {
  program_.begin_step(input);
}

void HostBackend::run_step() {
  schedule_.restart();
  while (!schedule_.finished()) {
    if (pass_over()) continue;
    const bool started = start_communication();
    const bool moved = poll_communication();
    if (run_kernel() || started || moved) continue;
    SIM_CHECK(!under_way_.empty(), "no operator is ready and none is under way");
    if (setup_.heartbeat != nullptr) setup_.heartbeat->waiting();
    setup_.transport->idle();
  }
}

// Operators of meetings that are not in this step.
bool HostBackend::pass_over() {
  bool any = false;
  for (int i = 0; i < sim::stream_count; ++i) {
    const std::optional<OpId> op = schedule_.ready(static_cast<sim::Stream>(i));
    if (!op || is_of_step(*op)) continue;
    schedule_.start(*op);
    schedule_.finish(*op);
    moments_[op->value].begin = moments_[op->value].active = moments_[op->value].end = now();
    any = true;
  }
  return any;
}

// Waits for slower workers, where servers have a bound on staleness.
void HostBackend::wait_for_workers() {
  if (setup_.servers == nullptr) return;
  while (!setup_.servers->may_begin(setup_.program->at.data, step_)) {
    if (setup_.heartbeat != nullptr) setup_.heartbeat->waiting();
    setup_.transport->idle();
  }
}

bool HostBackend::start_communication() {
  bool any = false;
  for (int i = 0; i < sim::stream_count; ++i) {
    const std::optional<OpId> op = ready(static_cast<sim::Stream>(i));
    if (!op || sim::runs_by_itself(bound(*op).kind)) continue;
    begin(*op);
    under_way_.push_back({*op, bound(*op).action == sim::Action::exchange_with_servers
                                   ? exchange_with_servers(bound(*op))
                                   : communication_.start(bound(*op))});
    any = true;
  }
  return any;
}

std::unique_ptr<HostExchange> HostBackend::exchange_with_servers(const BoundOp& op) {
  SIM_CHECK(setup_.servers != nullptr, op.subject);
  const BoundBucket& bucket = setup_.program->buckets.at(op.subject);
  const std::int64_t owned =
      std::clamp<std::int64_t>(bucket.elements - bucket.owned_first, 0, bucket.owned);
  // The elements that the rank owns, in a buffer of these alone or of the whole bucket.
  const auto floats = [&](const Operand& operand) {
    const std::span<std::byte> bytes = program_.arena().bytes(operand);
    auto* first = reinterpret_cast<float*>(bytes.data());
    if (operand.bytes == bucket.padded * static_cast<std::int64_t>(sizeof(float)))
      first += bucket.owned_first;
    return std::span{first, static_cast<std::size_t>(owned)};
  };
  const Operand& gradient = op.operand(sim::Role::input).exists() ? op.operand(sim::Role::input)
                                                                  : op.operand(sim::Role::output);
  return start_server_exchange(*setup_.servers,
                               ServerPush{.rank = setup_.program->at.data,
                                          .step = step_,
                                          .bucket = op.subject,
                                          .gradient = floats(gradient),
                                          .result = floats(op.operand(sim::Role::output)),
                                          .decayed = decayed_.at(op.subject)});
}

bool HostBackend::poll_communication() {
  bool any = false;
  for (std::size_t i = 0; i < under_way_.size();) {
    if (!under_way_[i].exchange->progress()) {
      ++i;
      continue;
    }
    end(under_way_[i].op);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
  }
  return any;
}

// Runs a kernel that is ready: of several, the one that was issued first.
bool HostBackend::run_kernel() {
  std::optional<OpId> next;
  for (int i = 0; i < sim::stream_count; ++i) {
    const std::optional<OpId> op = ready(static_cast<sim::Stream>(i));
    if (op && sim::runs_by_itself(bound(*op).kind) && (!next || *op < *next)) next = op;
  }
  if (!next) return false;
  begin(*next);
  program_.run(next->value);
  end(*next);
  return true;
}

void HostBackend::begin(OpId op) {
  schedule_.start(op);
  if (setup_.heartbeat != nullptr) setup_.heartbeat->begin(op.value);
  moments_[op.value].begin = now();
}

void HostBackend::end(OpId op) {
  Moments& of = moments_[op.value];
  of.active = of.begin;  // of communication: share_arrivals() knows better
  of.end = now();
  schedule_.finish(op);
  if (scans_) program_.scan(op.value);
}

// Memory of the arena, or behind it of the host.
std::span<std::byte> HostBackend::memory(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t behind = offset - setup_.program->arena_bytes;
  return behind >= 0 && bytes > 0 ? program_.host().bytes(behind, bytes)
                                  : program_.arena().bytes(offset, bytes);
}

void HostBackend::read(std::int64_t offset, std::span<std::byte> to) {
  const auto from = memory(offset, static_cast<std::int64_t>(to.size()));
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

void HostBackend::write(std::int64_t offset, std::span<const std::byte> from) {
  const auto to = memory(offset, static_cast<std::int64_t>(from.size()));
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

// Memory that kernels and collectives take for a moment is not counted.
std::int64_t HostBackend::device_bytes_in_use() const {
  return program_.scratch().size();
}

}  // namespace

std::unique_ptr<Backend> make_host_backend(const HostSetup& setup) {
  return checked(setup);
}

}  // namespace real
