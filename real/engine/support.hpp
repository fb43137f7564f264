// The features that each backend executes: one table, from which refusals and the page
// docs/run-on-real-hardware.md are made.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/check.hpp"
#include "sim/program/operators.hpp"

namespace real {

enum class BackendName : std::uint8_t { host, cuda };

// Feature is something that a plan may have, or a limit of it, in the order of the table.
enum class Feature : std::uint8_t {
  transformer,
  dropout,
  dropout_of_all,
  classifier,
  classifier_slices,
  classifier_context,
  causal_classifier,
  bidirectional_tokens,
  operators,
  layer_forms,
  windows,
  window_slices,
  partial_rotary,
  latent_attention,
  latent_layouts,
  hybrid,
  diffusion,
  layer_list,
  no_loss,
  data_parallel,
  zero,
  tensor_parallel,
  shared_key_heads,
  shared_heads_again,
  tensor_products,
  context_parallel,
  context_form,
  context_rings,
  context_apart,
  context_shared_heads,
  pipeline,
  recompute,
  kept_parts,
  unfused_attention,
  cuda_heads,
  cuda_norm_heads,
  cuda_norm_width,
  odd_heads,
  experts,
  expert_scores,
  expert_capacity,
  even_capacity,
  expert_places,
  expert_imbalance,
  expert_load,
  expert_shares,
  expert_sharding,
  expert_dispatcher,
  expert_latent,
  expert_biases,
  expert_forms,
  formats,
  mixed_formats,
  half_precision,
  bf16_masters,
  eight_bit,
  eight_bit_blocks,
  eight_bit_sizes,
  eight_bit_rest,
  optimizer,
  lamb,
  bf16_moments,
  other_optimizers,
  state_format,
  muon,
  master_format,
  adapters,
  frozen_nf4,
  adapter_forms,
  adapter_layouts,
  lengths,
  packed_length,
  packed_rest,
  packed_chunks,
  vision,
  mlp_tiles,
  loss_chunks,
  compression,
  offload,
  offload_fraction,
  offload_gradients,
  local_steps,
  outer_wire,
  servers,
  framework_kernels,
  framework_forms,
  gradient_passes,
  host_operators,
};

// Support says that a backend runs a feature, with the test that holds its losses against others,
// or why it refuses it: a format of fmt for what the plan has.
struct Support {
  std::string_view test;     // a file below tests/; empty: refused
  std::string_view refusal;  // empty: runs
  constexpr bool runs() const { return refusal.empty(); }
  bool operator==(const Support&) const = default;
};
constexpr Support runs(std::string_view test) {
  return {.test = test, .refusal = {}};
}
constexpr Support refused(std::string_view why) {
  return {.test = {}, .refusal = why};
}

struct SupportRow {
  Feature feature = Feature::transformer;
  std::string_view title;
  std::string_view keys;  // of the section `layout`, ", " between them; others with their section
  Support host, cuda;
  const Support& of(BackendName backend) const {
    return backend == BackendName::host ? host : cuda;
  }
};
std::span<const SupportRow> support_rows();
const SupportRow& support_row(Feature feature);

// Which feature an action belongs to.
struct ActionSupport {
  sim::Action action = sim::Action::forward;
  std::string_view name;
  Feature feature = Feature::transformer;
};
std::span<const ActionSupport> action_support();

// refusal() is the sentence with which a backend refuses a feature.
// REQUIRES: the table says that it does.
template <class... Arguments>
std::string refusal(BackendName backend, Feature feature, const Arguments&... arguments) {
  const Support& support = support_row(feature).of(backend);
  SIM_CHECK(!support.runs(), static_cast<int>(feature));
  return fmt::format(fmt::runtime(support.refusal), arguments...);
}
// The same of both.
template <class... Arguments>
std::string refusal(Feature feature, const Arguments&... arguments) {
  const SupportRow& row = support_row(feature);
  SIM_CHECK(row.host == row.cuda, static_cast<int>(feature));
  return refusal(BackendName::host, feature, arguments...);
}

}  // namespace real
