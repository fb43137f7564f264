// How many GPUs: answers against what each number of GPUs by itself says.
#include "sim/capacity/capacity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

CapacityWish small_wish() {
  CapacityWish wish;
  wish.workload.model = "llama-3.2-1b";
  wish.workload.global_batch = 64;
  wish.workload.sequence_length = 4096;
  wish.workload.overrides = {"search.schedule=1f1b", "search.micro_batch=1", "budget.runs=200"};
  wish.clusters = {"dgx-h100"};
  wish.tokens = 1e11;
  wish.most_gpus = 32;
  return wish;
}

const CapacityPoint* chosen(const CapacityPlan& plan, CapacityGoal goal) {
  for (const CapacityAnswer& answer : plan.answers)
    if (answer.goal == goal) return &plan.points[answer.point];
  return nullptr;
}

Seconds days(double count) {
  return Seconds{86400 * count};
}

}  // namespace

TEST_CASE("capacity: numbers of GPUs are parts of a node, then nodes") {
  CHECK(gpu_ladder(8, 100) == std::vector<int>{1, 2, 4, 8, 16, 24, 32, 48, 64, 96});
  CHECK(gpu_ladder(8, 3) == std::vector<int>{1, 2});
  CHECK(gpu_ladder(72, 150) == std::vector<int>{1, 2, 4, 8, 16, 32, 64, 72, 144});
  CHECK(gpu_ladder(1, 6) == std::vector<int>{1, 2, 3, 4, 6});
}

TEST_CASE("capacity: each point is what a search of that number of GPUs finds") {
  CapacityWish wish = small_wish();
  const CapacityPlan plan = plan_capacity(wish);
  REQUIRE(plan.points.size() >= 5);
  for (const CapacityPoint& point : plan.points) {
    Workload workload = wish.workload;
    workload.cluster = point.cluster;
    workload.gpus = point.gpus;
    Search search{load_search(workload_sources(workload))};
    run_search(search);
    const SearchResult result = make_result(search, true);
    REQUIRE(result.favourite());
    CHECK(result.favourite()->evaluation.step_time == point.best.evaluation.step_time);
    CHECK(point.best.layout.world_size() == point.gpus);
  }
  // Without a deadline all points keep the wish.
  CHECK(plan.is_yes());
  const CapacityPoint* fastest = chosen(plan, CapacityGoal::fastest);
  REQUIRE(fastest);
  for (const CapacityPoint& point : plan.points)
    CHECK(fastest->days() <= point.days());
  CHECK(chosen(plan, CapacityGoal::cheapest) == nullptr);  // no prices
}

TEST_CASE("capacity: the fewest GPUs in time keep the deadline, and fewer do not") {
  CapacityWish wish = small_wish();
  const CapacityPlan free = plan_capacity(wish);
  const double longest = free.points.front().days(), shortest = free.points.back().days();
  wish.deadline = days((longest + shortest) / 3);
  const CapacityPlan plan = plan_capacity(wish);
  const CapacityPoint* fewest = chosen(plan, CapacityGoal::fewest);
  REQUIRE(fewest);
  CHECK(fewest->chance >= wish.confidence);
  for (const CapacityPoint& point : plan.points)
    if (point.gpus < fewest->gpus) CHECK(point.chance < wish.confidence);

  wish.deadline = days(shortest / 4);
  const CapacityPlan none = plan_capacity(wish);
  CHECK_FALSE(none.is_yes());
  CHECK_THAT(none.closest, contains_text("days would be kept"));
  CHECK(chosen(none, CapacityGoal::fewest) == nullptr);
  CHECK(chosen(none, CapacityGoal::fewest_that_fit));
}

TEST_CASE("capacity: with prices the cheapest is told, and money is a limit") {
  CapacityWish wish = small_wish();
  wish.clusters = {"dgx-h100", "dgx-a100-80"};
  wish.prices = {
      .gpu_hour = {{"dgx-h100", 3.0}, {"dgx-a100-80", 0.1}}, .kwh = {}, .currency = "USD"};
  const CapacityPlan plan = plan_capacity(wish);
  const CapacityPoint* cheapest = chosen(plan, CapacityGoal::cheapest);
  REQUIRE(cheapest);
  CHECK(cheapest->cluster == "dgx-a100-80");
  for (const CapacityPoint& point : plan.points) {
    REQUIRE(point.cost);
    CHECK(*cheapest->cost <= *point.cost);
    CHECK(*point.cost_at_most > *point.cost);
  }
  wish.money = *cheapest->cost / 2;
  CHECK_FALSE(plan_capacity(wish).is_yes());
  wish.money = *cheapest->cost * 2;
  const CapacityPlan within = plan_capacity(wish);
  REQUIRE(chosen(within, CapacityGoal::fastest));
  CHECK(*chosen(within, CapacityGoal::fastest)->cost <= *wish.money);
}

TEST_CASE("capacity: no point of the front is beaten, and every other is") {
  CapacityWish wish = small_wish();
  wish.clusters = {"dgx-h100", "dgx-a100-80"};
  wish.prices = {
      .gpu_hour = {{"dgx-h100", 3.0}, {"dgx-a100-80", 1.0}}, .kwh = {}, .currency = "USD"};
  const CapacityPlan plan = plan_capacity(wish);
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const CapacityPoint& one = plan.points[i];
    const bool beaten = std::ranges::any_of(plan.points, [&](const CapacityPoint& other) {
      return other.days() <= one.days() && *other.cost <= *one.cost &&
             (other.days() < one.days() || *other.cost < *one.cost);
    });
    CHECK(beaten == (std::ranges::find(plan.front, i) == plan.front.end()));
  }
}

TEST_CASE("capacity: the fewest GPUs that fit, without a run") {
  CapacityWish wish = small_wish();
  wish.workload.model = "llama-3.1-8b";
  wish.tokens.reset();
  wish.only_fewest = true;
  const CapacityPlan plan = plan_capacity(wish);
  REQUIRE(plan.points.size() == 1);
  REQUIRE(plan.answers.size() == 1);
  CHECK(plan.answers[0].goal == CapacityGoal::fewest_that_fit);
  REQUIRE_FALSE(plan.misses.empty());
  CHECK(plan.misses.back().gpus < plan.points[0].gpus);
  CHECK_THAT(plan.answers[0].binds, contains_text("memory"));

  wish.workload.model = "llama-3.1-405b";
  wish.most_gpus = 8;
  const CapacityPlan none = plan_capacity(wish);
  CHECK_FALSE(none.is_yes());
  CHECK_THAT(none.closest, contains_text("nothing fits on up to 8 GPUs"));
}

TEST_CASE("capacity: with --offload fewer GPUs do, and the answer says what is on the host") {
  CapacityWish wish = small_wish();
  wish.workload.model = "llama-3.1-8b";
  wish.tokens.reset();
  wish.only_fewest = true;
  const int without = plan_capacity(wish).points.at(0).gpus;
  wish.offload = true;
  const CapacityPlan plan = plan_capacity(wish);
  REQUIRE(plan.answers.size() == 1);
  const CapacityPoint& fewest = plan.points[plan.answers[0].point];
  CHECK(fewest.gpus < without);
  CHECK_THAT(fewest.offloaded(), contains_text("offload.optimizer"));
  CHECK_THAT(capacity_table(plan), contains_text("with offload.optimizer"));
  CHECK_THAT(plan.answers[0].binds, contains_text(std::to_string(without) + " GPUs"));
  CHECK(plan.points.back().gpus == without);
  CHECK(plan.points.back().offloaded().empty());

  wish.workload.overrides.emplace_back("cluster.change={host: {memory: 1 GB}}");
  wish.most_gpus = 1;
  const CapacityPlan none = plan_capacity(wish);
  CHECK_FALSE(none.is_yes());
  CHECK_THAT(none.closest, contains_text("GiB of a node's host at least"));
}

TEST_CASE("capacity: a number of GPUs without a memory margin is not the fewest that fit") {
  CapacityWish wish = small_wish();
  wish.workload.model = "qwen3-4b";
  wish.workload.global_batch = 16;
  wish.workload.sequence_length = 1024;
  wish.workload.overrides = {"framework.name=deepspeed"};
  wish.tokens.reset();
  wish.only_fewest = true;
  wish.most_gpus = 1;
  const CapacityPlan one = plan_capacity(wish);
  REQUIRE(one.points.size() == 1);
  REQUIRE_FALSE(one.points[0].leaves_margin);
  CHECK_FALSE(one.is_yes());
  CHECK_THAT(one.closest, contains_text("no layout leaves the memory margin on up to 1 GPUs"));
  wish.most_gpus = 8;
  const CapacityPlan more = plan_capacity(wish);
  REQUIRE(more.is_yes());
  CHECK(more.points[more.answers[0].point].gpus > 1);
}

TEST_CASE("capacity: forms of a plan have all points, and JSON is JSON") {
  const CapacityPlan plan = plan_capacity(small_wish());
  const auto json = nlohmann::json::parse(capacity_json(plan));
  CHECK(json.at("points").size() == plan.points.size());
  CHECK(json.at("answers").size() == plan.answers.size());
  const std::string csv = capacity_csv(plan);
  CHECK(std::ranges::count(csv, '\n') == static_cast<std::ptrdiff_t>(plan.points.size()) + 1);
  for (const std::string& text : {capacity_table(plan), capacity_markdown(plan)})
    for (const CapacityPoint& point : plan.points)
      CHECK_THAT(text, contains_text(point.layout));
}

TEST_CASE("capacity: a cluster or model that is not there is told") {
  CapacityWish wish = small_wish();
  wish.clusters = {"dgx-h1000"};
  CHECK_THROWS_AS(plan_capacity(wish), InputError);
  wish = small_wish();
  wish.workload.model = "llama-9";
  CHECK_THROWS_AS(plan_capacity(wish), InputError);
}
