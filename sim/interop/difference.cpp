#include <algorithm>

#include "sim/interop/handover.hpp"
#include "sim/plan/bucket_sizes.hpp"

namespace sim {
namespace {

std::vector<Dimension> order_of(const Layout& layout) {
  std::vector<Dimension> order = layout.placement;
  std::erase_if(order, [&](Dimension dimension) {
    switch (dimension) {
      case Dimension::tensor:
        return layout.tensor_parallel == 1;
      case Dimension::context:
        return layout.context_parallel == 1;
      case Dimension::data:
        return layout.data_parallel == 1;
      case Dimension::pipeline:
        return layout.pipeline_parallel == 1;
    }
    return false;
  });
  return order;
}

// What no step depends on gets one value.
Layout canonical(Layout layout, const Execution& runs, std::int64_t layers) {
  const Layout defaults;
  layout.placement = order_of(layout);
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
  if (layout.pipeline_parallel == 1) layout.overlap_pipeline = true;
  if (layout.tensor_parallel == 1) layout.overlap_tensor_wgrad = true;
  if (layout.tensor_parallel == 1) layout.overlap_tensor_products = false;
  if (layout.overlap_tensor_products) layout.overlap_tensor_wgrad = true;  // implied
  if (layout.context_parallel == 1) layout.context_exchange = defaults.context_exchange;
  if (layout.recompute != Recompute::full) layout.recompute_every = 1;
  if (moments_of(layout.optimizer) == 0) layout.moment_dtype = DType::fp32;
  layout.expert_tensor_parallel = layout.expert_tensor();
  return layout;
}

TransformerShape canonical(TransformerShape shape) {
  shape.name = shape.family = shape.source = {};
  // Rotary positions have no table: their number is a limit and no size.
  if (shape.positions != Positions::learned) shape.max_sequence = 0;
  Experts& experts = shape.experts;
  if (experts.count == 0) experts = {};
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
  std::vector<std::string> take() { return std::move(keys_); }

 private:
  std::vector<std::string> keys_;
};

void compare_layouts(const Layout& a, const Layout& b, Keys& keys) {
  keys.compare("layout.tensor_parallel", a.tensor_parallel, b.tensor_parallel);
  keys.compare("layout.context_parallel", a.context_parallel, b.context_parallel);
  keys.compare("layout.pipeline_parallel", a.pipeline_parallel, b.pipeline_parallel);
  keys.compare("layout.data_parallel", a.data_parallel, b.data_parallel);
  keys.compare("layout.expert_parallel", a.expert_parallel, b.expert_parallel);
  keys.compare("layout.expert_tensor_parallel", a.expert_tensor_parallel, b.expert_tensor_parallel);
  keys.compare("layout.expert_imbalance", a.expert_imbalance, b.expert_imbalance);
  keys.compare("layout.virtual_stages", a.virtual_stages, b.virtual_stages);
  keys.compare("layout.placement", a.placement, b.placement);
  keys.compare("layout.sequence_length", a.sequence_length, b.sequence_length);
  keys.compare("layout.global_batch", a.global_batch, b.global_batch);
  keys.compare("layout.micro_batch", a.micro_batch, b.micro_batch);
  keys.compare("layout.schedule", a.schedule, b.schedule);
  keys.compare("layout.layers_per_chunk", a.layers_per_chunk, b.layers_per_chunk);
  keys.compare("layout.sequence_parallel", a.sequence_parallel, b.sequence_parallel);
  keys.compare("layout.zero_stage", a.zero_stage, b.zero_stage);
  keys.compare("layout.shard_group", a.shard_group, b.shard_group);
  keys.compare("layout.prefetch_layers", a.prefetch_layers, b.prefetch_layers);
  keys.compare("layout.reshard_after_forward", a.reshard_after_forward, b.reshard_after_forward);
  keys.compare("layout.recompute", a.recompute, b.recompute);
  keys.compare("layout.recompute_every", a.recompute_every, b.recompute_every);
  keys.compare("layout.attention", a.attention, b.attention);
  keys.compare("layout.context_exchange", a.context_exchange, b.context_exchange);
  keys.compare("layout.compute_dtype", a.compute_dtype, b.compute_dtype);
  keys.compare("layout.activation_dtype", a.activation_dtype, b.activation_dtype);
  keys.compare("layout.gradient_dtype", a.gradient_dtype, b.gradient_dtype);
  keys.compare("layout.reduce_dtype", a.reduce_dtype, b.reduce_dtype);
  keys.compare("layout.master_weights", a.master_weights, b.master_weights);
  keys.compare("layout.optimizer", a.optimizer, b.optimizer);
  keys.compare("layout.moment_dtype", a.moment_dtype, b.moment_dtype);
  keys.compare("layout.bucket", a.bucket, b.bucket);
  keys.compare("layout.first_bucket", a.first_bucket, b.first_bucket);
  keys.compare("layout.overlap.gradients", a.overlap_gradients, b.overlap_gradients);
  keys.compare("layout.overlap.parameters", a.overlap_parameters, b.overlap_parameters);
  keys.compare("layout.overlap.pipeline", a.overlap_pipeline, b.overlap_pipeline);
  keys.compare("layout.overlap.tensor_wgrad", a.overlap_tensor_wgrad, b.overlap_tensor_wgrad);
  keys.compare("layout.overlap.tensor_products", a.overlap_tensor_products,
               b.overlap_tensor_products);
}

}  // namespace

bool same_order(const Layout& a, const Layout& b) {
  return order_of(a) == order_of(b);
}

Framework canonical(const Framework& framework, const Scenario& scenario) {
  const Framework defaults;
  const Layout& layout = scenario.layout;
  Framework result = framework;
  Execution& runs = result.execution;
  if (layout.context_parallel == 1) runs.context = defaults.execution.context;
  if (layout.pipeline_parallel == 1 || layout.overlap_pipeline) runs.waits_for_messages = false;
  if (!scenario.model.has_experts()) runs.waits_for_counts = false;
  if (layout.recompute != Recompute::full) runs.stops_recomputation = false;
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
  // No flag of Megatron-LM's says it.
  framework.execution.separate_update = scenario.framework.execution.separate_update;
  keys.compare("framework", canonical(scenario.framework, scenario),
               canonical(framework, scenario));
  keys.compare("simulation.graphs", scenario.options.graphs, imported.graphs);
  return keys.take();
}

}  // namespace sim
