// The report of a run: figures from steps that are made up.
#include "real/jobs/run_report.hpp"

#include <array>

#include "sim/base/quantity.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Steps of 90, 10, 30, 20, 40 ms, the first a warm-up; nothing was recorded.
TrainingRun made_up(int count = 5) {
  TrainingRun run;
  run.backend = "host";
  run.launched_by = "threads";
  run.warm_up = 1;
  const std::array milliseconds{90, 10, 30, 20, 40};
  for (int i = 0; i < count; ++i)
    run.steps.push_back(
        {.step = i,
         .loss = 5.0 - i,
         .gradient_norm = 0.5,
         .learning_rate = 0.001,
         .time = std::chrono::milliseconds{milliseconds[static_cast<std::size_t>(i) % 5]}});
  run.memory = {{.arena = 1000, .device = 0}, {.arena = 3000, .device = 10}};
  run.planned_arena = {2000, 4000};
  return run;
}

RunReport report_of(const TrainingRun& run) {
  const sim::Scenario scenario = tiny_scenario(5);
  return make_run_report(scenario, sim::make_plan(scenario.model, scenario.layout), run);
}

}  // namespace

TEST_CASE("times are of the steps behind the warm-up, memory of the rank with most") {
  const RunReport report = report_of(made_up());
  CHECK(report.median == std::chrono::milliseconds{25});  // between 20 and 30
  CHECK(report.shortest == std::chrono::milliseconds{10});
  CHECK(report.longest == std::chrono::milliseconds{40});
  CHECK_THAT(report.tokens_per_second, WithinRel(8 * 16 / 0.025, 1e-12));
  CHECK(report.planned_arena == 4000);
  CHECK(report.used_arena == 3000);
  CHECK(report.device == 10);
}

TEST_CASE("every form of the report has the same figures") {
  const RunReport report = report_of(made_up());
  const std::string table = run_table(report);
  CHECK(has(table, "host backend on "));
  CHECK(has(table, "2 ranks: tp 2"));
  CHECK(has(table,
            "step time  25.00 ms median of 4 (10.00 ms to 40.00 ms); 1 before that not "
            "counted\n"));
  const auto bytes = [](std::int64_t count) { return sim::to_text(sim::Bytes{count}); };
  CHECK(has(table, "memory     " + bytes(3000) + " used of " + bytes(4000) +
                       " planned; context and libraries besides: " + bytes(10) +
                       " (the rank with most)\n"));
  CHECK_FALSE(has(table, "last step"));  // none was recorded
  CHECK(has(run_json(report), "\"step_time_s\": 0.025"));
  CHECK(has(run_csv(report), "\nstep_time,0.025,s\n"));
  CHECK(has(run_csv(report), "\nstep.4.loss,1,\n"));
  CHECK(has(run_markdown(report), "| step_time.shortest | 0.01 | s |\n"));
}

TEST_CASE("what NCCL should take is told beside what libraries have") {
  RunReport report = report_of(made_up());
  CHECK_FALSE(has(run_table(report), "NCCL"));
  report.nccl = {.communicators = 5, .blocks = 40, .buffers = sim::Bytes{std::int64_t{1} << 30}};
  CHECK(has(run_table(report),
            ", of which NCCL should have 1 GiB in 5 communicators, on 40 SMs at once"));
  CHECK(has(run_json(report), "\"sms_at_once\": 40"));
}

TEST_CASE("a long run shows steps at equal distances, the first and the last among them") {
  const std::string table = run_table(report_of(made_up(201)));
  CHECK(has(table, "\n         0  "));
  CHECK(has(table, "\n        10  "));
  CHECK(has(table, "\n       200  "));
  CHECK_FALSE(has(table, "\n         5  "));
}

}  // namespace real::test
