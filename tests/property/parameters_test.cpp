// Every number of a cluster and a device file: twice and half of it move the step of some job the
// right way, or the program says why not.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/config/change.hpp"
#include "sim/config/reader.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/unmoved.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/sweep/point.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

struct Number {
  std::string key;   // as --set names it
  std::string text;  // of the file
};

void collect(const ObjectReader& object, const std::string& prefix, std::vector<Number>& all) {
  for (const std::string& key : object.keys()) {
    const ValueReader value = object.at(key);
    if (value.is_object()) {
      collect(value.object(), prefix + key + '.', all);
    } else if (value.is_scalar()) {
      const std::string text = value.peek_text().value_or("");
      if (key != "source" && !scaled_text(text, 2).empty() && text.find_first_of("0123456789") == 0)
        all.push_back({prefix + key, text});
    }
  }
}

std::vector<Number> numbers_of(const std::string& file, const std::string& prefix) {
  const Document document = Document::load(file);
  std::vector<Number> all;
  collect(document.root_object(), prefix, all);
  return all;
}

// sense() is what more of a number does to a step: 1 longer, -1 shorter, 0 either (how many there
// are).
int sense(const Number& number) {
  const auto ends = [&](std::string_view end) { return number.key.ends_with(end); };
  const auto has = [&](std::string_view part) {
    return number.key.find(part) != std::string::npos;
  };
  if (ends("latency") || ends("fixed") || ends("overhead") || ends("host_issue") || has("ramp_") ||
      ends("oversubscription") || ends("compute_share"))
    return 1;
  if (ends("rate") || ends("usable") || ends("bandwidth") || ends(".links") || ends("per_sm") ||
      has("gemm.") || has("operand_feed.") || has("memory_kernels.") || has("attention") ||
      ends("efficiency") || ends("per_node_limit") || ends("fabric.link") || ends("global_link") ||
      ends("generation") || ends("lanes"))
    return -1;
  return 0;
}

struct Job {
  std::string path;
  std::vector<std::string> set;
};

// One sequence of a small model per replica, so that latencies, messages and the host count; and
// more of it, so that kernels do.
std::vector<Job> jobs_on(const std::string& cluster, int nodes,
                         const std::vector<std::string>& layouts) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string path =
        test::temporary_path("parameters_" + std::to_string(i) + ".yaml").string();
    std::ofstream{path} << "model: " << root << "/models/gpt2.yaml\ncluster: {path: " << cluster
                        << ", nodes: " << nodes << "}\nlayout: {sequence_length: 1024, "
                        << layouts[i] << "}\n";
    jobs.push_back({path, {}});
  }
  return jobs;
}

// Effect is what became of twice and half of a number on a job.
enum class Effect : std::uint8_t { moved, wrong_way, refused, none };

Effect effect_of(const Job& job, const Number& number, Duration base, Forecaster& forecaster) {
  // NCCL chooses channels and protocols in steps, and a message that begins earlier may find
  // another beside it: half of PCIe's latency costs the third job on h100-pcie 1.7%, and of five
  // rates of the NICs of dragonfly-a100 two cost the first 1.3% for the channels that NCCL takes
  // there.
  constexpr double slack = 2e-2;
  Effect effect = Effect::none;
  bool refused = true;
  for (const double factor : {2.0, 0.5}) {
    std::vector<std::string> set = job.set;
    set.push_back(number.key + '=' + scaled_text(number.text, factor));
    const PointResult point = forecast_point(job.path, set, LayoutMode::fixed, forecaster);
    if (!point.told()) continue;
    refused = false;
    const double more = std::log(to_seconds(point.step_time) / to_seconds(base));
    if (more == 0) continue;
    const double expected = sense(number) * std::log(factor);
    CAPTURE(number.key, factor, more);
    CHECK((expected == 0 || more * expected > 0 || std::abs(more) < slack));
    if (expected == 0 || more * expected > 0) effect = Effect::moved;
  }
  return refused ? Effect::refused : effect;
}

// Reasons that say nothing of the parameter at hand.
bool is_reason(const std::string& why) {
  return !why.empty() && why != "nothing of this step depends on it";
}

void check_numbers(const std::vector<Number>& numbers, const std::vector<Job>& jobs) {
  struct Case {
    const Job& job;
    Scenario scenario;
    Plan plan;
    Forecaster forecaster{};
    Duration base{};
  };
  std::vector<Case> cases;
  for (const Job& job : jobs) {
    Scenario scenario = load_scenario(job.path, job.set);
    Plan plan = make_plan(scenario.model, scenario.layout);
    cases.push_back({.job = job, .scenario = std::move(scenario), .plan = std::move(plan)});
    Case& made = cases.back();
    made.base = forecast_point(job.path, job.set, LayoutMode::fixed, made.forecaster).step_time;
  }
  for (const Number& number : numbers) {
    bool answered = false;
    std::string why;
    for (Case& one : cases) {
      const Effect effect = effect_of(one.job, number, one.base, one.forecaster);
      if (effect == Effect::moved || effect == Effect::refused) answered = true;
      if (effect == Effect::none) why = why_unmoved(one.scenario, one.plan, number.key);
    }
    CAPTURE(number.key, number.text, why);
    CHECK((answered || is_reason(why)));
  }
  for (const Job& job : jobs)
    std::remove(job.path.c_str());
}

}  // namespace

TEST_CASE("every number of a device file moves a step, or it is said why not", "[property]") {
  const std::string cluster = root + "/topologies/dgx-h100.yaml";
  check_numbers(
      numbers_of(root + "/topologies/devices/h100_sxm.yaml", "cluster.device."),
      jobs_on(cluster, 1,
              {"global_batch: 8", "global_batch: 64, micro_batch: 8",
               "global_batch: 64, micro_batch: 8, attention: flash-2",
               "global_batch: 64, micro_batch: 8, attention: flash-1, compute_dtype: fp16",
               "global_batch: 64, micro_batch: 8, attention: unfused, compute_dtype: tf32",
               "global_batch: 64, micro_batch: 8, compute_dtype: fp8, attention: unfused",
               "global_batch: 64, micro_batch: 8, compute_dtype: fp32, attention: unfused"}));
}

TEST_CASE("every number of a cluster file moves a step, or it is said why not", "[property]") {
  struct Machine {
    const char* name;
    int nodes;
  };
  for (const Machine& machine : {Machine{"dgx-h100", 64},
                                 {"aws-p5", 4},
                                 {"dragonfly-a100", 64},
                                 {"dgx1-v100", 4},
                                 {"h100-pcie", 4},
                                 {"gb200-nvl72", 2},
                                 {"cpu-cores", 1}}) {
    const std::string path = root + "/topologies/" + machine.name + ".yaml";
    const bool cores = machine.nodes == 1;
    const std::string dtype = cores ? ", compute_dtype: fp32, attention: unfused" : "";
    const std::string batch = cores ? "global_batch: 64" : "global_batch: 18432";
    const std::string unfused = std::string{machine.name} == "dgx1-v100"
                                    ? ", compute_dtype: fp16, attention: unfused"
                                    : dtype;
    CAPTURE(machine.name);
    check_numbers(
        numbers_of(path, "cluster.change."),
        jobs_on(path, machine.nodes,
                {fmt::format("{}, micro_batch: 1{}", batch, unfused),
                 fmt::format("{}, micro_batch: 1, tensor_parallel: 2, pipeline_parallel: 2{}",
                             batch, unfused),
                 fmt::format("{}, micro_batch: 1, pipeline_parallel: 2, overlap: false{}", batch,
                             unfused)}));
  }
}
