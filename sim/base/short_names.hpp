// Short names that engineers use for keys.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace sim {

// The whole name of a short one, or nothing.
constexpr std::string_view whole_name(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 17> names{
      {{"tp", "tensor_parallel"},
       {"cp", "context_parallel"},
       {"pp", "pipeline_parallel"},
       {"dp", "data_parallel"},
       {"ep", "expert_parallel"},
       {"etp", "expert_tensor_parallel"},
       {"sp", "sequence_parallel"},
       {"vp", "virtual_stages"},
       {"vpp", "virtual_stages"},
       {"mbs", "micro_batch"},
       {"gbs", "global_batch"},
       {"seq_len", "sequence_length"},
       {"seq_length", "sequence_length"},
       {"zero", "zero_stage"},
       {"fsdp", "zero_stage"},
       {"dtype", "compute_dtype"},
       {"precision", "compute_dtype"}}};
  for (const auto& [name, whole] : names)
    if (name == word) return whole;
  return {};
}

}  // namespace sim
