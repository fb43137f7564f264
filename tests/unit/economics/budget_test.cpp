// The section `budget`: what it means, what is refused, and the answers that follow.
#include "sim/economics/budget.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/economics/budget_report.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
namespace fs = std::filesystem;

namespace {

const std::string root = sim::test::source_dir();

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct File {
  fs::path path;
  explicit File(const std::string& text, const std::string& name = "budget.yaml")
      : path{test::temporary_path(name)} {
    std::ofstream{path} << text;
  }
  ~File() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

// GPT-2 on eight H100s with `budget` as the lines of that section.
std::string small(const std::string& budget) {
  return "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
         "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {sequence_length: 1024, global_batch: 64}\n"
         "budget:\n" +
         budget;
}

BudgetAnswer answer(const std::string& budget, const std::vector<std::string>& set = {}) {
  const File file{small(budget)};
  return answer_budget(load_scenario(file.path.string(), set), set);
}

// "line:column: what" of every problem.
std::vector<std::string> problems(const std::string& budget) {
  const File file{small(budget)};
  try {
    load_budget(load_scenario(file.path.string()));
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("what is not given is assumed, with its source", "[economics]") {
  const BudgetAnswer with = answer("  tokens: 1e9\n  power: {pue: 1.3}\n  runs: 100\n");
  const auto find = [&](const std::string& key) {
    for (const Assumption& assumption : with.budget.assumptions)
      if (assumption.key == key) return assumption;
    return Assumption{};
  };
  CHECK(find("power.pue").value == "1.3");
  CHECK(find("power.pue").source == "given");
  CHECK(find("power.gpu").value == "700 W");
  CHECK(has(find("power.gpu").source, "TDP of the H100 SXM"));
  for (const Assumption& assumption : with.budget.assumptions)
    CHECK_FALSE(assumption.source.empty());
  // 268 of GPUs among 419 interruptions in 54 days of 16,384 GPUs.
  CHECK_THAT(with.budget.failures.gpu.count() / 3600, WithinRel(16384 * 54 * 24 / 268.0, 1e-4));
}

TEST_CASE("published failures add up to what was published", "[economics]") {
  const auto per_day = [](PublishedFailures source, double gpus, double nodes) {
    const PartFailures parts = published_failures(source);
    return 86400 * (gpus / parts.gpu.count() + nodes / parts.node.count() +
                    nodes / parts.network.count() + nodes / parts.software.count());
  };
  CHECK_THAT(54 * per_day(PublishedFailures::llama_3, 16384, 2048), WithinRel(419, 1e-4));
  // 1.8 h between failures of 16,384 GPUs at the rate of RSC-1.
  CHECK_THAT(24 / per_day(PublishedFailures::rsc_1, 16384, 2048), WithinRel(1.8, 0.01));
  CHECK(per_day(PublishedFailures::none, 16384, 2048) == 0);
}

TEST_CASE("mistakes in a budget are named with their place", "[economics]") {
  CHECK(problems("  runs: 100\n") ==
        Lines{"5:3: budget: say what the run shall do by one of: tokens; steps; minimum_steps and "
              "critical_batch (both to the target loss)"});
  CHECK(problems("  tokens: 1e9\n  steps: 5\n") ==
        Lines{"5:11: budget: say what the run shall do by one of: tokens; steps; minimum_steps and "
              "critical_batch (both to the target loss)"});
  CHECK(problems("  tokens: 1e9\n  price: {gpu_hour: 2.5}\n") ==
        Lines{"6:21: '2.5' is no sum of money: write a number and a unit, such as 2.50 USD (any "
              "currency of three capital letters)"});
  CHECK(problems("  tokens: 1e9\n  price: {gpu_hour: 2.5 USD, kwh: 0.1 EUR}\n") ==
        Lines{"6:35: this price is in EUR, another in USD"});
  CHECK(
      problems("  tokens: 1e9\n  price: {spot_gpu_hour: 1 USD}\n") ==
      Lines{"6:26: spot capacity is taken away: say how often with preemption.node, the mean time "
            "for one node"});
  CHECK(problems("  tokens: 1e9\n  failures: {gpu: 0 s}\n") ==
        Lines{"6:19: failures.gpu is too short; at least 1 s"});
  CHECK(problems("  tokens: 1e9\n  failures: {gpus: 1 h}\n") ==
        Lines{"6:14: unknown key 'gpus'; did you mean 'gpu'?"});
  CHECK(problems("  tokens: 1e9\n  confidence: 0.9\n") ==
        Lines{"6:15: confidence goes with finish_in"});
  CHECK(problems("  tokens: 1e9\n  sources: {power.gpus: me}\n") ==
        Lines{"6:25: there is no assumption 'power.gpus' to have a source"});
  CHECK(problems("  tokens: 1e9\n  checkpoint: {interval: often}\n") ==
        Lines{"6:26: allowed: daly, young, or the work between two checkpoints, such as 30 min"});
}

TEST_CASE("steps follow from tokens or from the critical batch", "[economics]") {
  CHECK(steps_of({.tokens = 1e6}, 1000) == 1000);
  CHECK(steps_of({.tokens = 1e6 + 1}, 1000) == 1001);
  CHECK(steps_of({.steps = 12}, 1000) == 12);
  // McCandlish et al. 2018: at the critical batch, twice the minimum.
  CHECK(steps_of({.minimum_steps = 500, .critical_batch = 4000}, 4000) == 1000);
  CHECK(steps_of({.minimum_steps = 500, .critical_batch = 4000}, 1000) == 2500);
}

TEST_CASE("times and sums of money are written so that they read back exactly", "[economics]") {
  CHECK(exact_text(Seconds{5400}) == "1.5 h");
  CHECK(exact_text(Seconds{86400 * 60}) == "60 d");
  CHECK(exact_text(never) == "never");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double value = std::exp(40 * uniform(1, 2, i) - 10);
    CAPTURE(value);
    CHECK(std::get<Seconds>(parse_time(exact_text(Seconds{value}))) == Seconds{value});
    CHECK(std::get<Power>(parse_power(exact_text(Power{value}))).watts == value);
    CHECK(std::get<Money>(parse_money(exact_text(Money{value, "EUR"}))).amount == value);
    const Bandwidth rate = Bandwidth::bytes_per_second(std::floor(value));
    if (value >= 1) CHECK(std::get<Bandwidth>(parse_bandwidth(exact_text(rate))) == rate);
  }
  for (const char* wrong : {"", "5", "-1 h", "1 fortnight", "nan s", "inf d", "1e999 y", "h"})
    CHECK(std::holds_alternative<QuantityError>(parse_time(wrong)));
}

TEST_CASE("a checkpoint holds weights and optimizer states once, however sharded", "[economics]") {
  std::vector<std::int64_t> totals;
  for (const int stage : {0, 1, 2, 3}) {
    const BudgetAnswer with =
        answer("  steps: 10\n  runs: 100\n", {"layout.zero_stage=" + std::to_string(stage)});
    const CheckpointSize& size = with.forecast.checkpoint;
    // Weights in 16 bits, master weights and two moments in 32.
    CHECK_THAT(static_cast<double>(size.total.count()), WithinRel(124'439'808 * 14.0, 0.001));
    CHECK_THAT(static_cast<double>(size.per_node.count()),
               WithinRel(static_cast<double>(size.total.count()), 1e-6));
    CHECK_THAT(static_cast<double>(size.per_gpu.count()) * 8,
               WithinRel(static_cast<double>(size.total.count()), 1e-6));
  }
}

TEST_CASE("without failures the goodput is what checkpoints leave", "[economics]") {
  const BudgetAnswer with = answer(
      "  steps: 20000\n  runs: 100\n  failures: {published: none}\n"
      "  checkpoint: {asynchronous: false, interval: 1 min}\n");
  const RunForecast& run = with.forecast.rented;
  const double stall = run.model.stall / run.model.segment();
  CHECK(run.model.segments > 10);
  CHECK_THAT(run.goodput(), WithinRel(1 / (1 + stall), 1e-12));
  CHECK_THAT(run.expected_goodput(), WithinRel(run.goodput(), 1e-12));
  CHECK(run.failures == 0);
}

TEST_CASE("cost follows the price, energy the PUE, days the failures", "[economics]") {
  const std::string base = "  tokens: 1e12\n  runs: 200\n  price: {gpu_hour: ";
  const auto bill = [&](const std::string& price, const std::string& rest) {
    const BudgetAnswer with = answer(base + price + "}\n" + rest);
    const RunForecast& run = with.forecast.rented;
    return std::array{*costs(with.forecast, run, with.budget.prices.gpu_hour).rent,
                      energy_kwh(with.forecast, with.budget, run.wall.mean), run.wall.mean.count()};
  };
  const auto one = bill("1 USD", "");
  const auto two = bill("2 USD", "  power: {pue: 2.18}\n");
  CHECK_THAT(two[0], WithinRel(2 * one[0], 1e-12));
  CHECK_THAT(two[1], WithinRel(2 * one[1], 1e-12));
  const auto worse = bill("1 USD", "  failures: {gpu: 100 h}\n");
  CHECK(worse[2] > one[2]);
  CHECK(bill("1 USD", "  failures: {published: none}\n")[2] < one[2]);
}

TEST_CASE("the error of the step is in the probability to be in time", "[economics]") {
  // 26.98 days of every run, and a step that nine in ten such runs keep within 0.8543 to 1.1709.
  RunForecast run;
  run.wall.sorted.assign(50, Seconds{26.98 * 86400});
  run.wall.mean = run.wall.sorted.front();
  const Seconds month{30 * 86400.0};
  CHECK(run.probability_within(month) == 1);
  TimeInterval interval;
  interval.low = 0.8543;
  interval.high = 1.1709;
  interval.level = 0.9;
  run.step_error = StepError::of(interval);
  CHECK_THAT(run.probability_within(month), WithinAbs(0.866, 0.002));
  CHECK_THAT(run.quantile(0.95).count(), WithinRel(26.98 * 86400 * 1.1709, 1e-6));
  CHECK_THAT(run.probability_within(run.quantile(0.3)), WithinAbs(0.3, 1e-9));
  // Failures and the error of the step together spread wider than either.
  run.wall.sorted = {Seconds{20 * 86400.0}, Seconds{34 * 86400.0}};
  CHECK(run.quantile(0.975) > Seconds{34 * 86400.0 * 1.1});
}

TEST_CASE("more GPUs are asked for where the step may take longer", "[economics]") {
  const std::string work = "  tokens: 1e11\n  runs: 200\n";
  const BudgetAnswer sure = answer(work, {"layout.data_parallel=8"});
  REQUIRE(sure.forecast.interval);
  // Between the forecast and what the interval's end takes: one in two at the middle.
  const Seconds middle = sure.forecast.rented.wall.quantile(0.999);
  const double chance = sure.forecast.rented.probability_within(middle);
  CHECK(chance > 0.4);
  CHECK(chance < 0.75);
  CHECK(sure.forecast.rented.wall.probability_within(middle) > 0.99);
  const Costs cost = costs(sure.forecast, sure.forecast.rented, 2.0);
  CHECK(cost.high > *cost.rent * 1.05);
}

TEST_CASE("the fewest GPUs that finish in time are those of a search of all", "[economics]") {
  const std::string work = "  tokens: 1e11\n  runs: 200\n";
  const auto run = [&](int gpus) {
    return answer(work, {"layout.data_parallel=" + std::to_string(gpus),
                         "cluster.nodes=" + std::to_string((gpus + 7) / 8),
                         "cluster.gpus=" + std::to_string(gpus)})
        .forecast.rented;
  };
  const Seconds limit = run(GENERATE(8, 16)).quantile(0.9);
  const BudgetAnswer found =
      answer(work, {"budget.finish_in=" + exact_text(limit), "budget.confidence=0.9"});
  REQUIRE(found.is_yes());
  int fewest = 0;
  for (const int gpus : {1, 2, 4, 8, 16, 32, 64})
    if (fewest == 0 && run(gpus).probability_within(limit) >= 0.9) fewest = gpus;
  CHECK(found.forecast.gpus == fewest);
  const BudgetAnswer from_above = answer(
      work, {"budget.finish_in=" + exact_text(limit), "budget.confidence=0.9", "cluster.nodes=8"});
  CHECK(from_above.forecast.gpus == fewest);

  const BudgetAnswer never_done = answer(work, {"budget.finish_in=1 min"});
  CHECK_FALSE(never_done.is_yes());
  CHECK(has(never_done.why_not(), "a batch of 64 in micro-batches of 1 has no work for more"));
}

TEST_CASE("with a fixed batch per replica more replicas need fewer steps", "[economics]") {
  const BudgetAnswer found = answer(
      "  tokens: 1e11\n  runs: 200\n  finish_in: 2 h\n"
      "  scaling: fixed_batch_per_replica\n  max_gpus: 512\n");
  REQUIRE(found.is_yes());
  CHECK(found.forecast.layout.global_batch == 8 * found.forecast.layout.data_parallel);
}

TEST_CASE("a run that failures never let finish is refused with the reason", "[economics]") {
  const BudgetAnswer with = answer("  tokens: 1e12\n  failures: {gpu: 10 min}\n");
  CHECK_FALSE(with.is_yes());
  CHECK(has(with.why_not(), "makes no headway"));
}

TEST_CASE("a saved budget gives the same answer", "[economics]") {
  const std::vector<std::string> set{"budget.price.gpu_hour=2.5 USD", "layout.zero_stage=1",
                                     "cluster.nodes=2", "budget.finish_in=3 d"};
  const File file{"name: 'odd: \"name\"'\n" +
                  small("  tokens: 1e11\n  runs: 100\n  failures: {gpu: 1234.5 h}\n"
                        "  sources: {power.pue: our own}\n")};
  const Scenario scenario = load_scenario(file.path.string(), set);
  const BudgetAnswer first = answer_budget(scenario, set);
  const std::string folder = fs::temp_directory_path().string();
  const File saved{resolved_scenario(scenario, first.budget, folder), "saved.yaml"};
  const BudgetAnswer again = answer_budget(load_scenario(saved.path.string()), {});
  CHECK(budget_json(again) == budget_json(first));
  CHECK(budget_table(again) == budget_table(first));
  CHECK(budget_csv(again) == budget_csv(first));
  CHECK(budget_markdown(again) == budget_markdown(first));
}

TEST_CASE("the complete section of the README is accepted", "[economics]") {
  std::ifstream readme{root + "/sim/economics/README.md"};
  const std::string text{std::istreambuf_iterator<char>{readme}, {}};
  const std::size_t begin = text.find("budget:\n", text.find("```yaml")) + 8;
  const std::string section = text.substr(begin, text.find("```", begin) - begin);
  const File file{small(section)};
  const Budget budget = load_budget(load_scenario(file.path.string()));
  CHECK(budget.finish_in == Seconds{60 * 86400.0});
  CHECK(budget.assumptions.back().key == "seed");
}

TEST_CASE("what goes with a strategy is refused without it", "[economics]") {
  CHECK(problems("  tokens: 1e9\n  spares: {repair: 1 h}\n") ==
        Lines{"6:20: spares.repair goes with spares.nodes"});
  CHECK(problems("  tokens: 1e9\n  memory_checkpoint: {every: 5}\n") ==
        Lines{"6:30: memory_checkpoint.every goes with memory_checkpoint.place: host or peer"});
  CHECK(problems("  tokens: 1e9\n  elastic: {nodes: 1}\n") ==
        Lines{"6:20: a job goes on without nodes where no spare is left: say how many there are "
              "with spares.nodes (0 is allowed)"});
  CHECK(problems("  tokens: 1e9\n  elastic: {batch: fixed_batch}\n") ==
        Lines{"6:20: elastic.batch goes with elastic.nodes"});
  CHECK(problems("  tokens: 1e9\n  corruption: {gpu: 1 y, share: 0.1, check: 1 min}\n") ==
        Lines{"6:45: with corruption.share every step is checked: give one of both"});
}

TEST_CASE("copies, spares and fewer replicas raise the goodput of a run", "[economics]") {
  const std::vector<std::string> nodes{"cluster.nodes=4", "layout.data_parallel=32"};
  const std::string work = "  tokens: 1e12\n  runs: 100\n  failures: {gpu: 500 h}\n";
  const auto goodput = [&](const std::string& rules) {
    return answer(work + rules, nodes).forecast.rented.expected_goodput();
  };
  const double storage = goodput("");
  const double host = goodput("  memory_checkpoint: {place: host}\n");
  const double peer = goodput("  memory_checkpoint: {place: peer}\n");
  CHECK(host > storage);
  CHECK(peer > host);
  const double none = goodput("  spares: {nodes: 0, repair: 12 h}\n");
  const double one = goodput("  spares: {nodes: 1, repair: 12 h}\n");
  const double smaller = goodput("  spares: {nodes: 0, repair: 12 h}\n  elastic: {nodes: 1}\n");
  CHECK(none < one);
  CHECK(one < storage);
  CHECK(none < smaller);
  CHECK(smaller < one);
  const double checked = goodput("  corruption: {gpu: 5000 h, check_every: 2 h}\n");
  CHECK(checked < storage);
}

TEST_CASE("a smaller job is as fast as its own forecast", "[economics]") {
  const std::string rules =
      "  tokens: 1e12\n  runs: 100\n  spares: {nodes: 0}\n"
      "  elastic: {nodes: 1, batch: fixed_batch_per_replica}\n";
  const BudgetAnswer whole = answer(rules, {"cluster.nodes=2", "layout.data_parallel=16"});
  const BudgetAnswer half =
      answer("  tokens: 1e12\n  runs: 100\n", {"layout.data_parallel=8", "layout.global_batch=32"});
  REQUIRE(whole.forecast.elastic_speeds.size() == 1);
  CHECK_THAT(
      whole.forecast.elastic_speeds[0],
      WithinRel(0.5 * to_seconds(whole.forecast.step) / to_seconds(half.forecast.step), 1e-9));
}

TEST_CASE("spares are paid for", "[economics]") {
  const std::string work = "  tokens: 1e12\n  runs: 100\n  failures: {published: none}\n";
  const BudgetAnswer alone = answer(work);
  const BudgetAnswer with = answer(work + "  spares: {nodes: 1}\n");
  const Seconds wall = alone.forecast.rented.wall.mean;
  CHECK(with.forecast.rented.wall.mean == wall);
  CHECK_THAT(gpu_hours(with.forecast, wall), WithinRel(2 * gpu_hours(alone.forecast, wall), 1e-12));
  CHECK_THAT(energy_kwh(with.forecast, with.budget, wall),
             WithinRel(2 * energy_kwh(alone.forecast, alone.budget, wall), 1e-12));
}

TEST_CASE("what would help is what a run under it forecasts", "[economics]") {
  const std::vector<std::string> nodes{"cluster.nodes=2", "layout.data_parallel=16"};
  const std::string work = "  tokens: 1e12\n  runs: 100\n  failures: {gpu: 500 h}\n";
  const BudgetAnswer now = answer(work, nodes);
  REQUIRE_FALSE(now.helps.empty());
  double before = 1;
  bool found = false;
  for (const Help& help : now.helps) {
    CHECK(help.goodput > now.forecast.rented.expected_goodput());
    CHECK(help.goodput <= before);
    before = help.goodput;
    if (help.what != "copies in the memory of a peer") continue;
    found = true;
    const BudgetAnswer then = answer(work + "  memory_checkpoint: {place: peer}\n", nodes);
    CHECK_THAT(help.goodput, WithinRel(then.forecast.rented.expected_goodput(), 1e-12));
  }
  CHECK(found);
}

TEST_CASE("a link flap stalls the job, or ends it where it outlasts all retries", "[economics]") {
  const std::string work = "  tokens: 1e12\n  runs: 100\n  failures: {gpu: 500 h}\n";
  const RunModel calm = answer(work).forecast.rented.model;
  CHECK(calm.flap_stalls == 0);
  // Eight NICs, a flap every three hours; a retry every 4.295 s, the last after 30 s.
  const std::string flaps = work + "  flaps: {nic: 24 h, outage: 5 s}\n";
  const RunModel run = answer(flaps).forecast.rented.model;
  const double down = std::exp(-4.294967296 / 5);
  const double fails = std::pow(down, 7);
  const double mean = 4.294967296 / (1 - down);  // of all, if retries did not end
  CHECK(run.flap_stalls < mean / (3 * 3600));
  CHECK(run.flap_stalls > 0.9 * mean / (3 * 3600));
  const double more = 1 / run.failures.every.count() - 1 / calm.failures.every.count();
  CHECK_THAT(more, WithinRel(fails / (3 * 3600), 1e-9));
  // They take no node away.
  CHECK_THAT((1 - run.software) / run.failures.every.count(),
             WithinRel((1 - calm.software) / calm.failures.every.count(), 1e-9));
  const RunModel patient =
      answer(flaps, {"cluster.change.transport.timeout=60 s"}).forecast.rented.model;
  CHECK(patient.flap_stalls > run.flap_stalls);
  CHECK(patient.failures.every > run.failures.every);
  CHECK(problems("  tokens: 1e9\n  flaps: {outage: 5 s}\n") ==
        Lines{"6:19: flaps.outage goes with flaps.nic"});
}
