// How many GPUs, of which kind: for each number the best layout, and what it takes in time, money
// and energy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/capacity/wish.hpp"
#include "sim/economics/budget_report.hpp"
#include "sim/search/result.hpp"

namespace sim {

// The best layout on one number of GPUs of one cluster.
struct CapacityPoint {
  std::string cluster{}, device{};
  int gpus = 0;
  RankedLayout best{};
  std::string layout{};       // in words
  std::string runner_up{};    // the second best and what it takes longer; empty: there is none
  bool leaves_margin = true;  // false: it fits within the error of the memory forecast alone
  Bytes capacity{};           // of the device
  std::optional<BudgetForecast> run{};  // of the wish's tokens
  double chance = 1;                    // to keep the deadline and the money
  std::optional<double> cost{};         // mean rent, and what it is below with the confidence
  std::optional<double> cost_at_most{};
  double kwh = 0;             // in the mean
  std::vector<Help> helps{};  // what would raise the goodput, best first
  // The states that lie on the host, as a key: "offload.optimizer"; empty: nothing.
  std::string offloaded() const;
  // The rent; the GPU-hours where no price is given.
  double price() const { return cost ? *cost : days() * 24 * gpus; }
  double days() const { return run ? in_days(run->rented.expected) : 0; }
};

// A number of GPUs on which no layout fits, or none divides the job.
struct CapacityMiss {
  std::string cluster{};
  int gpus = 0;
  std::string why{};
};

enum class CapacityGoal : std::uint8_t { fewest_that_fit, fewest, cheapest, fastest, least_energy };

struct CapacityAnswer {
  CapacityGoal goal = CapacityGoal::fewest;
  std::size_t point = 0;  // of CapacityPlan::points
  std::string binds{};    // what keeps it from being better
};

struct CapacityPlan {
  CapacityWish wish{};
  std::string model{};
  std::vector<CapacityPoint> points{};  // by cluster, then GPUs
  std::vector<CapacityMiss> misses{};
  std::vector<CapacityAnswer> answers{};
  std::vector<std::size_t> front{};  // neither slower nor dearer than another; by days
  std::string closest{};  // no point keeps the wish: what is closest, and which wish to drop
  std::string measure{};  // what a measured run would tell; empty: nothing to say
  bool is_yes() const { return closest.empty() && !answers.empty(); }
};

// Looked is called with each number of GPUs once it is known: the plan so far, without its answers,
// and what was found there in a line.
using Looked = std::function<void(const CapacityPlan& so_far, const std::string& line)>;

// Throws InputError, for a job or cluster with a mistake; Stopped.
CapacityPlan plan_capacity(const CapacityWish& wish, const Control& control = {},
                           const Looked& looked = {});

// The scenario of a point: the job with the point's layout on its GPUs. Throws InputError.
Scenario point_scenario(const CapacityWish& wish, const CapacityPoint& point);

// The numbers of GPUs that are looked at: parts of a node, then nodes in steps of a half or a
// third.
std::vector<int> gpu_ladder(int node_gpus, int most);
// How many they are over all clusters of the wish, at most. Throws InputError.
std::size_t count_numbers(const CapacityWish& wish);

// Whether a point leaves the memory margin, and keeps the deadline and the money with the
// confidence.
bool keeps(const CapacityWish& wish, const CapacityPoint& point);

std::string capacity_table(const CapacityPlan& plan);
std::string capacity_markdown(const CapacityPlan& plan);
std::string capacity_csv(const CapacityPlan& plan);
std::string capacity_json(const CapacityPlan& plan);

// The words of a goal: "fewest GPUs that fit".
std::string_view goal_words(CapacityGoal goal, bool with_deadline);

}  // namespace sim
