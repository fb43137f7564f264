// SCHEMA.md and the JSON say the same: every key that is written is documented, every documented
// key is written.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/report/report.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/report/fixture.hpp"

using namespace sim;

namespace {

// "stages[].memory_bytes.weights" for every leaf.
void collect(const nlohmann::json& value, const std::string& path, std::set<std::string>& paths) {
  if (value.is_object()) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [key, child] : value.items())
      collect(child, prefix + key, paths);
  } else if (value.is_array()) {
    for (const auto& child : value)
      collect(child, path + "[]", paths);
  } else {
    paths.insert(path);
  }
}

std::set<std::string> documented() {
  std::ifstream file{sim::test::source_dir() + "/sim/report/SCHEMA.md"};
  std::set<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    keys.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return keys;
}

}  // namespace

TEST_CASE("every key of the JSON is documented, and every documented key is there") {
  std::set<std::string> written;
  Report report = small_report();
  report.not_validated = {{"device", "GPU", "a data sheet"}};  // absent where there is none
  report.crossing = {{.role = GroupRole::expert,
                      .ranks = 4,
                      .groups = 2,
                      .crossing = 1,
                      .nodes = 2,
                      .remedy = "cluster.gpus_per_node: 8"}};
  report.even_gpus_per_node = 4;
  report.memory_error.emplace().excess.assign(excess_shares.size(), 0);
  report.memory_error->unlike = {"optimizer on the host"};
  for (StageMemory& stage : report.memory)
    stage.kept = Bytes{1};
  report.interval = TimeInterval{.low = 0.9, .high = 1.1, .unlike = {"schedule gpipe"}};
  report.meetings.emplace();
  report.expert_load.emplace();
  report.loads.emplace().tokens = 1;
  report.servers.emplace().staleness.add(1);
  collect(nlohmann::json::parse(to_json(report)), "", written);
  const std::set<std::string> known = documented();
  REQUIRE_FALSE(known.empty());
  for (const std::string& key : written) {
    CAPTURE(key);
    CHECK(known.count(key) == 1);
  }
  for (const std::string& key : known) {
    CAPTURE(key);
    CHECK(written.count(key) == 1);
  }
}

TEST_CASE("the JSON of memory alone uses the same keys") {
  std::set<std::string> written;
  Report report = small_report();
  report.stage_breakdown.clear();
  collect(nlohmann::json::parse(memory_json(report)), "", written);
  const std::set<std::string> known = documented();
  for (const std::string& key : written) {
    CAPTURE(key);
    CHECK(known.count(key) == 1);
  }
}

TEST_CASE("the parts of the breakdown in the JSON sum to the step") {
  const auto json = nlohmann::json::parse(to_json(small_report()));
  double sum = 0;
  for (const auto& part : json["breakdown_s"])
    sum += part.get<double>();
  CHECK_THAT(sum, WithinRel(json["step_time_s"].get<double>(), 1e-12));
  CHECK(json["schema_version"] == 1);
}

TEST_CASE("the same report gives the same bytes") {
  CHECK(to_json(small_report()) == to_json(small_report()));
}
