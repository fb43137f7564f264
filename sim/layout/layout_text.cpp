#include "sim/layout/layout_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/layout/layout_fields.hpp"
#include "sim/layout/offload_parts.hpp"

namespace sim {
namespace {

class Line {
 public:
  explicit Line(std::string_view separator) : separator_{separator} {}
  template <class... Values>
  void add(bool wanted, fmt::format_string<Values...> text, Values&&... values) {
    if (!wanted) return;
    if (!text_.empty()) text_ += separator_;
    text_ += fmt::format(text, std::forward<Values>(values)...);
  }
  // To the term before it.
  template <class... Values>
  void append(bool wanted, fmt::format_string<Values...> text, Values&&... values) {
    if (wanted) text_ += fmt::format(text, std::forward<Values>(values)...);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string_view separator_;
  std::string text_;
};

bool pipeline_before_data(const Layout& layout) {
  const auto place = [&](Dimension one) { return std::ranges::find(layout.placement, one); };
  return place(Dimension::pipeline) < place(Dimension::data);
}

bool runs_modules_again(const Layout& layout) {
  return layout.recompute == Recompute::selective && !layout.recompute_modules.empty();
}

template <class Module>
std::string joined(const std::vector<Module>& modules) {
  std::vector<std::string_view> words;
  words.reserve(modules.size());
  for (const Module module : modules)
    words.push_back(word(module));
  return fmt::format("{}", fmt::join(words, "+"));
}

// "6 x4, 2 x12": what follows each other alike is counted.
std::string counts_text(const std::vector<int>& counts) {
  Line line{", "};
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t next = i;
    while (next < counts.size() && counts[next] == counts[i])
      ++next;
    line.add(true, "{}", counts[i]);
    line.append(next > i + 1, " x{}", next - i);
    i = next;
  }
  return line.take();
}

// Further from an even split than layers that do not divide.
bool is_uneven(const std::vector<int>& layers) {
  if (layers.empty()) return false;
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  return *most - *least > 1;
}

std::string terms(const Layout& l) {
  Line line{" "};
  line.add(true, "tp {}", l.tensor_parallel);
  line.add(l.context_parallel > 1, "cp {}", l.context_parallel);
  line.add(l.context_parallel > 1 && l.context_exchange != ContextExchange::ring, "{}",
           word(l.context_exchange));
  line.add(l.expert_parallel > 1, "ep {}", l.expert_parallel);
  line.add(l.expert_tensor_parallel > 1, "etp {}", l.expert_tensor_parallel);
  line.add(true, "pp {}", l.pipeline_parallel);
  line.add(l.virtual_stages > 1, "v {}", l.virtual_stages);
  line.add(is_uneven(l.layers_per_chunk), "layers {}", counts_text(l.layers_per_chunk));
  line.add(true, "dp {} mb {}", l.data_parallel, l.micro_batch);
  line.add(!l.replica_batches.empty(), "batches {}", counts_text(l.replica_batches));
  line.add(l.pipeline_parallel > 1, "{}", word(l.schedule));
  line.add(l.sequence_parallel, "sp");
  line.add(l.zero_stage > 0, "zero-{}", l.zero_stage);
  line.append(l.shard_group > 0 && l.shard_group < l.replicas(), "/{}", l.shard_group);
  line.add(l.zero_stage == 3 && !l.reshard_after_forward, "no-reshard");
  line.add(l.recompute == Recompute::selective, "recompute selective");
  line.append(runs_modules_again(l), " {}", joined(l.recompute_modules));
  const bool some = l.recompute_every > 1 || l.recompute_layers > 0;
  line.add(l.recompute == Recompute::full && !some, "recompute full");
  const bool full = l.recompute == Recompute::full;
  line.add(full && l.recompute_every > 1, "recompute 1/{}", l.recompute_every);
  line.add(full && l.recompute_layers > 0, "recompute first {}", l.recompute_layers);
  line.add(l.uses_host(), "offload {}", word(offload_parts(l)));
  line.add(l.pipeline_parallel > 1 && l.data_parallel > 1 && pipeline_before_data(l), "pp-inner");
  return line.take();
}

std::string summary(const Layout& l) {
  Line line{", "};
  line.add(true, "tp {} x pp {} x dp {}", l.tensor_parallel, l.pipeline_parallel, l.data_parallel);
  line.append(l.context_parallel > 1, " x cp {}", l.context_parallel);
  line.append(l.expert_parallel > 1, " x ep {}", l.expert_parallel);
  line.add(l.virtual_stages > 1, "v {}", l.virtual_stages);
  line.add(true, "mb {}", l.micro_batch);
  line.add(l.zero_stage > 0, "ZeRO-{}", l.zero_stage);
  line.add(l.sequence_parallel, "sp");
  line.add(l.recompute != Recompute::none, "recompute {}", word(l.recompute));
  line.append(runs_modules_again(l), " {}", joined(l.recompute_modules));
  line.append(l.recompute_layers > 0, " of the first {} layers", l.recompute_layers);
  return line.take();
}

std::string sentence(const Layout& l) {
  Line line{", "};
  line.add(true, "tp {} x pp {} x dp {}", l.tensor_parallel, l.pipeline_parallel, l.data_parallel);
  line.add(l.context_parallel > 1, "cp {} ({})", l.context_parallel, word(l.context_exchange));
  line.add(l.expert_parallel > 1, "ep {}", l.expert_parallel);
  line.append(l.expert_parallel > 1 && l.expert_tensor() != l.tensor_parallel, " x etp {}",
              l.expert_tensor());
  line.add(l.token_dispatcher != TokenDispatcher::alltoall, "{} dispatcher",
           word(l.token_dispatcher));
  line.add(l.eight_bit_dispatch, "tokens to experts in 8 bits");
  line.add(l.expert_capacity > 0, "expert capacity {}", l.expert_capacity);
  line.add(l.expert_load.exists(), "measured expert loads");
  line.add(l.expert_load_cv > 0, "expert loads with cv {}", l.expert_load_cv);
  line.add(l.overlap_expert_exchange, "merged passes{}",
           l.delay_weight_gradients ? " with delayed weight gradients" : "");
  line.add(l.overlap_shared_experts, "shared experts beside the exchange");
  const bool staged = l.pipeline_parallel > 1;
  line.add(staged, "{}", word(l.schedule));
  line.append(staged && l.virtual_stages > 1, " x{}", l.virtual_stages);
  line.add(staged, "{} micro-batches of {}", l.micro_batches(), l.micro_batch);
  line.append(staged && l.pipeline_runs > 1, " in {} runs", l.pipeline_runs);
  line.add(!l.replica_batches.empty(), "micro-batches of replicas {}",
           counts_text(l.replica_batches));
  line.add(l.sequence_parallel, "sequence parallel");
  line.add(l.zero_stage > 0, "ZeRO-{}", l.zero_stage);
  line.append(l.zero_stage > 0 && l.shard_group > 0 && l.shard_group < l.replicas(),
              " in groups of {}", l.shard_group);
  line.add(l.recompute != Recompute::none, "recompute {}", word(l.recompute));
  line.append(runs_modules_again(l), " ({})", joined(l.recompute_modules));
  line.append(l.recompute_layers > 0, " (first {} layers of a stage)", l.recompute_layers);
  line.add(l.mlp_tiles > 1, "MLPs in {} pieces", l.mlp_tiles);
  line.add(l.loss_chunks > 1, "loss in {} chunks", l.loss_chunks);
  line.add(l.trains_adapters(), "{} of rank {} at {}",
           l.frozen_format == FrozenFormat::nf4 ? "QLoRA"
           : l.lora_magnitudes                  ? "DoRA"
                                                : "LoRA",
           l.lora_rank, joined(l.lora_modules));
  line.append(l.trains_adapters() && l.frozen_format == FrozenFormat::int8, " beside int8");
  line.append(l.trains_embedding, ", embedding");
  line.append(l.trains_head, ", head");
  line.append(l.trains_adapters() && l.expert_adapters != ExpertAdapters::none, ", {} of experts",
              l.expert_adapters == ExpertAdapters::each ? "each" : "shared");
  line.add(l.images > 0, "{} image{} in a sequence", l.images, l.images == 1 ? "" : "s");
  line.append(l.freeze_vision_model, ", encoder{} frozen",
              l.freeze_vision_projection ? " and projector" : "");
  line.add(l.packed_length > 0, "packed sequences of {}", l.packed_length);
  line.add(l.has_lengths() && l.packing_lengths.is_file(), "{} of lengths of a file",
           word(l.packing));
  line.add(l.has_lengths() && !l.packing_lengths.is_file(), "{} of lognormal lengths of {:.6g}",
           word(l.packing), l.packing_mean);
  line.add(l.first_bf16_layers + l.last_bf16_layers > 0, "{} + {} layers in 16 bits",
           l.first_bf16_layers, l.last_bf16_layers);
  line.add(!l.bf16_modules.empty(), "{} in 16 bits", joined(l.bf16_modules));
  line.add(!l.fp8_modules.empty(), "{} in 8 bits", joined(l.fp8_modules));
  line.add(l.optimizer != OptimizerKind::adam, "{}", word(l.optimizer));
  line.add(l.state_format != StateFormat::plain, "moments as {}", word(l.state_format));
  line.add(l.moment_bytes() > 0 && l.moment_dtype != DType::fp32, "moments in {}",
           word(l.moment_dtype));
  line.add(l.second_moment_dtype && moments_of(l.optimizer) > 1, "second moments in {}",
           word(l.second_moment_dtype.value_or(l.moment_dtype)));
  line.add(l.master_weights && l.master_format != MasterFormat::fp32, "masters as {}",
           word(l.master_format));
  line.add(l.compression != GradientCompression::none, "gradients as {}", word(l.compression));
  line.add(l.quantized_weights, "weights gathered as int8");
  line.add(l.offloads(), "optimizer on {}", word(l.offload_optimizer));
  line.append(l.offload_delay, ", a step late");
  line.add(l.offloads_parameters(), "parameters on {}", word(l.offload_parameters));
  line.add(l.offloads_activations(), "activations on {}", word(l.offload_activations));
  line.append(l.offload_layers > 0, " (of {} layers)", l.offload_layers);
  line.append(!l.offload_modules.empty(), " ({})", joined(l.offload_modules));
  line.append(l.offload_least > 0, " of {} elements or more", l.offload_least);
  line.add(l.trains_apart(), "groups of {} train apart for {} steps", l.local_ranks, l.local_steps);
  line.add(l.has_servers(), "{} parameter servers", word(l.servers));
  line.append(l.has_servers() && l.worker_gpus() > 1, " of workers of {} GPUs", l.worker_gpus());
  line.add(l.secondary_shard, "secondary shards of {}", l.node_ranks);
  return line.take();
}

}  // namespace

std::string layout_text(const Layout& layout, LayoutForm form) {
  switch (form) {
    case LayoutForm::terms:
      return terms(layout);
    case LayoutForm::summary:
      return summary(layout);
    case LayoutForm::sentence:
      break;
  }
  return sentence(layout);
}

std::string replica_text(const Layout& layout) {
  static const Layout plain;
  std::string text;
  for (const LayoutField& field : layout_fields()) {
    const std::string_view key = field.key.path;
    if (key == "data_parallel" || key == "global_batch" || same_value(layout, plain, field))
      continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value_text(layout, field));
  }
  return text;
}

std::string layout_json(const Layout& layout, std::span<const std::string_view> keys) {
  std::string text;
  for (const std::string_view key : keys)
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key,
                        value_json(layout, layout_field(key)));
  return fmt::format("{{{}}}", text);
}

}  // namespace sim
