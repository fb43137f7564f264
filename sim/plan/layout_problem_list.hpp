// LayoutProblemList is the list that the files which check a layout write into.
//   layout_problems.cpp          all of a layout
//   layout_problems_tensor.cpp   tensor parallelism, products that are cut into parts
//   layout_problems_experts.cpp  mixtures of experts, latent attention
//   layout_problems_hybrid.cpp   layers that differ, scans, sparse attention
//   layout_problems_compression.cpp  compressed gradients and parameters
//   layout_problems_offload.cpp  optimizer states on the host
//   layout_problems_states.cpp  formats of optimizer states
//   layout_problems_recompute.cpp  modules that run again
//   layout_problems_loss.cpp  the loss in chunks of the tokens
//   layout_problems_adapters.cpp  low-rank adapters, layers in 16 bits
//   layout_problems_formats.cpp  formats by module
//   layout_problems_packing.cpp  packed sequences, lengths of a data set
//   layout_problems_local_steps.cpp  groups of ranks that train apart
//   layout_problems_replicas.cpp     replicas with micro-batches of their own number
//   layout_problems_servers.cpp  parameter servers
//   layout_problems_vision.cpp   images, a vision encoder
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/plan.hpp"

namespace sim {

struct LayoutProblemList {
  template <class... Values>
  void problem(const char* key, fmt::format_string<Values...> text, Values&&... values) {
    problems.push_back({key, fmt::format(text, std::forward<Values>(values)...)});
  }

  // Common divisors of `values`, as "1, 2, 4, 8".
  static std::string divisors_of(std::initializer_list<std::int64_t> values) {
    std::int64_t common = 0;
    for (const std::int64_t value : values)
      common = std::gcd(common, value);
    std::string text;
    int found = 0;
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(common, 4096); ++d) {
      if (common % d != 0) continue;
      if (++found > 16) return text + ", ...";
      text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
    }
    return text;
  }

  std::vector<LayoutProblem> problems;
};

// The blocks around the layers, and a layer of each kind.
std::vector<const Block*> blocks_of_each_kind(const Model& model);

// Operators around a layer as Megatron-LM has them.
bool runs_as_megatron(const Execution& runs);
bool runs_as_torchtitan(const Execution& runs);

void check_tensor(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_experts(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_hybrid_layers(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_expert_load(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_dispatcher(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_exchange_overlap(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_compression(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_offload(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_states(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_recompute_modules(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_loss(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_adapters(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_packing(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_quantized(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_module_formats(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_local_steps(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_vision(const Layout& layout, const Model& model, LayoutProblemList& list);
void check_servers(const Layout& layout, const Model& model, LayoutProblemList& list);
// REQUIRES: Layout::replica_batches.
std::vector<LayoutProblem> replica_problems(const Layout& layout);

}  // namespace sim
