// Measured curves of collectives beside the formulas: time over size, without the curves that a
// topology carries (CollectiveChoice::use_measured = false).
//
// Two tables, as nccl-tests prints them: the index has a line per curve (which GPUs, how many, what
// fabric), the curves a line per size. A curve is mapped to a shipped cluster by its GPU, the NICs
// of a node and the words of its fabric; validation/CURVES.md has the rule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/rows/csv.hpp"

namespace sim {

struct CurvePoint {
  Bytes size{};
  Duration measured{};  // the shorter of out-of-place and in-place
  Duration predicted{};
  double error() const;  // (predicted - measured) / measured
};

struct Curve {
  std::string id;
  std::string op;  // of nccl-tests: all_reduce, all_gather, reduce_scatter, alltoall, sendrecv
  std::string gpu, fabric, version, notes;
  std::string use;  // fit, score or empty: whether a parameter was read off it
  int nodes = 0;
  int gpus = 0;
  int nics = 0;  // per node; 0: not stated
  double nic_gbps = 0;
  std::vector<CurvePoint> points;  // in the order of the file
};

struct CurveResult {
  Curve curve;
  std::string cluster;   // file, relative to the data folder
  std::string skipped;   // why nothing was predicted
  int points = 0;        // of 1 KiB and more
  int large_points = 0;  // of more than 64 MiB
  std::optional<double> median_abs_error, median_large_abs_error;
};

// The curves of the index, each with its points. Throws InputError, also for a point of a run that
// the index has not, and for a curve without points.
std::vector<Curve> read_curves(const CsvTable& points, const CsvTable& index);

// Predicts every point, or says why not.
CurveResult predict_curve(Curve curve, const std::string& data_folder);

std::string curve_table(std::span<const CurveResult> results);
std::string curve_markdown(std::span<const CurveResult> results);
std::string curve_csv(std::span<const CurveResult> results);   // a line per point
std::string curve_json(std::span<const CurveResult> results);  // {"curves": [...]}

}  // namespace sim
