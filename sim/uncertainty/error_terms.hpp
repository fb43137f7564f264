// Terms of the error of a forecast: ln(measured / forecast) of a job is the sum of its categories'
// effects and, for each source below, of the source's effect times the job's coefficient, and of a
// rest. docs/how-sure.md derives it.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "sim/uncertainty/job_traits.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

using SourceVector = Eigen::Matrix<double, static_cast<int>(error_source_count), 1>;

inline double squared(double x) {
  return x * x;
}

// The coefficient of ErrorSource::scale: per three doublings.
double scale_coefficient(int gpus);
// The coefficients of a job.
SourceVector source_coefficients(const JobTraits& traits);

// "framework megatron", "generation hopper", "dtype bf16", "schedule 1f1b", "experts".
std::vector<std::string> categories_of(const JobTraits& traits);

}  // namespace sim
