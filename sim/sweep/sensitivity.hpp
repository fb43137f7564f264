// The gain of the step from each parameter of the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/point.hpp"

namespace sim {

struct Elasticity {
  std::string parameter;          // "NIC bandwidth"
  std::string value;              // in the file: "400 Gbps"
  std::vector<std::string> keys;  // changed together
  // d ln(step time) / d ln(parameter): -0.31 where 1 % more takes 0.31 % off the step.
  double value_of_one = 0;
  Duration with_more{}, with_less{};  // step times with the parameter up and down by the share
  std::string unmoved;                // where a side takes as long: which, and what bounds it
  bool one_sided = false;             // a limit of the parameter forbids the other side
};

struct Sensitivity {
  std::string path;
  std::vector<std::string> overrides;
  double by = 0;  // 0.05: 5 % up and down
  PointResult base;
  std::vector<Elasticity> parameters;  // the strongest first
  std::vector<std::string> left_out;   // with the reason
};

// Central differences in logarithms. REQUIRES: 0 < by < 1. Throws InputError; Stopped.
Sensitivity sensitivity_of(const ScenarioInput& file, const std::vector<std::string>& overrides,
                           double by, const std::function<void()>& done = {},
                           const Control& control = {});

std::string sensitivity_table(const Sensitivity& sensitivity);
std::string sensitivity_json(const Sensitivity& sensitivity);
std::string sensitivity_csv(const Sensitivity& sensitivity);
std::string sensitivity_markdown(const Sensitivity& sensitivity);

}  // namespace sim
