// Scores of real runs, from numbers that can be followed by hand, and their texts.
#include "sim/scores/real/run_score.hpp"

#include "sim/scores/real/real_tables.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;
using namespace std::chrono_literals;

RealRow row(const std::string& name, Duration predicted, Duration measured,
            const std::string& family = "tiny, 8 x 64 tokens") {
  RealRow made;
  made.name = name;
  made.family = family;
  made.layout = "dp 2";
  made.predicted = predicted;
  made.measured = measured;
  made.steps = {measured - 1ms, measured, measured + 2ms};
  made.predicted_parts.compute = predicted;
  made.measured_parts.compute = measured - 1ms;
  made.measured_parts.exposed_data = 1ms;
  made.planned_memory = Bytes{4 << 20};
  made.used_memory = Bytes{4 << 20};
  made.first_loss = 5.5;
  made.last_loss = 5.25;
  return made;
}

RealResult sample() {
  RealResult result;
  result.suite.name = "tiny-2";
  result.suite.title = "two ranks";
  result.suite.ranks = 2;
  result.suite.bounds = {.scored = 3, .median_step_error = 0.05, .worst_step_error = 0.2};
  result.date = "2026-11-21";
  result.machine = "box, 2 cores";
  result.calibration = {"cluster tiny"};
  result.rows = {row("dp", 11ms, 10ms), row("zero-1", 12ms, 16ms)};
  result.rows.push_back(row("tp", 20ms, 1ms));
  result.rows.back().failed = "rank 1: out of memory";
  result.rows[1].difference = "rank 0, operator 7: gemm instead of norm";
  result.score = score_real(result.rows);
  return result;
}

TEST_CASE("errors are signed against the measurement, and scored by size") {
  // (11 - 10) / 10 = 0.1; (12 - 16) / 16 = -0.25: median of sizes 0.175, of signed ones -0.075.
  const RealScore score = sample().score;
  CHECK(score.rows == 3);
  CHECK(score.scored == 2);
  CHECK(score.same_work == 1);
  CHECK_THAT(score.median_step_error.value(), WithinRel(0.175, 1e-9));
  CHECK_THAT(score.worst_step_error.value(), WithinRel(0.25, 1e-9));
  CHECK(score.worst_row == "zero-1");
  CHECK_THAT(score.bias, WithinRel(-0.075, 1e-9));
  CHECK(score.worst_memory_error.value() == 0);
}

TEST_CASE("Kendall's tau-b counts pairs, and ties for neither side") {
  const std::vector<double> up{1, 2, 3, 4};
  CHECK(kendall_tau(up, up).value() == 1);
  CHECK(kendall_tau(up, std::vector<double>{4, 3, 2, 1}).value() == -1);
  // One of six pairs in the other order: (5 - 1) / 6.
  CHECK_THAT(kendall_tau(up, std::vector<double>{1, 2, 4, 3}).value(), WithinRel(4.0 / 6, 1e-9));
  // A tie of y leaves five pairs there: 5 / sqrt(6 * 5).
  CHECK_THAT(kendall_tau(up, std::vector<double>{1, 2, 3, 3}).value(),
             WithinRel(5 / std::sqrt(30.0), 1e-9));
  CHECK_FALSE(kendall_tau(up, std::vector<double>{1, 1, 1, 1}));
  CHECK_FALSE(kendall_tau(std::vector<double>{1}, std::vector<double>{1}));
}

TEST_CASE("the favourite of a forecast costs what the best layout would have saved") {
  std::vector<RealRow> rows{row("a", 10ms, 12ms), row("b", 11ms, 10ms), row("c", 30ms, 31ms),
                            row("d", 5ms, 5ms, "other")};
  const RealScore score = score_real(rows);
  REQUIRE(score.families.size() == 2);
  CHECK(score.families[0].layouts == 3);
  CHECK(score.families[0].favourite == "a");
  CHECK(score.families[0].best == "b");
  CHECK_THAT(score.families[0].favourite_loss, WithinRel(0.2, 1e-9));
  // One of three pairs is in the wrong order.
  CHECK_THAT(score.families[0].kendall.value(), WithinRel(1.0 / 3, 1e-9));
  CHECK_THAT(score.families[0].spearman.value(), WithinRel(0.5, 1e-9));
  CHECK_FALSE(score.families[1].kendall);
  CHECK_THAT(score.worst_favourite_loss.value(), WithinRel(0.2, 1e-9));
  CHECK(exceeded(score, {.favourite_loss = 0.1}) ==
        std::vector<std::string>{
            "the loss of the forecast's favourite is 20.00%, the bound is 10.00%"});
}

TEST_CASE("every bound that is exceeded is one sentence") {
  const RealResult result = sample();
  CHECK(exceeded(result.score, result.suite.bounds) ==
        std::vector<std::string>{"2 scenarios were measured, the bound asks for 3",
                                 "the median error of the step time is 17.50%, the bound is 5.00%",
                                 "the worst error of the step time is 25.00%, the bound is 20.00%",
                                 "engine and simulator did different work in 1 scenarios"});
  CHECK(exceeded(result.score, {.same_work = false}).empty());
}

TEST_CASE("nothing measured is a score without errors") {
  RealRow lost = row("a", 1ms, 1ms);
  lost.failed = "no";
  const RealScore score = score_real(std::vector{lost});
  CHECK(score.scored == 0);
  CHECK_FALSE(score.median_step_error);
  CHECK(score.families.empty());
}

TEST_CASE("the table has forecast and measurement side by side") {
  CHECK(real_table(sample()) ==
        R"(tiny-2: two ranks
host backend, 2 ranks; box, 2 cores; 2026-11-21
calibration: cluster tiny
forecast / measurement; times in ms, mean over ranks
scenario                    predicted  measured   error         compute        tensor          data      pipeline          idle      memory MiB same work
dp                              11.00     10.00  +10.0%      11.0 / 9.0     0.0 / 0.0     0.0 / 1.0     0.0 / 0.0     0.0 / 0.0       4.0 / 4.0       yes
zero-1                          12.00     16.00  -25.0%     12.0 / 15.0     0.0 / 0.0     0.0 / 1.0     0.0 / 0.0     0.0 / 0.0       4.0 / 4.0        NO
tp                          not measured
2 of 3 scenarios measured; step time: median error 17.5%, worst 25.0% (zero-1), bias -7.5%
memory: worst error 0.0%; same operators, order and bytes: 1 of 2
tiny, 8 x 64 tokens: 2 layouts, Spearman 1.000, Kendall 1.000; favourite: dp is the true best
zero-1: rank 0, operator 7: gemm instead of norm
tp: rank 1: out of memory
bound exceeded: 2 scenarios were measured, the bound asks for 3
bound exceeded: the median error of the step time is 17.50%, the bound is 5.00%
bound exceeded: the worst error of the step time is 25.00%, the bound is 20.00%
bound exceeded: engine and simulator did different work in 1 scenarios
)");
}

TEST_CASE("ranks that share cores are compared by their steps, not by parts of them") {
  RealResult result = sample();
  CHECK_FALSE(shared_cores(result));
  result.machine = "box: Processor @ 3 GHz, 1 cores";
  CHECK(shared_cores(result) == 1);
  const std::string table = real_table(result);
  CHECK(table.find("2 ranks share 1 cores: while one waits another computes, so the step as a "
                   "whole is compared, not its parts") != std::string::npos);
  CHECK(table.find("compute ") == std::string::npos);
  CHECK(table.find("memory MiB") != std::string::npos);
  CHECK(real_markdown(result).find("exposed data ms") == std::string::npos);
  result.machine = "a machine that says nothing of its cores";
  CHECK_FALSE(shared_cores(result));
  result.machine = "box, 1 cores";
  result.suite.backend = RealBackend::cuda;
  CHECK_FALSE(shared_cores(result));
}

TEST_CASE("every line of the raw results has as many cells as the header") {
  const std::string csv = real_csv(sample());
  const auto commas = [](const std::string& line) {
    bool quoted = false;
    int count = 0;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++count;
    }
    return count;
  };
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < csv.size();) {
    const std::size_t end = csv.find('\n', at);
    lines.push_back(csv.substr(at, end - at));
    at = end + 1;
  }
  REQUIRE(lines.size() == 4);
  for (const std::string& line : lines)
    CHECK(commas(line) == commas(lines[0]));
  CHECK(lines[1].substr(0, 57) == R"(2026-11-21,"box, 2 cores",tiny-2,dp,"tiny, 8 x 64 tokens")");
  CHECK(lines[3].find("rank 1: out of memory") != std::string::npos);
}

TEST_CASE("Markdown and JSON name what a script looks for") {
  const std::string markdown = real_markdown(sample());
  CHECK(markdown.find("| dp | dp 2 | 11.00 | 10.00 | +10.0% |") != std::string::npos);
  CHECK(markdown.find("- bound exceeded: ") != std::string::npos);
  const std::string json = real_json(sample());
  CHECK(json.find("\"worst_step_error\": 0.25,") != std::string::npos);
  CHECK(json.find("\"same_work\": false") != std::string::npos);
  CHECK(json.find("\"failed\": \"rank 1: out of memory\"") != std::string::npos);
}

}  // namespace
