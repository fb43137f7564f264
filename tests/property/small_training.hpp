// A tiny job on several replicas in fp32, which tests of synchronisation train.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/property/equivalence.hpp"
#include "tests/property/equivalence_cases.hpp"
#include "tests/property/support.hpp"

namespace real::test {

inline sim::Training training_of(int count) {
  sim::Training training;
  training.steps = count;
  training.learning_rate.peak = 1e-2;
  training.epsilon = 1e-3;
  return training;
}

inline sim::Layout replicas_in_fp32(int count) {
  sim::Layout layout;
  layout.sequence_length = 12;
  layout.data_parallel = count;
  layout.global_batch = 8;
  layout.compute_dtype = layout.activation_dtype = sim::DType::fp32;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  layout.bucket = sim::Bytes{20'000};
  return layout;
}

struct SmallModel {
  sim::Model model = equivalence_model({.llama = true, .tied = true});
  std::unique_ptr<sim::test::TemporaryFile> text = equivalence_text();
  Corpus corpus{text->path(), model, 12};
};

inline double largest_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]) / std::fabs(b[i]));
  return worst;
}

}  // namespace real::test
