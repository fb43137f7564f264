// Forecasts on every shipped machine, and laws between devices.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/report/report.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

std::vector<std::string> cluster_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/topologies"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// GPT-2 on whole nodes, of eight GPUs at least, data parallel, four sequences on each.
Report forecast(const std::string& cluster, const std::string& dtype) {
  const int per_node = Cluster::load(cluster, 1).gpus_per_node();
  const int nodes = (8 + per_node - 1) / per_node;
  const int gpus = nodes * per_node;
  const auto path = test::temporary_path("machines.yaml");
  std::ofstream(path) << "name: machines\nmodel: " << root
                      << "/models/gpt2.yaml\ncluster: {path: " << cluster << ", nodes: " << nodes
                      << "}\nlayout:\n  data_parallel: " << gpus
                      << "\n  sequence_length: 1024\n  global_batch: " << 4 * gpus
                      << "\n  micro_batch: 4\n  compute_dtype: " << dtype
                      << "\n  gradient_dtype: fp32\nframework: {host_calls: 1}\n";
  const Scenario scenario = load_scenario(path.string());
  std::filesystem::remove(path);
  const Plan plan = make_plan(scenario.model, scenario.layout);
  PlanMemory memory{plan};
  return make_report(scenario, plan, simulate(plan, scenario.cluster, scenario.options), memory);
}

double step(const std::string& name, const std::string& dtype) {
  return to_seconds(forecast(root + "/topologies/" + name + ".yaml", dtype).step_time);
}

}  // namespace

TEST_CASE("a small job is forecast on every machine that is not validated, and says so") {
  int machines = 0;
  for (const std::string& file : cluster_files()) {
    CAPTURE(file);
    const Cluster cluster = Cluster::load(file);
    if (cluster.device().generation == Generation::cpu) continue;
    const bool marked = !unvalidated(cluster).empty();
    CHECK(marked == !cluster.not_validated().empty());
    if (cluster.device().not_validated.empty()) continue;
    REQUIRE(marked);  // a machine of devices that are
    ++machines;
    const Report report = forecast(file, "bf16");
    CHECK(report.step_time > Duration{});
    CHECK(report.mfu > 0.01);
    CHECK(report.mfu < 0.8);
    REQUIRE(report.not_validated.size() == 2);
    CHECK(to_table(report).find("not validated: no measurement of training stands behind device " +
                                cluster.device().name) != std::string::npos);
    for (const std::string& text : {to_json(report), memory_json(report)}) {
      const auto json = nlohmann::json::parse(text);
      CHECK(json["not_validated"][0]["name"] == cluster.device().name);
      CHECK(json["not_validated"][1]["name"] == cluster.name());
    }
    CHECK(to_csv(report).find("not_validated,device " + cluster.device().name) !=
          std::string::npos);
    CHECK(to_markdown(report).find("| not_validated |") != std::string::npos);
    CHECK(memory_table(report).find("not validated:") != std::string::npos);
    if (cluster.device().gemm_model(DType::fp8))
      CHECK(forecast(file, "fp8").step_time > Duration{});
  }
  CHECK(machines >= 10);
}

TEST_CASE("twice the xGMI links of a pair make a mesh's collectives faster") {
  const std::string file = root + "/topologies/mi325x-8.yaml";
  const Cluster whole = Cluster::load(file, 1);
  const Cluster twice =
      Cluster::load(file, 1, {.cluster = {{.key = "node.xgmi.links", .value = "2"}}, .device = {}});
  const Route one = whole.route(GpuId{0}, GpuId{1}), two = twice.route(GpuId{0}, GpuId{1});
  CHECK_THAT(two.bandwidth.in_bytes_per_second(),
             WithinRel(2 * one.bandwidth.in_bytes_per_second(), 1e-9));
}

TEST_CASE("a validated machine says nothing of validation") {
  const Report report = forecast(root + "/topologies/dgx-h100.yaml", "bf16");
  CHECK(report.not_validated.empty());
  for (const std::string& text : {to_table(report), to_json(report), to_csv(report),
                                  to_markdown(report), memory_json(report), memory_table(report)})
    CHECK(text.find("not_validated") == std::string::npos);
}

TEST_CASE("a device that has more of everything is not slower") {
  for (const char* dtype : {"bf16", "fp8"}) {
    CAPTURE(dtype);
    CHECK(step("dgx-b300", dtype) <= step("dgx-b200", dtype) * 1.001);
    CHECK(step("gb300-nvl72", dtype) <= step("gb200-nvl72", dtype) * 1.001);
    CHECK(step("mi325x-8", dtype) <= step("mi300x-8", dtype) * 1.001);
    CHECK(step("mi355x-8", dtype) <= step("mi325x-8", dtype) * 1.001);
    CHECK(step("rtx5090-8", dtype) <= step("rtx4090-8", dtype) * 1.001);
    CHECK(step("dgx-h200", dtype) <= step("h20-8", dtype));
  }
}

TEST_CASE("gradients that are freed after a step are not all there at its peak", "[report]") {
  const auto memory = [](const char* more) {
    const auto path = test::temporary_path("freed.yaml");
    std::ofstream(path) << "name: freed\nmodel: " << root
                        << "/models/llama-3.2-1b.yaml\ncluster: {path: " << root
                        << "/topologies/dgx-h100.yaml, gpus: 1}\nframework: {name: transformers"
                        << more
                        << "}\nlayout: {sequence_length: 2048, global_batch: 4, micro_batch: 4}\n";
    const Scenario scenario = load_scenario(path.string());
    std::filesystem::remove(path);
    return stage_memory(make_plan(scenario.model, scenario.layout), scenario.cluster)[0];
  };
  const auto gradients = [](const StageMemory& stage) {
    return stage.use.at_peak[static_cast<std::size_t>(BufferCategory::gradients)];
  };
  const StageMemory freed = memory(""), kept = memory(", gradient_accumulation_fusion: true");
  CHECK(gradients(freed) < gradients(kept));
  CHECK(freed.max_allocated() < kept.max_allocated());
  Bytes sum;
  for (const Bytes bytes : freed.use.at_peak)
    sum += bytes;
  CHECK(sum == freed.use.peak);
}
