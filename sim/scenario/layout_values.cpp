#include "sim/scenario/layout_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

using Values = std::vector<LayoutValue>;

template <class Value>
void add(Values& values, const char* key, const Value& value) {
  values.push_back({key, fmt::format("{}", value)});
}

std::string bucket_text(const std::optional<Bytes>& size) {
  return size ? yaml_bytes(*size) : "auto";
}

void add_parallelism(const Layout& layout, const Model& model, Values& values) {
  add(values, "tensor_parallel", layout.tensor_parallel);
  add(values, "context_parallel", layout.context_parallel);
  add(values, "pipeline_parallel", layout.pipeline_parallel);
  add(values, "data_parallel", layout.data_parallel);
  if (model.has_experts()) {
    add(values, "expert_parallel", layout.expert_parallel);
    add(values, "expert_tensor_parallel", layout.expert_tensor_parallel);
    add(values, "expert_imbalance", layout.expert_imbalance);
  }
  add(values, "virtual_stages", layout.virtual_stages);
  add(values, "schedule", word(layout.schedule));
  std::vector<std::string_view> order;
  for (const Dimension dimension : layout.placement)
    order.push_back(word(dimension));
  add(values, "placement", fmt::format("[{}]", fmt::join(order, ", ")));
  add(values, "layers_per_chunk",
      layout.layers_per_chunk.empty()
          ? "even"
          : fmt::format("[{}]", fmt::join(layout.layers_per_chunk, ", ")));
}

void add_batch_and_sharding(const Layout& layout, const Model& model, Values& values) {
  // Where the model fixes the length, the file may not say it.
  if (!model.is_layer_list && model.fixed_sequence == 0)
    add(values, "sequence_length", layout.sequence_length);
  add(values, "global_batch", layout.global_batch);
  add(values, "micro_batch", layout.micro_batch);
  add(values, "sequence_parallel", layout.sequence_parallel);
  add(values, "zero_stage", layout.zero_stage);
  add(values, "shard_group", layout.shard_group);
  add(values, "prefetch_layers", layout.prefetch_layers);
  add(values, "reshard_after_forward", layout.reshard_after_forward);
  add(values, "recompute", word(layout.recompute));
  add(values, "recompute_every", layout.recompute_every);
  add(values, "context_exchange", word(layout.context_exchange));
  add(values, "attention", word(layout.attention));
}

void add_formats_and_overlap(const Layout& layout, Values& values) {
  add(values, "compute_dtype", word(layout.compute_dtype));
  add(values, "activation_dtype", word(layout.activation_dtype));
  add(values, "gradient_dtype", word(layout.gradient_dtype));
  add(values, "reduce_dtype", word(layout.reduce_dtype));
  add(values, "master_weights", layout.master_weights);
  add(values, "optimizer", word(layout.optimizer));
  add(values, "moment_dtype", word(layout.moment_dtype));
  add(values, "eight_bit_parameters", layout.eight_bit_parameters);
  add(values, "bucket", bucket_text(layout.bucket));
  add(values, "first_bucket", bucket_text(layout.first_bucket));
  add(values, "overlap.gradients", layout.overlap_gradients);
  add(values, "overlap.parameters", layout.overlap_parameters);
  add(values, "overlap.pipeline", layout.overlap_pipeline);
  add(values, "overlap.tensor_wgrad", layout.overlap_tensor_wgrad);
  add(values, "overlap.tensor_products", layout.overlap_tensor_products);
}

}  // namespace

std::vector<LayoutValue> layout_values(const Layout& layout, const Model& model) {
  Values values;
  add_parallelism(layout, model, values);
  add_batch_and_sharding(layout, model, values);
  add_formats_and_overlap(layout, values);
  return values;
}

std::vector<std::string> overrides_of(const Layout& layout, const Model& model) {
  std::vector<std::string> overrides;
  for (const LayoutValue& item : layout_values(layout, model))
    overrides.push_back(fmt::format("layout.{}={}", item.key, item.value));
  return overrides;
}

}  // namespace sim
