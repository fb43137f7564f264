// Digests of the programs of the shipped scenarios, of the measured rows and of drawn scenarios, as
// recorded in programs.txt: a redesign of the planner changes none of them.
//   STEPCAST_PROGRAMS=all                                    all of them, by hand
//   STEPCAST_PROGRAMS=all STEPCAST_RECORD_PROGRAMS=1         records them anew
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/input_error.hpp"
#include "sim/scores/predict.hpp"
#include "sim/scores/published.hpp"
#include "tests/catch.hpp"
#include "tests/property/pair_scenarios.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/program_digest.hpp"

namespace {

using namespace sim;
using namespace sim::test;

constexpr const char* recorded_file = "tests/golden/programs.txt";
constexpr std::uint64_t of_a_group = 100;

bool asked(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// Programs under one name, of one or of many scenarios.
struct Programs {
  Digest digest;
  std::size_t scenarios = 0, operators = 0;

  void add(const Scenario& scenario) {
    const Plan plan = make_plan(scenario.model, scenario.layout);
    ++scenarios;
    for (const std::vector<Program>* programs : {&plan.programs, &plan.longest})
      for (const Program& program : *programs) {
        add_program(program, digest);
        operators += program.size();
      }
  }
  std::string text() const {
    return fmt::format("{} scenarios, {} operators, {:016x}", scenarios, operators, digest.value());
  }
};

std::map<std::string, std::string> recorded() {
  std::map<std::string, std::string> lines;
  std::ifstream file{recorded_file};
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return lines;
}

void compare_or_record(const std::map<std::string, std::string>& now) {
  std::map<std::string, std::string> before = recorded();
  if (!asked("STEPCAST_RECORD_PROGRAMS")) {
    for (const auto& [name, text] : now)
      CHECK(name + ": " + text == name + ": " + before[name]);
    return;
  }
  for (const auto& [name, text] : now)
    before[name] = text;
  std::ofstream file{recorded_file};
  for (const auto& [name, text] : before)
    file << name << ": " << text << '\n';
}

TEST_CASE("the programs of the shipped scenarios are those recorded", "[programs]") {
  std::map<std::string, std::string> now;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{"scenarios"}) {
    if (entry.path().extension() != ".yaml" || entry.path().parent_path() == "scenarios/search")
      continue;
    Programs programs;
    programs.add(load_scenario(entry.path().string()));
    now[entry.path().string()] = programs.text();
  }
  CHECK(now.size() >= 14);
  compare_or_record(now);
}

void add_rows(const MeasuredSet& set, Programs& programs) {
  for (const MeasuredRow& row : set.rows) {
    if (!row.unreadable.empty()) continue;
    try {
      programs.add(row_scenario(set, row));
    } catch (const std::runtime_error&) {  // what cannot be simulated; `validate` says why
    }
  }
}

// The four largest sets take most of the time, by hand only.
bool is_large(const MeasuredSet& set) {
  return std::set<std::string>{"bigscience_176b", "calculon_seqsel_memory", "dgxc_benchmarking",
                               "nvidia_performance"}
      .contains(set.name);
}

TEST_CASE("the programs of the measured rows are those recorded", "[programs]") {
  std::map<std::string, std::string> now;
  for (const MeasuredSet& set : load_sets("validation", {})) {
    if (is_large(set) && !asked("STEPCAST_PROGRAMS")) continue;
    Programs programs;
    add_rows(set, programs);
    now["validation " + set.name] = programs.text();
  }
  CHECK(now.size() >= 16);
  compare_or_record(now);
}

TEST_CASE("the programs of drawn scenarios are those recorded", "[programs]") {
  std::map<std::string, std::string> now;
  const std::uint64_t groups = asked("STEPCAST_PROGRAMS") ? 10 : 2;
  PairScenarios pairs{1, all_pairs()};
  for (std::uint64_t group = 0; group < groups; ++group) {
    Programs drawn, paired;
    for (std::uint64_t i = 0; i < of_a_group; ++i) {
      drawn.add(random_scenario(group * of_a_group + i).scenario);
      paired.add(pairs.next().scenario);
    }
    now[fmt::format("drawn {}", group)] = drawn.text();
    now[fmt::format("pairs {}", group)] = paired.text();
  }
  compare_or_record(now);
}

}  // namespace
