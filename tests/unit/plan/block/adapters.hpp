// Programs of fine-tunings, and what tests of them count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "sim/plan/plan.hpp"
#include "tests/unit/plan/models.hpp"

namespace sim::test {

constexpr int rank = 8;

inline Layout lora(int tensor = 1, int data = 1) {
  Layout layout = layout_for(tensor, data, 1, 2);
  layout.lora_rank = rank;
  layout.sequence_parallel = tensor > 1;
  return layout;
}

inline std::int64_t bytes_of(const Program& program, BufferCategory category) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.category == category && buffer.persistent) bytes += buffer.size.count();
  return bytes;
}

inline double flops_of(const Program& program, Action action) {
  double flops = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == action && program.kind[op] == OpKind::gemm)
      flops += program.kernels[program.work[op]].flops.count();
  return flops;
}

inline bool says(const Layout& layout, const Model& model, std::string_view key) {
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  return std::ranges::any_of(problems, [&](const LayoutProblem& one) { return one.key == key; });
}

}  // namespace sim::test
