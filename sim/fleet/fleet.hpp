// A fleet: several jobs at once on one fabric, and what each costs the others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

struct FleetJob {
  std::string name;
  Scenario scenario;  // with the nodes of the job alone
};

// `phases`: how often the jobs' starts are drawn, each uniformly over a step of its job.
struct Fleet {
  std::string name, path;
  int phases = 8;
  std::uint64_t seed = 1;
  std::vector<FleetJob> jobs;
};

// Reads a fleet file (README.md). Throws InputError.
Fleet load_fleet(const std::string& path);

// Times that a job's step takes beside others, over its time alone, of all drawn phases, ascending.
struct Slowdown {
  std::vector<double> drawn;
  double least() const { return drawn.front(); }
  double median() const { return drawn[(drawn.size() - 1) / 2]; }
  double most() const { return drawn.back(); }
};

struct JobImpact {
  std::string name;
  int gpus = 0, nodes = 0;
  Duration alone{};  // a step
  Slowdown beside_all;
};

// A link of the fabric that two jobs use, by the share of a step alone in which each does.
struct SharedLink {
  std::string name;
  std::size_t alike = 1;  // links with the same two shares
  double first_busy = 0, second_busy = 0;
};

// Two jobs, numbered as in the fleet, without the others.
struct JobPair {
  std::size_t first = 0, second = 0;
  Slowdown of_first, of_second;
  std::vector<SharedLink> links;  // those with the largest product of shares first; empty: none
};

struct FleetForecast {
  std::string name, cluster;
  int phases = 0;
  std::uint64_t seed = 1;
  std::vector<JobImpact> jobs;
  std::vector<JobPair> pairs;
};

// Throws InputError for jobs that are not of one machine, or share nodes; Stopped.
FleetForecast forecast_fleet(const Fleet& fleet, const Control& control = {});

std::string fleet_table(const FleetForecast& forecast);
std::string fleet_json(const FleetForecast& forecast);
std::string fleet_csv(const FleetForecast& forecast);
std::string fleet_markdown(const FleetForecast& forecast);

}  // namespace sim
