// Factors on the time of a step's parts: what one's own measured runs say of a machine and a
// framework beyond the cost models. Scenario key simulation.time_factors.
#pragma once

#include <array>
#include <string_view>

namespace sim {

struct TimeFactors {
  double products = 1;        // matrix products and attention
  double memory_kernels = 1;  // all other kernels
  double host = 1;            // time of the host to issue a kernel
  double tensor = 1;          // communication within layers: tensor, context, expert groups
  double data = 1;            // other collectives
  double pipeline = 1;        // sends and receives
  bool operator==(const TimeFactors&) const = default;
};

inline constexpr double least_time_factor = 0.01, most_time_factor = 100;

struct TimeFactorField {
  std::string_view name;
  double TimeFactors::*member;
};
inline constexpr std::array time_factor_fields{
    TimeFactorField{"products", &TimeFactors::products},
    TimeFactorField{"memory_kernels", &TimeFactors::memory_kernels},
    TimeFactorField{"host", &TimeFactors::host},
    TimeFactorField{"tensor", &TimeFactors::tensor},
    TimeFactorField{"data", &TimeFactors::data},
    TimeFactorField{"pipeline", &TimeFactors::pipeline}};

}  // namespace sim
