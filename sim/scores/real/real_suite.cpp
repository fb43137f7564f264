#include "sim/scores/real/real_suite.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"

namespace sim {
namespace {

constexpr int most_ranks = 1024;
constexpr int most_steps = 1000;

// Names are file names of records and cells of tables.
void check_name(const ValueReader& value, const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (name.empty() || !plain || name.front() == '.')
    value.problem("a name has letters, digits, '-', '_' and '.', and does not begin with '.'");
}

void read_overrides(const ObjectReader& from, std::string_view key,
                    std::vector<std::string>& into) {
  if (!from.has(key)) return;
  for (const ValueReader& item : from.list(key)) {
    std::string text = item.text();
    if (text.find('=') == std::string::npos) item.problem("an override is section.key=value");
    into.push_back(std::move(text));
  }
}

std::optional<double> optional_share(const ObjectReader& from, std::string_view key) {
  if (!from.has(key)) return std::nullopt;
  return from.real(key, {.min = 0, .max = 100});
}

SuiteBounds read_bounds(const ObjectReader& from) {
  SuiteBounds bounds;
  bounds.scored = static_cast<int>(from.integer_or("scored", 0, {.min = 0, .max = 100'000}));
  bounds.median_step_error = optional_share(from, "median_step_error");
  bounds.worst_step_error = optional_share(from, "worst_step_error");
  bounds.favourite_loss = optional_share(from, "favourite_loss");
  bounds.worst_memory_error = optional_share(from, "worst_memory_error");
  bounds.same_work = from.boolean_or("same_work", true);
  return bounds;
}

// Each block of `scenarios` has a base file, overrides for all of its runs, and the runs.
void read_block(const ObjectReader& block, RealSuite& suite) {
  const std::string base = block.text("base");
  std::vector<std::string> shared;
  read_overrides(block, "set", shared);
  for (const ValueReader& item : block.list("runs")) {
    const ObjectReader run = item.object();
    SuiteScenario scenario{
        .name = run.text("name"), .base = resolve_path(suite.path, base), .overrides = shared};
    if (run.has("name")) check_name(run.at("name"), scenario.name);
    const bool known =
        std::any_of(suite.scenarios.begin(), suite.scenarios.end(),
                    [&](const SuiteScenario& other) { return other.name == scenario.name; });
    if (known) run.problem("name", "there is another scenario of this name");
    read_overrides(run, "set", scenario.overrides);
    suite.scenarios.push_back(std::move(scenario));
  }
}

RealSuite read_suite(const Document& document, const std::string& path) {
  const ObjectReader top = document.root_object();
  RealSuite suite;
  suite.path = path;
  suite.name = top.text("name");
  if (top.has("name")) check_name(top.at("name"), suite.name);
  suite.title = top.text_or("title", "");
  suite.cluster = referenced_file(path, top.text("cluster"), "topologies");
  suite.backend = top.word<RealBackend>("backend");
  suite.ranks = static_cast<int>(top.integer("ranks", {.min = 1, .max = most_ranks}));
  suite.ranks_per_gpu =
      static_cast<int>(top.integer_or("ranks_per_gpu", 0, {.min = 0, .max = most_ranks}));
  if (suite.ranks_per_gpu > 0 && suite.backend != RealBackend::cuda)
    top.problem("ranks_per_gpu", "only ranks of the cuda backend share a GPU");
  suite.warm_up_steps =
      static_cast<int>(top.integer_or("warm_up_steps", 2, {.min = 0, .max = most_steps}));
  suite.measured_steps =
      static_cast<int>(top.integer_or("measured_steps", 5, {.min = 1, .max = most_steps}));
  suite.recorded_steps =
      static_cast<int>(top.integer_or("recorded_steps", 3, {.min = 1, .max = most_steps}));
  if (top.has("bounds")) suite.bounds = read_bounds(top.object("bounds"));
  for (const ValueReader& block : top.list("scenarios"))
    read_block(block.object(), suite);
  if (suite.scenarios.empty() && top.has("scenarios"))
    top.problem("scenarios", "a suite has at least one scenario");
  document.finish();
  return suite;
}

}  // namespace

std::vector<std::string> overrides_of(const RealSuite& suite, const SuiteScenario& scenario) {
  std::vector<std::string> overrides = scenario.overrides;
  overrides.push_back("cluster.path=" + std::filesystem::absolute(suite.cluster).string());
  overrides.push_back("cluster.gpus=" + std::to_string(suite.ranks));
  return overrides;
}

RealSuite load_real_suite(const std::string& path) {
  return read_suite(Document::load(path), path);
}

RealSuite parse_real_suite(std::string_view text, const std::string& path) {
  return read_suite(Document::parse_yaml(text, path), path);
}

}  // namespace sim
