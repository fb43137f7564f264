#include "real/jobs/elastic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>

#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::chrono::milliseconds look_period{5};

int replica_of(const Crew& crew, int rank) {
  return sim::coordinates_of(crew.plan.layout, sim::RankId{static_cast<std::uint32_t>(rank)}).data;
}

}  // namespace

std::vector<std::string> elastic_problems(const sim::Layout& layout) {
  std::vector<std::string> problems;
  const auto refuse = [&](const char* key, const char* why, const char* allowed) {
    problems.push_back(fmt::format("--elastic: {}: {}; allowed: {}", key, why, allowed));
  };
  if (layout.zero_stage > 0)
    refuse("layout.zero_stage", "what a lost rank owned is on no other rank", "0");
  if (layout.expert_parallel > 1)
    refuse("layout.expert_parallel", "the experts of a lost rank are on no other rank", "1");
  if (layout.trains_apart())
    refuse("layout.local_steps", "ranks have parameters of their own", "every: 1");
  if (layout.has_servers())
    refuse("layout.servers", "the servers count on all their workers", "mode: none");
  if (layout.data_parallel < 2)
    refuse("layout.data_parallel", "there is no other replica to go on with", "2 or more");
  return problems;
}

sim::Layout without_a_replica(sim::Layout layout, const sim::Model& model, ElasticBatch batch) {
  const std::int64_t per_replica = layout.global_batch / layout.data_parallel;
  --layout.data_parallel;
  if (batch == ElasticBatch::fixed_batch_per_replica)
    layout.global_batch = per_replica * layout.data_parallel;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument{
        fmt::format("--elastic {}: with {} replica{} the job cannot go on: {}{}", sim::word(batch),
                    layout.data_parallel, layout.data_parallel == 1 ? "" : "s", why,
                    batch == ElasticBatch::fixed_batch
                        ? "; fixed_batch_per_replica keeps the batch of a replica"
                        : "")};
  };
  if (layout.data_parallel < 1) refuse("none is left");
  if (const auto problems = layout_problems(layout, model); !problems.empty())
    refuse(problems.front().what);
  return layout;
}

Regrouping::Regrouping(sim::Plan first, const sim::Model& model, ElasticBatch batch)
    : model_{model}, batch_{batch} {
  crews_.push_back(std::make_unique<Crew>(Crew{std::move(first)}));
}

// A replica that lost a rank stops as a whole.
bool Regrouping::goes_on(int rank) const {
  const Crew& crew = *crews_.back();
  return std::ranges::none_of(
      lost_, [&](int lost) { return replica_of(crew, lost) == replica_of(crew, rank); });
}

bool Regrouping::leave(const Crew& crew, int rank) {
  const std::lock_guard lock{mutex_};
  if (&crew != crews_.back().get()) return true;  // its replica was given up before
  lost_.push_back(rank);
  std::erase_if(come_, [&](const auto& one) { return !goes_on(one.first); });
  form_if_all_have_come();
  for (int other = 0; other < crew.plan.world_size(); ++other)
    if (&crew != crews_.back().get() || goes_on(other)) return true;
  return false;
}

void Regrouping::form_if_all_have_come() {
  const int ranks = crews_.back()->plan.world_size();
  for (int rank = 0; rank < ranks; ++rank)
    if (goes_on(rank) && !come_.contains(rank)) return;
  try {
    form_next();
  } catch (const std::exception& error) {
    refusal_ = error.what();
  }
  changed_.notify_all();
}

void Regrouping::form_next() {
  const Crew& now = *crews_.back();
  std::set<int> replicas;
  for (const int rank : lost_)
    replicas.insert(replica_of(now, rank));
  sim::Layout layout = now.plan.layout;
  for (std::size_t i = 0; i < replicas.size(); ++i)
    layout = without_a_replica(layout, model_, batch_);
  const std::int64_t step = come_.begin()->second;
  for (const auto& [rank, at] : come_)
    if (at != step)
      throw std::runtime_error{fmt::format(
          "ranks {} and {} cannot go on together: one is at step {}, the other at step {}",
          come_.begin()->first, rank, step, at)};
  auto next = std::make_unique<Crew>(Crew{sim::make_plan(model_, layout), now.lost});
  for (const int rank : lost_)
    next->lost.push_back({.rank = rank,
                          .step = step,
                          .replicas = layout.data_parallel,
                          .global_batch = layout.global_batch});
  std::vector<std::unique_ptr<Transport>> world = make_local_world(next->plan.world_size());
  SIM_CHECK(world.size() == come_.size(), world.size(), come_.size());
  // In the order of their ranks: the coordinates but for the replica stay.
  places_.clear();
  std::size_t place = 0;
  for (const auto& [rank, at] : come_)
    places_.emplace(rank, std::move(world[place++]));
  come_.clear();
  lost_.clear();
  crews_.push_back(std::move(next));
}

std::optional<Regrouping::Place> Regrouping::join(const Crew& crew, int rank, std::int64_t step,
                                                  Heartbeat& heartbeat) {
  std::unique_lock lock{mutex_};
  if (&crew != crews_.back().get()) return Place{};
  if (lost_.empty()) return std::nullopt;
  if (!goes_on(rank)) return Place{};
  come_.emplace(rank, step);
  form_if_all_have_come();
  while (&crew == crews_.back().get()) {
    if (!refusal_.empty()) throw SharedFailure{refusal_};
    if (!goes_on(rank)) return Place{};
    changed_.wait_for(lock, look_period);
    heartbeat.waiting();
  }
  return Place{crews_.back().get(), std::move(places_.at(rank))};
}

}  // namespace real
