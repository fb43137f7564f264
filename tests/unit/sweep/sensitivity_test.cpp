#include "sim/sweep/sensitivity.hpp"

#include <cmath>
#include <fstream>
#include <map>

#include "sim/sweep/machine_parameters.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

Sensitivity of_gpt2(const std::string& cluster, const std::string& layout) {
  const std::string path = test::temporary_path("sensitivity.yaml").string();
  std::ofstream{path} << "model: " << root << "/models/gpt2.yaml\ncluster: {path: " << root
                      << "/topologies/dgx-h100.yaml, " << cluster
                      << "}\nlayout: {sequence_length: 1024, global_batch: 64" << layout
                      << "}\nframework: {host_calls: 1}\n";
  Sensitivity result = sensitivity_of(path, {}, 0.05);
  std::remove(path.c_str());
  return result;
}

std::map<std::string, double> by_name(const Sensitivity& sensitivity) {
  std::map<std::string, double> all;
  for (const Elasticity& entry : sensitivity.parameters)
    all[entry.parameter] = entry.value_of_one;
  return all;
}

}  // namespace

// Twice all rates and half of all latencies are half of the time, so the elasticities of rates less
// those of latencies sum to -1 (Euler's theorem on homogeneous functions).
TEST_CASE("on one GPU the elasticities sum to minus one", "[sweep]") {
  const std::map<std::string, double> all =
      by_name(of_gpt2("nodes: 1, gpus: 1", ", micro_batch: 8"));
  const double sum = all.at("matrix rate") + all.at("memory bandwidth") +
                     all.at("memory bandwidth of one SM") + all.at("operand feed of the SMs") -
                     all.at("launch and tail of kernels") - all.at("host time per kernel");
  CHECK(sum == Approx(-1).margin(0.01));
  CHECK(all.at("matrix rate") < -0.2);
  CHECK(all.at("memory bandwidth") < -0.1);
  CHECK(all.at("NIC bandwidth") == 0);
}

TEST_CASE("the network matters where there is one", "[sweep]") {
  const Sensitivity slow = of_gpt2("nodes: 4, change: {node: {nics: {bandwidth: 10 Gbps}}}", "");
  const std::map<std::string, double> all = by_name(slow);
  CHECK(all.at("NIC bandwidth") < -0.3);
}

TEST_CASE("a side that the file refuses is left out", "[sweep]") {
  const Sensitivity sensitivity = of_gpt2("nodes: 2, change: {network: {efficiency: 1}}", "");
  const auto efficiency =
      std::find_if(sensitivity.parameters.begin(), sensitivity.parameters.end(),
                   [](const Elasticity& entry) { return entry.parameter == "network efficiency"; });
  REQUIRE(efficiency != sensitivity.parameters.end());
  CHECK(efficiency->one_sided);
  CHECK(efficiency->with_more == Duration{});
  CHECK(efficiency->with_less > Duration{});
}

TEST_CASE("all sides have one basis, and one that changes nothing says what bounds it", "[sweep]") {
  const Sensitivity all = sensitivity_of(root + "/scenarios/llama-3.1-70b-512-h100.yaml", {}, 0.05);
  const double base = to_seconds(all.base.step_time);
  std::map<std::string, std::string> unmoved;
  for (const Elasticity& entry : all.parameters) {
    unmoved[entry.parameter] = entry.unmoved;
    if (entry.parameter.find("latency") == std::string::npos) continue;
    CAPTURE(entry.parameter);
    CHECK(std::abs(to_seconds(entry.with_more) / base - 1) < 1e-3);
    CHECK(std::abs(to_seconds(entry.with_less) / base - 1) < 1e-3);
  }
  CHECK(unmoved.at("NIC bandwidth") == "5 % more changes nothing: PCIe's 48 GB/s bounds it");
  CHECK(unmoved.at("matrix rate").empty());
}

TEST_CASE("parameters are those that the files have", "[sweep]") {
  const std::vector<MachineParameter> all = machine_parameters(root + "/topologies/dgx-h100.yaml");
  const auto nic = std::find_if(all.begin(), all.end(), [](const MachineParameter& parameter) {
    return parameter.name == "NIC bandwidth";
  });
  REQUIRE(nic != all.end());
  CHECK(nic->values == std::vector<std::string>{"400 Gbps"});
  CHECK(nic->keys == std::vector<std::string>{"cluster.change.node.nics.bandwidth"});
}
