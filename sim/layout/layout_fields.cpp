#include "sim/layout/layout_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "sim/base/check.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

using Fields = std::vector<LayoutField>;

constexpr IntegerRange ranks{1, layout_limits::ranks};
constexpr IntegerRange layers{1, layout_limits::layers};
constexpr IntegerRange sequences{1, layout_limits::tokens};

bool has_experts(const Model& model) {
  return model.has_experts();
}
bool has_vision(const Model& model) {
  return model.shape && model.shape->vision.exists();
}
// Where the model fixes the length, the file may not say it.
bool has_free_length(const Model& model) {
  return !model.is_layer_list && model.fixed_sequence == 0;
}

KeyDefault follows(const char* rule) {
  return KeyDefault::follows(rule);
}

Fields parallelism() {
  return {
      {integer_key("tensor_parallel", ranks, "GPUs", "1", "GPUs that share every linear layer"),
       &Layout::tensor_parallel},
      {integer_key("context_parallel", ranks, "GPUs", "1",
                   "GPUs that share the tokens of each sequence"),
       &Layout::context_parallel},
      {integer_key("pipeline_parallel", layers, "stages", "1", "pipeline stages"),
       &Layout::pipeline_parallel},
      {integer_key("data_parallel", ranks, "replicas",
                   follows("GPUs / (tensor x context x pipeline parallel)"),
                   "replicas of the model that share the global batch"),
       &Layout::data_parallel},
      {integer_key("expert_parallel", ranks, "GPUs", "1",
                   "mixture of experts: GPUs that share the experts of a layer"),
       &Layout::expert_parallel, nullptr, has_experts},
      {integer_key("expert_tensor_parallel", {0, ranks.max}, "GPUs", "0",
                   "mixture of experts: GPUs that share each expert; 0: tensor_parallel"),
       &Layout::expert_tensor_parallel, nullptr, has_experts},
      {number_key("expert_imbalance", {1, 1e6}, "", "1",
                  "tokens of the rank with the most, over the average"),
       &Layout::expert_imbalance, nullptr, has_experts},
  };
}

Fields tokens_of_experts() {
  return {
      {word_key<TokenDispatcher>("moe.dispatcher", "alltoall",
                                 "mixture of experts: how tokens come to their experts"),
       &Layout::token_dispatcher, nullptr, has_experts, false},
      {integer_key("moe.dispatch_sms", {0, 1024}, "SMs", "0",
                   "deepep and hybridep: SMs of their kernels; 0: Megatron-LM's default"),
       &Layout::dispatch_sms, nullptr, has_experts, false},
      {boolean_key("moe.fp8_dispatch", "false",
                   "deepep and hybridep: tokens go to experts in 8 bits, come back in 16"),
       &Layout::eight_bit_dispatch, nullptr, has_experts, false},
      {word_key<ExpertChoice>("moe.choice", "any",
                              "experts that a token chooses: any, or some that follow each other"),
       &Layout::expert_choice, nullptr, has_experts, false},
      {number_key("moe.capacity_factor", {0, 1e6}, "", "0",
                  "tokens of an expert at most, over the average; 0: none is dropped"),
       &Layout::expert_capacity, nullptr, has_experts, false},
      {boolean_key("moe.pad_to_capacity", "false",
                   "with a capacity factor: every expert computes as many tokens"),
       &Layout::pad_to_capacity, nullptr, has_experts, false},
      {text_key(
           KeyType::text, "moe.load", "even",
           "tokens of each expert as measured: a CSV file, or [tokens, tokens, ...], or a list "
           "of such lists",
           {"even"}),
       &Layout::expert_load, nullptr, has_experts, false},
      {number_key("moe.load_cv", {0, 1000}, "", "0",
                  "tokens of each expert as drawn: standard deviation over mean; 0: all alike"),
       &Layout::expert_load_cv, nullptr, has_experts, false},
      {integer_key("moe.load_seed", {0, 1'000'000'000}, "", "1", "with moe.load_cv: of the draw"),
       &Layout::expert_load_seed, nullptr, has_experts, false},
  };
}

Fields pipeline() {
  return {
      {integer_key("virtual_stages", layers, "model chunks", "1",
                   "model chunks per pipeline rank (interleaved schedule)"),
       &Layout::virtual_stages},
      {word_key<Schedule>("schedule", follows("interleaved with virtual stages, else 1f1b"),
                          "pipeline schedule"),
       &Layout::schedule,
       [](Layout& layout, const Execution&) {
         layout.schedule =
             layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
       }},
      {integer_key("pipeline_runs", {1, 1'000'000}, "runs", "1",
                   "times that a step runs the pipeline schedule, with equal parts of its "
                   "micro-batches (gradient accumulation)"),
       &Layout::pipeline_runs, nullptr, nullptr, false},
      {text_key(KeyType::list, "placement", "[tp, cp, dp, pp]",
                "order of the ranks, the dimension whose ranks are neighbours first"),
       &Layout::placement},
      {text_key(KeyType::list, "layers_per_chunk", "even",
                "layers of each model chunk: even, a list, or {first: N, last: N}", {"even"}),
       &Layout::layers_per_chunk},
      {text_key(KeyType::list, "replica_batches", "even",
                "micro-batches of each data-parallel replica: even, or a list", {"even"}),
       &Layout::replica_batches, nullptr, nullptr, false},
  };
}

Fields batch_and_sharding() {
  return {
      {integer_key("sequence_length", sequences, "tokens",
                   follows("the model's where it fixes one, else required"), "tokens per sequence"),
       &Layout::sequence_length, nullptr, has_free_length},
      {integer_key("global_batch", sequences, "sequences", KeyDefault::required(),
                   "sequences per optimizer step, over all replicas"),
       &Layout::global_batch, [](Layout& layout, const Execution&) { layout.global_batch = 1; }},
      {integer_key("micro_batch", sequences, "sequences", "1", "sequences per micro-batch"),
       &Layout::micro_batch},
      {integer_key("images", {0, 1'000'000}, "images", "0",
                   "images of each sequence; 0: text alone, a vision encoder is left out"),
       &Layout::images, nullptr, has_vision, false},
      {integer_key("image_tokens", {0, sequences.max}, "tokens", "0",
                   "of an image in the sequence, behind the projector; 0: of the size that the "
                   "model takes"),
       &Layout::image_tokens, nullptr, has_vision, false},
      {boolean_key("freeze_vision_model", "false", "the vision encoder is not trained"),
       &Layout::freeze_vision_model, nullptr, has_vision, false},
      {boolean_key("freeze_vision_projection", "false",
                   "nor is the projector behind it"),
       &Layout::freeze_vision_projection, nullptr, has_vision, false},
      {integer_key("packed_length", {0, sequences.max}, "tokens", "0",
                   "of sequences packed into one: the length that a token's has in the mean; 0: "
                   "none are packed"),
       &Layout::packed_length, nullptr, has_free_length, false},
      {text_key(KeyType::text, "packing.lengths", "none",
                "lengths of the sequences of the data: lognormal, or a file with one in each line",
                {"none", "lognormal"}),
       &Layout::packing_lengths, nullptr, has_free_length, false},
      {number_key("packing.mean", {0, 1e9}, "tokens", "0", "lognormal: the mean length"),
       &Layout::packing_mean, nullptr, has_free_length, false},
      {number_key("packing.sigma", {0, 4}, "", "0",
                  "lognormal: standard deviation of the logarithm of a length"),
       &Layout::packing_sigma, nullptr, has_free_length, false},
      {word_key<Packing>("packing.method", "first_fit_decreasing",
                         "how sequences become rows: packed several to a row, or padded"),
       &Layout::packing, nullptr, has_free_length, false},
      {integer_key(
           "packing.multiple", {0, 65'536}, "tokens", "0",
           "each sequence is padded to a multiple of it; 0: what the split over ranks needs"),
       &Layout::packing_multiple, nullptr, has_free_length, false},
      {integer_key("packing.seed", {0, 1'000'000'000}, "", "1", "of the order of the data"),
       &Layout::packing_seed, nullptr, has_free_length, false},
      {boolean_key("sequence_parallel", "false",
                   "norms and dropout are split over the tensor-parallel group"),
       &Layout::sequence_parallel},
      {integer_key("zero_stage", {0, 3}, "", "0",
                   "ZeRO stage: shards optimizer states (1), gradients (2), parameters (3, FSDP)"),
       &Layout::zero_stage},
      {integer_key("shard_group", {0, ranks.max}, "GPUs", "0",
                   "GPUs that share one copy of what ZeRO shards; 0: all replicas"),
       &Layout::shard_group},
      {integer_key("prefetch_layers", {0, layers.max}, "layers", "1",
                   "ZeRO-3: layers whose parameters are gathered ahead"),
       &Layout::prefetch_layers},
      {boolean_key("reshard_after_forward", "true",
                   "ZeRO-3: free gathered parameters after the forward pass"),
       &Layout::reshard_after_forward},
      {word_key<Recompute>("recompute", "none",
                           "activation recomputation; operators is torchtitan's selective mode"),
       &Layout::recompute},
      {integer_key("recompute_every", layers, "layers", "1",
                   "full recomputation: of every k-th layer"),
       &Layout::recompute_every},
      {integer_key("recompute_layers", {0, layers.max}, "layers", "0",
                   "full recomputation: of the first n layers of each chunk; 0: no limit"),
       &Layout::recompute_layers, nullptr, nullptr, false},
      {text_key(KeyType::list, "recompute_modules", "[]",
                "selective: parts of a layer that run again: core_attn, mla_up_proj, mlp, moe, "
                "moe_act, shared_experts, layernorm"),
       &Layout::recompute_modules, nullptr, nullptr, false},
      {integer_key("mlp_tiles", {1, 4096}, "pieces", "1",
                   "pieces of a sequence in which an MLP runs, each again before its backward "
                   "pass (ALST's tiled MLP)"),
       &Layout::mlp_tiles, nullptr, nullptr, false},
      {integer_key(
           "loss_chunks", {1, 65'536}, "chunks", "1",
           "chunks of a GPU's tokens in which the head and the loss run, so that the logits "
           "of one are there at a time"),
       &Layout::loss_chunks, nullptr, nullptr, false},
      {word_key<ContextExchange>("context_exchange", "ring",
                                 "how context-parallel ranks exchange keys and values"),
       &Layout::context_exchange},
      {integer_key("context_heads", {0, ranks.max}, "GPUs", "0",
                   "all_to_all_ring: context-parallel GPUs that exchange heads, neighbours; keys "
                   "and values go round rings of their groups"),
       &Layout::context_heads, nullptr, nullptr, false},
      {word_key<AttentionKernel>("attention", "flash",
                                 "attention kernel; flash is the fastest of the device"),
       &Layout::attention},
  };
}

// Sets the activation type from the compute type where it is left out, as autocast and Megatron's
// --bf16 do: 16-bit activations beside bf16 and fp8 GEMMs, fp32 beside fp32 and tf32.
void default_activations(Layout& layout, const Execution&) {
  const DType compute = layout.compute_dtype;
  layout.activation_dtype = compute == DType::fp16                             ? DType::fp16
                            : compute == DType::fp32 || compute == DType::tf32 ? DType::fp32
                                                                               : DType::bf16;
}

Fields formats() {
  return {
      {word_key<DType>("compute_dtype", "bf16", "format of GEMMs"), &Layout::compute_dtype},
      {word_key<DType>("activation_dtype",
                       follows("16 bits for bf16, fp16, fp8 and nvfp4 GEMMs, else fp32"),
                       "format of activations and of weights in the forward pass"),
       &Layout::activation_dtype, default_activations},
      {word_key<DType>("gradient_dtype", follows("activation_dtype"),
                       "format in which gradients are stored"),
       &Layout::gradient_dtype,
       [](Layout& layout, const Execution&) { layout.gradient_dtype = layout.activation_dtype; }},
      {word_key<DType>("reduce_dtype", follows("gradient_dtype"),
                       "format in which gradients are reduced"),
       &Layout::reduce_dtype,
       [](Layout& layout, const Execution&) { layout.reduce_dtype = layout.gradient_dtype; }},
      {boolean_key("master_weights", follows("true with 16-bit activations"),
                   "the optimizer keeps fp32 copies of the weights"),
       &Layout::master_weights,
       [](Layout& layout, const Execution&) {
         layout.master_weights = bytes_of(layout.activation_dtype) < 4;
       }},
      {word_key<OptimizerKind>("optimizer", "adam", "optimizer, which decides the states it keeps"),
       &Layout::optimizer},
      {word_key<DType>("moment_dtype", "fp32", "format of the optimizer's moments"),
       &Layout::moment_dtype},
      {word_key<DType>("second_moment_dtype", follows("moment_dtype"),
                       "format of the optimizer's second moment"),
       &Layout::second_moment_dtype, nullptr, nullptr, false},
      {word_key<StateFormat>("state_format", "plain",
                             "how moments are kept: plain numbers, or blocks with scales as in "
                             "optimizers of 8 or 4 bits"),
       &Layout::state_format, nullptr, nullptr, false},
      {word_key<MasterFormat>("master_format", "fp32",
                              "format of the optimizer's copy of the weights"),
       &Layout::master_format, nullptr, nullptr, false},
      {boolean_key("fp8_parameters", "false",
                   "fp8 GEMMs: weights are stored and gathered in 8 bits"),
       &Layout::eight_bit_parameters},
      {integer_key("bf16_layers.first", {0, layers.max}, "layers", "0",
                   "fp8 and nvfp4 GEMMs: layers at the start that multiply in 16 bits"),
       &Layout::first_bf16_layers, nullptr, nullptr, false},
      {integer_key("bf16_layers.last", {0, layers.max}, "layers", "0",
                   "fp8 and nvfp4 GEMMs: layers at the end that multiply in 16 bits"),
       &Layout::last_bf16_layers, nullptr, nullptr, false},
      {text_key(KeyType::list, "bf16_modules", "[]",
                "fp8 and nvfp4 GEMMs: linears that multiply in 16 bits, by their operators: qkv, "
                "attention_projection, mlp_up, mamba_out, ..."),
       &Layout::bf16_modules, nullptr, nullptr, false},
      {text_key(KeyType::list, "fp8_modules", "[]",
                "linears that multiply in 8 bits: of nvfp4 GEMMs any, of fp8 GEMMs the head"),
       &Layout::fp8_modules, nullptr, nullptr, false},
  };
}

Fields overlap() {
  return {
      {text_key(KeyType::size, "bucket", "auto",
                "size of a gradient bucket, which is reduced as a whole; auto: the framework's",
                {"auto"}),
       &Layout::bucket},
      {text_key(KeyType::size, "first_bucket", "auto",
                "size of the bucket that is reduced first; auto: the framework's", {"auto"}),
       &Layout::first_bucket},
      {integer_key("buckets", {0, 1'000'000}, "buckets", "0",
                   "by how many the parameters of a GPU are divided to have the size of a bucket "
                   "(Megatron-LM); 0: bucket decides"),
       &Layout::buckets, nullptr, nullptr, false},
      {boolean_key("overlap.gradients", "true",
                   "reduction of gradients overlaps with the backward pass"),
       &Layout::overlap_gradients},
      {boolean_key("overlap.parameters", "true", "gathering of parameters overlaps with compute"),
       &Layout::overlap_parameters},
      {boolean_key("overlap.pipeline", follows("as the framework does under the schedule"),
                   "messages between pipeline stages overlap with compute"),
       &Layout::overlap_pipeline},
      {boolean_key("overlap.tensor_wgrad", follows("true; false under torchtitan"),
                   "tensor-parallel reduction overlaps with the weight-gradient GEMM"),
       &Layout::overlap_tensor_wgrad,
       [](Layout& layout, const Execution& runs) {
         layout.overlap_tensor_wgrad = !runs.symmetric_memory;
       }},
      {boolean_key("overlap.tensor_products", "false",
                   "GEMMs overlap with tensor-parallel communication (tp-comm-overlap, AsyncTP)"),
       &Layout::overlap_tensor_products},
      {boolean_key("overlap.shared_experts", "false",
                   "shared experts overlap with the exchange of tokens"),
       &Layout::overlap_shared_experts, nullptr, has_experts, false},
      {boolean_key("overlap.expert_exchange", "false",
                   "the exchange of tokens overlaps with compute of another micro-batch"),
       &Layout::overlap_expert_exchange, nullptr, has_experts, false},
      {boolean_key("overlap.delay_wgrad", "false",
                   "with overlap.expert_exchange: weight gradients behind the exchange"),
       &Layout::delay_weight_gradients, nullptr, has_experts, false},
  };
}

// Written only where they are not what Layout{} has.
Fields seldom(Fields fields) {
  for (LayoutField& field : fields)
    field.written_always = false;
  return fields;
}

Fields compression() {
  return seldom({
      {word_key<GradientCompression>("compression.gradients", "none",
                                     "how gradients travel between data-parallel ranks"),
       &Layout::compression},
      {number_key("compression.density", {1e-6, 1}, "", "0.01",
                  "top_k and random_k: share of the gradients that is sent"),
       &Layout::compression_density},
      {integer_key("compression.rank", {1, 1024}, "columns", "4",
                   "power_sgd: columns of the two factors"),
       &Layout::compression_rank},
      {boolean_key("compression.quantized_weights", "false",
                   "ZeRO-3: parameters are gathered as 8-bit integers (ZeRO++ qwZ)"),
       &Layout::quantized_weights},
      {boolean_key("compression.secondary_shard", "false",
                   "ZeRO-3: a second copy on each node, for the backward pass (ZeRO++ hpZ)"),
       &Layout::secondary_shard},
      {integer_key("compression.node_ranks", {0, ranks.max}, "GPUs", "0",
                   "data-parallel GPUs of a node: int8 and int4 reduce within nodes first"),
       &Layout::node_ranks},
  });
}

Fields adapters() {
  return seldom({
      {integer_key("lora.rank", {0, 65'536}, "", "0",
                   "low-rank adapters are trained, of this rank, and nothing else; 0: all of the "
                   "model"),
       &Layout::lora_rank},
      {text_key(KeyType::list, "lora.modules", "[linear_qkv, linear_proj, linear_fc1, linear_fc2]",
                "linears that have adapters"),
       &Layout::lora_modules},
      {word_key<FrozenFormat>("lora.base", "as_trained",
                              "format of frozen weights; nf4: QLoRA's 4 bits; int8: LLM.int8"),
       &Layout::frozen_format},
      {number_key("lora.outliers", {0, 1}, "", "0",
                  "int8: share of the input's features that are multiplied in 16 bits"),
       &Layout::outlier_share},
      {word_key<FrozenOrders>("lora.orders", "both",
                              "orders of frozen weights under fp8_parameters; transposed: one, and "
                              "a kernel makes the other for each input gradient"),
       &Layout::frozen_orders},
      {number_key("lora.dropout", {0, 0.99}, "", "0", "dropout in front of adapters"),
       &Layout::lora_dropout},
      {boolean_key("lora.magnitudes", "false",
                   "DoRA: a trained norm for each output of an adapted linear"),
       &Layout::lora_magnitudes},
      {boolean_key("lora.embedding", "false", "a copy of the embedding is trained beside adapters"),
       &Layout::trains_embedding},
      {boolean_key("lora.head", "false", "a copy of the head is trained beside adapters"),
       &Layout::trains_head},
      {word_key<ExpertAdapters>("lora.experts", "none",
                                "adapters of the linears of routed experts, by lora.modules"),
       &Layout::expert_adapters, nullptr, has_experts},
  });
}

Fields offload() {
  return seldom({
      {word_key<OffloadTarget>("offload.optimizer", "none",
                               "optimizer states and their update on the host"),
       &Layout::offload_optimizer},
      {number_key("offload.fraction", {0, 1}, "", "1", "share of the optimizer that is offloaded"),
       &Layout::offload_fraction},
      {boolean_key("offload.overlap", "false",
                   "copies to and from the host overlap with its update"),
       &Layout::offload_overlap},
      {boolean_key("offload.delay", "false",
                   "the host updates with the gradients of the step before, beside the next one"),
       &Layout::offload_delay},
      {integer_key("offload.delay_after", {0, 1'000'000'000}, "steps", "0",
                   "with delay: steps before it begins, of a run (forecasts are of those behind)"),
       &Layout::offload_delay_after},
      {word_key<OffloadTarget>("offload.parameters", "none",
                               "ZeRO-3: each GPU's shard of the parameters on the host"),
       &Layout::offload_parameters},
      {word_key<OffloadTarget>("offload.activations", "none",
                               "what layers keep for their backward pass on the host"),
       &Layout::offload_activations},
      {integer_key("offload.layers", {0, layers.max}, "layers", "0",
                   "with activations: the first so many layers of a model chunk; 0: all but the "
                   "last"),
       &Layout::offload_layers},
      {text_key(KeyType::list, "offload.modules", "[]",
                "with activations: of a layer the inputs of attn_norm, qkv_linear, core_attn, "
                "attn_proj, mlp_norm, expert_fc1, moe_act, fused_group_mlp alone; []: everything"),
       &Layout::offload_modules},
      {integer_key("offload.least", {0, std::int64_t{1} << 40}, "elements", "0",
                   "with modules: tensors of fewer elements stay on the device"),
       &Layout::offload_least},
  });
}

Fields local_steps() {
  return seldom({
      {integer_key("local_steps.every", {1, 1'000'000}, "steps", "1",
                   "groups of data-parallel GPUs train apart and meet after so many steps"),
       &Layout::local_steps},
      {integer_key("local_steps.ranks", ranks, "GPUs", "1",
                   "data-parallel GPUs that reduce their gradients together at each step"),
       &Layout::local_ranks},
      {word_key<OuterOptimizer>("local_steps.outer", "average",
                                "what becomes of the groups' parameters when they meet"),
       &Layout::outer},
      {number_key("local_steps.rate", {0, 10}, "", "0.7", "nesterov: learning rate"),
       &Layout::outer_rate},
      {number_key("local_steps.momentum", {0, 1}, "", "0.9", "nesterov: momentum"),
       &Layout::outer_momentum},
      {word_key<DType>("local_steps.wire", "fp32", "format in which parameters travel"),
       &Layout::outer_dtype},
      {word_key<OuterQuantization>("local_steps.quantization", "none",
                                   "integers of 8 bits, or 4 bits of sign and exponent, with "
                                   "scales, in place of local_steps.wire"),
       &Layout::outer_quantization},
      {integer_key("local_steps.fragments", {1, 1024}, "", "1",
                   "parts of the model that meet in turn (Streaming DiLoCo)"),
       &Layout::outer_fragments},
      {integer_key("local_steps.overlap", {0, 1'000'000}, "steps", "0",
                   "steps that a meeting may take beside training; 0: training waits for it"),
       &Layout::outer_overlap},
      {number_key("local_steps.mix", {0, 1}, "", "0.5",
                  "with overlap: share of its own parameters that a GPU keeps"),
       &Layout::outer_mix},
      {boolean_key("local_steps.on_host", "false",
                   "nesterov: parameters and momentum of the last meeting lie on the host"),
       &Layout::outer_on_host},
  });
}

Fields servers() {
  return seldom({
      {word_key<Servers>("servers.mode", "none",
                         "parameter servers in place of a reduction among data-parallel GPUs"),
       &Layout::servers},
      {word_key<ServerPlace>("servers.place", "workers", "where the servers run"),
       &Layout::server_place},
      {integer_key("servers.machines", {0, 100'000}, "machines", "0",
                   "machines for servers beside the nodes of the workers"),
       &Layout::server_machines},
      {integer_key("servers.staleness", {0, 1'000'000}, "steps", "0",
                   "bounded: steps that a worker may be ahead of the slowest"),
       &Layout::staleness},
      {text_key(KeyType::size, "servers.partition", "auto",
                "part of a bucket that travels and is updated at a time; auto: all of it",
                {"auto"}),
       &Layout::server_partition},
  });
}

// One value as a file has it and as JSON has it.
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(const std::optional<Bytes>& size) {
  return size ? yaml_bytes(*size) : "auto";
}
std::string text_of(const std::optional<DType>& dtype) {
  return std::string{dtype ? word(*dtype) : "auto"};
}
std::string text_of(const std::vector<int>& counts) {
  return counts.empty() ? "even" : fmt::format("[{}]", fmt::join(counts, ", "));
}
std::string text_of(const LengthSource& lengths) {
  return lengths.is_file() ? yaml_quoted(lengths.name) : lengths.name;
}
template <class Enum>
std::string text_of(const std::vector<Enum>& list) {
  std::vector<std::string_view> words;
  words.reserve(list.size());
  for (const Enum one : list)
    words.push_back(word(one));
  return fmt::format("[{}]", fmt::join(words, ", "));
}
using sim::text_of;  // of ExpertLoad
template <class Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>)
    return std::string{word(value)};
  else
    return fmt::format("{}", value);
}

std::string json_of(const ExpertLoad& load) {
  const std::string text = text_of(load);
  return load.exists() ? text : fmt::format("\"{}\"", text);
}
std::string json_of(double value) {
  return fmt::format("{:#}", value);  // 1.0: a number that is no integer
}
std::string json_of(const std::optional<Bytes>& size) {
  return size ? std::to_string(size->count()) : "null";
}
std::string json_of(const std::vector<int>& counts) {
  return fmt::format("[{}]", fmt::join(counts, ", "));
}
std::string json_of(const LengthSource& lengths) {
  return yaml_quoted(lengths.name);
}
std::string json_of(const std::optional<DType>& dtype) {
  return dtype ? fmt::format("\"{}\"", word(*dtype)) : "null";
}
template <class Enum>
std::string json_of(const std::vector<Enum>& list) {
  std::vector<std::string> words;
  words.reserve(list.size());
  for (const Enum one : list)
    words.push_back(fmt::format("\"{}\"", word(one)));
  return fmt::format("[{}]", fmt::join(words, ", "));
}
template <class Value>
std::string json_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>)
    return fmt::format("\"{}\"", word(value));
  else
    return text_of(value);
}

}  // namespace

const std::vector<LayoutField>& layout_fields() {
  static const Fields fields = [] {
    Fields all = parallelism();
    for (Fields (*more)() : {tokens_of_experts, pipeline, batch_and_sharding, formats, overlap,
                             adapters, compression, offload, local_steps, servers})
      for (LayoutField& field : more())
        all.push_back(std::move(field));
    return all;
  }();
  return fields;
}

const LayoutField& layout_field(std::string_view key) {
  const auto found = std::ranges::find_if(
      layout_fields(), [&](const LayoutField& field) { return field.key.path == key; });
  SIM_CHECK(found != layout_fields().end(), key);
  return *found;
}

std::string value_text(const Layout& layout, const LayoutField& field) {
  return std::visit([&](auto member) { return text_of(layout.*member); }, field.member);
}

std::string value_json(const Layout& layout, const LayoutField& field) {
  return std::visit([&](auto member) { return json_of(layout.*member); }, field.member);
}

bool same_value(const Layout& a, const Layout& b, const LayoutField& field) {
  return std::visit([&](auto member) { return a.*member == b.*member; }, field.member);
}

}  // namespace sim
