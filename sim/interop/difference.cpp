#include <algorithm>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/interop/handover.hpp"
#include "sim/layout/layout_fields.hpp"
#include "sim/layout/rank_order.hpp"
#include "sim/model/expert_bias.hpp"

namespace sim {
namespace {

// canonical() gives one value to everything that no step depends on.
Layout canonical(Layout layout, const Execution& runs, std::int64_t layers) {
  const Layout defaults;
  layout.placement = wide_dimensions(layout, layout.placement);
  const auto chunks = static_cast<std::int64_t>(layout.chunks());
  if (layout.layers_per_chunk.empty() && layers % chunks == 0)
    layout.layers_per_chunk.assign(static_cast<std::size_t>(chunks),
                                   static_cast<int>(layers / chunks));
  if (layout.shard_group == layout.replicas() || layout.zero_stage == 0) layout.shard_group = 0;
  if (layout.zero_stage != 3) {
    layout.prefetch_layers = defaults.prefetch_layers;
    layout.reshard_after_forward = defaults.reshard_after_forward;
  }
  const BucketSizes sizes = bucket_sizes(layout, runs);
  layout.bucket = layout.zero_stage == 3 ? Bytes{} : sizes.others;  // FSDP's units are the layers
  layout.first_bucket = layout.zero_stage == 3 ? Bytes{} : sizes.first;
  if (layout.zero_stage == 0) layout.overlap_parameters = true;
  if (layout.replicas() == 1) layout.overlap_gradients = true;
  if (layout.pipeline_parallel == 1) {
    layout.overlap_pipeline = true;
    layout.pipeline_runs = 1;
  }
  if (layout.tensor_parallel == 1) layout.overlap_tensor_wgrad = true;
  if (layout.tensor_parallel == 1) layout.overlap_tensor_products = false;
  if (layout.overlap_tensor_products) layout.overlap_tensor_wgrad = true;  // implied
  if (layout.context_parallel == 1) layout.context_exchange = defaults.context_exchange;
  if (layout.context_exchange != ContextExchange::all_to_all_ring) layout.context_heads = 0;
  if (layout.recompute != Recompute::full) {
    layout.recompute_every = 1;
    layout.recompute_layers = 0;
  }
  if (layout.recompute != Recompute::selective) layout.recompute_modules.clear();
  if (moments_of(layout.optimizer) == 0) layout.moment_dtype = DType::fp32;
  if (layout.dtype_of_moment(1) == layout.moment_dtype || moments_of(layout.optimizer) < 2)
    layout.second_moment_dtype.reset();
  if (!layout.master_weights) layout.master_format = MasterFormat::fp32;
  layout.expert_tensor_parallel = layout.expert_tensor();
  // Even shares, padded to just those.
  if (layout.pad_to_capacity && layout.expert_capacity == 1 && layout.expert_imbalance == 1 &&
      !layout.has_uneven_experts()) {
    layout.expert_capacity = defaults.expert_capacity;
    layout.pad_to_capacity = false;
  }
  return layout;
}

TransformerShape canonical(TransformerShape shape) {
  // The family is a name only, but for the clamp of its experts.
  shape.family = clamps_experts(shape) ? "gpt_oss" : "";
  if (clamps_experts(shape) && shape.activation == Activation::geglu)
    shape.activation = Activation::swiglu;
  shape.name = shape.source = {};
  // Rotary positions have no table: their number is a limit and no size.
  if (shape.positions != Positions::learned) shape.max_sequence = 0;
  Experts& experts = shape.experts;
  if (experts.count == 0) experts = {};
  if (shape.hybrid.exists()) {  // it says which layers have them
    experts.first_layer = 0;
    experts.every = 1;
    if (!shape.hybrid.has(FeedForward::mlp)) shape.feed_forward = 0;
  }
  if (experts.first_layer + experts.every > shape.layers)  // it alone has experts
    experts.every = shape.layers - experts.first_layer;
  return shape;
}

class Keys {
 public:
  template <class Value>
  void compare(const char* key, const Value& a, const Value& b) {
    if (!(a == b)) keys_.emplace_back(key);
  }
  void add(std::string key) { keys_.push_back(std::move(key)); }
  std::vector<std::string> take() { return std::move(keys_); }

 private:
  std::vector<std::string> keys_;
};

void compare_layouts(const Layout& a, const Layout& b, Keys& keys) {
  for (const LayoutField& field : layout_fields())
    if (!same_value(a, b, field)) keys.add("layout." + field.key.path);
}

}  // namespace

bool same_order(const Layout& a, const Layout& b) {
  return wide_dimensions(a, a.placement) == wide_dimensions(b, b.placement);
}

Framework canonical(const Framework& framework, const Scenario& scenario) {
  const Framework defaults;
  const Layout& layout = scenario.layout;
  Framework result = framework;
  Execution& runs = result.execution;
  // An import derives these of the machine.
  runs.workspaces = {};
  runs.copies_flash_output = false;
  if (runs.gradient_placeholders == Placeholders::all_kept)
    runs.gradient_placeholders = Placeholders::temporary;
  if (layout.optimizer != OptimizerKind::muon || layout.zero_stage != 1)
    runs.deals_parameters = false;
  if (layout.loss_chunks == 1) runs.loss_chunks = defaults.execution.loss_chunks;
  if (layout.context_parallel == 1) {
    runs.context = defaults.execution.context;
    runs.repeats_key_heads = false;
  }
  if (layout.pipeline_parallel == 1 || layout.overlap_pipeline) runs.waits_for_messages = false;
  if (!scenario.model.has_experts() || layout.pad_to_capacity) runs.waits_for_counts = false;
  if (layout.recompute != Recompute::full) runs.stops_recomputation = false;
  if (scenario.model.shape && !is_gated(scenario.model.shape->activation))
    result.gate = defaults.gate;
  if (!scenario.model.has_experts()) {
    runs.experts = defaults.execution.experts;
    runs.expert_rows = defaults.execution.expert_rows;
    runs.router_fusion = false;
  }
  return result;
}

bool same_shape(const TransformerShape& a, const TransformerShape& b) {
  return canonical(a) == canonical(b);
}

namespace {

// A window that is not shorter than the sequence changes nothing. REQUIRES: a shape.
TransformerShape without_idle_window(const Scenario& scenario) {
  TransformerShape shape = *scenario.model.shape;
  if (is_shorter(shape.window, scenario.layout.sequence_length)) return shape;
  shape.window = 0;
  shape.full_attention = {};
  return shape;
}

}  // namespace

std::vector<std::string> differences(const Scenario& scenario, const Imported& imported) {
  Keys keys;
  const auto layers = static_cast<std::int64_t>(scenario.model.layers.size());
  compare_layouts(canonical(scenario.layout, scenario.framework.execution, layers),
                  canonical(imported.layout, imported.framework.execution, layers), keys);
  if (!scenario.model.shape || !same_shape(without_idle_window(scenario), imported.shape))
    keys.compare("model", 0, 1);
  Framework framework = imported.framework;
  if (imported.layout.pad_to_capacity) framework.execution.waits_for_counts = false;
  keys.compare("framework", canonical(scenario.framework, scenario),
               canonical(framework, scenario));
  keys.compare("simulation.graphs", scenario.options.graphs, imported.graphs);
  keys.compare("simulation.graph_scope", scenario.options.graph_scope, imported.graph_scope);
  return keys.take();
}

}  // namespace sim
