#include "sim/scenario/disturbance.hpp"

#include <algorithm>
#include <cmath>

#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

constexpr RealRange share{.min = 0.001, .max = 1};
constexpr double node_gigabytes = 400;  // of the measured cluster: 8 NICs of 400 Gb/s

// Bus bandwidth of an all-reduce while other jobs run, in GB/s: median, 5% and 95% quantile.
struct Measured {
  double nodes, median, low, high;
};
// Hugging Face, The Ultra-Scale Playbook (2025), figure of communication bandwidth by nodes: H100s,
// 400 GB/s per node.
constexpr std::array measured{Measured{2, 361.7, 302.3, 436.1}, Measured{4, 160.1, 44.5, 219.1},
                              Measured{8, 99.6, 41.6, 192.7},   Measured{16, 84.7, 31.3, 188.4},
                              Measured{32, 64.9, 25.0, 194.2},  Measured{64, 32.9, 12.5, 177.4}};

double share_of(double gigabytes) {
  return std::min(1.0, gigabytes / node_gigabytes);
}

// Straight between two rows, in the logarithms of both; the last one beyond it.
double at(double nodes, double Measured::*figure) {
  if (nodes <= measured.front().nodes) return measured.front().*figure;
  for (std::size_t i = 1; i < measured.size(); ++i) {
    if (nodes > measured[i].nodes) continue;
    const Measured &from = measured[i - 1], &to = measured[i];
    const double part = std::log(nodes / from.nodes) / std::log(to.nodes / from.nodes);
    return from.*figure * std::pow(to.*figure / from.*figure, part);
  }
  return measured.back().*figure;
}

}  // namespace

Disturbance preset_of(DisturbancePreset preset, int nodes) {
  Disturbance made{.preset = preset};
  if (preset == DisturbancePreset::dedicated || nodes < 2) return made;
  made.fabric_share = share_of(at(nodes, &Measured::median));
  made.fabric_share_low = share_of(at(nodes, &Measured::low));
  made.fabric_share_high = share_of(at(nodes, &Measured::high));
  return made;
}

Disturbance read_disturbance(const ScenarioInput& scenario,
                             const std::vector<std::string>& overrides, int nodes) {
  const ScenarioSources sources = scenario.with(overrides);
  const Layered section = sources.only_section("disturbance");
  Disturbance made = preset_of(section.word_or("preset", DisturbancePreset::dedicated), nodes);
  made.fabric_share = section.real_or("fabric_share", made.fabric_share, share);
  made.fabric_share_low = section.real_or(
      "fabric_share_low", std::min(made.fabric_share_low, made.fabric_share), share);
  made.fabric_share_high = section.real_or(
      "fabric_share_high", std::max(made.fabric_share_high, made.fabric_share), share);
  made.slow_nodes = section.real_or("slow_nodes", made.slow_nodes, {.min = 0, .max = 1});
  made.occupancy = section.real_or("occupancy", 0, {.min = 0, .max = 0.999});
  made.slow_factor = section.real_or("slow_factor", made.slow_factor, {.min = 1, .max = 100});
  if (made.fabric_share_low > made.fabric_share || made.fabric_share > made.fabric_share_high)
    section.problem("fabric_share",
                    "fabric_share_low, fabric_share and fabric_share_high do not ascend");
  sources.finish();
  return made;
}

}  // namespace sim
