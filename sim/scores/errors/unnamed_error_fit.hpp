// Fits the error of jobs whose framework is not named, and tests the intervals that follow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/scores/errors/time_error_fit.hpp"

namespace sim {

// UnnamedRows are rows that were forecast without their framework: those whose trainers are left
// out in turn, and those of trainers that no figure rests on.
struct UnnamedRows {
  std::vector<ErrorRow> left_out, held_out;
};

// unnamed_rows() are the rows of the published sets, `results` of PredictOptions::without
// framework, and of the tables in validation/unnamed, each of a trainer that no preset knew: those
// of use `fit` are left out in turn, those of use `score` are held out. The trainer of a published
// row is its framework.
UnnamedRows unnamed_rows(std::span<const SetResult> results);

struct UnnamedErrorFit {
  UnnamedError error;
  std::vector<Coverage> left_out, held_out;  // by set
};

// fit_unnamed_error() finds the mean over the trainers that are left out and, in each, over its
// sets, and the least deviation with which intervals hold their share of the rows, every trainer
// alike: the next job that does not say its framework is of another trainer. `named`: the rows that
// `fit` rests on, whose frameworks are known. REQUIRES: rows of three trainers or more to leave
// out.
UnnamedErrorFit fit_unnamed_error(const UnnamedRows& rows, std::span<const ErrorRow> named,
                                  const TimeErrorFit& fit);

// validation/unnamed-error.yaml.
std::string unnamed_error_file(const UnnamedErrorFit& fit);
std::string unnamed_coverage_table(const UnnamedErrorFit& fit);

}  // namespace sim
