// Traces of the PyTorch profiler (Kineto JSON): measured kernels, collectives and launch costs.
//
// Kernels find the operator that issued them through "External id". Shapes need
// `record_shapes=True`: products (aten::mm, addmm, bmm, baddbmm, linear), a few memory-bound
// operators whose bytes follow from their shapes, and layer norms. Collectives come from the
// metadata that NCCL kernels carry. A collective's kernel also waits for the slowest rank, so with
// traces of several ranks each call counts its shortest kernel (the k-th call of a group is the
// k-th on every rank).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/measurements.hpp"

namespace sim {

struct KinetoHints {
  std::optional<int> gpus_per_node{};  // a trace does not tell: without it no collective is taken
};

struct KinetoTrace {
  std::string name{};
  std::string text{};
};

struct KinetoResult {
  MeasuredMachine machine{};
  std::vector<std::string> notes{};  // parts left out, and why
};

// Throws InputError for what is no trace of that profiler, and where nothing can be used.
KinetoResult parse_kineto(const std::vector<KinetoTrace>& traces, const KinetoHints& hints = {});
KinetoResult read_kineto(const std::vector<std::string>& paths, const KinetoHints& hints = {});

}  // namespace sim
