// A forecast is continuous in every parameter of the machine: the limit from above, the value and
// the limit from below are one. What is measured must not be dropped where a value is touched.
#include <cmath>
#include <string>
#include <vector>

#include "sim/config/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/sweep/machine_parameters.hpp"
#include "sim/sweep/point.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

struct Case {
  const char* scenario;
  std::vector<std::string> set;
};

// Measured curves within a node, between two nodes and on cores; measured kernels; formulas alone.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"scenarios/llama-3.1-70b-512-h100.yaml", {}},
      {"scenarios/gpt3-175b-1024-a100.yaml", {}},
      {"scenarios/llama-3.1-8b-fsdp-8-h100.yaml", {}},
      {"scenarios/mixtral-8x7b-64-h100.yaml", {}},
      {"scenarios/bert-large-32-v100.yaml", {}},
      {"scenarios/llama-3.1-8b-fsdp-8-h100.yaml",
       {"cluster.path=" + root + "/topologies/aws-p5.yaml", "cluster.nodes=2"}},
      {"scenarios/real/llama-byte-tp2-dp2.yaml",
       {"cluster.path=" + root + "/validation/real/machines/host-4/cluster.yaml"}},
  };
  return all;
}

std::vector<std::string> with(std::vector<std::string> set, const MachineParameter& parameter,
                              double factor) {
  for (std::size_t i = 0; i < parameter.keys.size(); ++i)
    set.push_back(parameter.keys[i] + '=' + scaled_text(parameter.values[i], factor));
  return set;
}

}  // namespace

TEST_CASE("the forecast is continuous in every parameter of the machine", "[property]") {
  constexpr double little = 1e-6;
  // No parameter's elasticity is above 1; rounding to picoseconds is far below.
  constexpr double allowed = 3 * little;
  for (const Case& one : cases()) {
    const std::string path = root + "/" + one.scenario;
    const Scenario scenario = load_scenario(path, one.set);
    Forecaster forecaster;
    const auto time = [&](const std::vector<std::string>& set) {
      return forecast_point(path, set, LayoutMode::fixed, forecaster);
    };
    const double base = to_seconds(time(one.set).step_time);
    for (const MachineParameter& parameter :
         machine_parameters(scenario.cluster_path, scenario.changes)) {
      for (const double factor : {1.0, 1 + little, 1 - little}) {
        const PointResult point = time(with(one.set, parameter, factor));
        CAPTURE(one.scenario, parameter.name, factor, point.problem);
        // A limit of the file's, such as an efficiency above 1, is no jump.
        if (!point.told()) continue;
        if (factor == 1.0) CHECK(to_seconds(point.step_time) == base);
        CHECK(std::abs(to_seconds(point.step_time) / base - 1) <= allowed);
      }
    }
  }
}
