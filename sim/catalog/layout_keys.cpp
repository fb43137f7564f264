// Keys of the section `layout`.
#include "sim/catalog/tables.hpp"
#include "sim/plan/layout.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

constexpr IntegerRange ranks{1, 1 << 20};
constexpr IntegerRange layers{1, 10'000};
constexpr IntegerRange sequences{1, std::int64_t{1} << 32};

std::vector<Key> parallelism() {
  return {
      integer_key("tensor_parallel", ranks, "GPUs", "1", "GPUs that share every linear layer"),
      integer_key("context_parallel", ranks, "GPUs", "1",
                  "GPUs that share the tokens of each sequence"),
      integer_key("pipeline_parallel", layers, "stages", "1", "pipeline stages"),
      integer_key("data_parallel", ranks, "replicas",
                  KeyDefault::follows("GPUs / (tensor x context x pipeline parallel)"),
                  "replicas of the model that share the global batch"),
      integer_key("expert_parallel", ranks, "GPUs", "1",
                  "mixture of experts: GPUs that share the experts of a layer"),
      integer_key("expert_tensor_parallel", {0, ranks.max}, "GPUs", "0",
                  "mixture of experts: GPUs that share each expert; 0: tensor_parallel"),
      number_key("expert_imbalance", {1, 1e6}, "", "1",
                 "tokens of the rank with the most, over the average"),
      integer_key("virtual_stages", layers, "model chunks", "1",
                  "model chunks per pipeline rank (interleaved schedule)"),
      word_key<Schedule>("schedule",
                         KeyDefault::follows("interleaved with virtual stages, else 1f1b"),
                         "pipeline schedule"),
      text_key(list, "placement", "[tp, cp, dp, pp]",
               "order of the ranks, the dimension whose ranks are neighbours first"),
      text_key(list, "layers_per_chunk", "even",
               "layers of each model chunk: even, a list, or {first: N, last: N}", {"even"}),
      text_key(list, "layers_per_stage", KeyDefault::follows("layers_per_chunk"),
               "layers of each pipeline rank: even or a list; excludes layers_per_chunk", {"even"}),
      integer_key("layers_per_chunk.first", {0, 10'000}, "layers",
                  KeyDefault::follows("required in this form"), "layers of the first model chunk"),
      integer_key("layers_per_chunk.last", {0, 10'000}, "layers",
                  KeyDefault::follows("required in this form"), "layers of the last model chunk"),
  };
}

std::vector<Key> batch_and_sharding() {
  return {
      integer_key("sequence_length", sequences, "tokens",
                  KeyDefault::follows("the model's where it fixes one, else required"),
                  "tokens per sequence"),
      integer_key("global_batch", sequences, "sequences", KeyDefault::required(),
                  "sequences per optimizer step, over all replicas"),
      integer_key("micro_batch", sequences, "sequences", "1", "sequences per micro-batch"),
      boolean_key("sequence_parallel", "false",
                  "norms and dropout are split over the tensor-parallel group"),
      integer_key("zero_stage", {0, 3}, "", "0",
                  "ZeRO stage: shards optimizer states (1), gradients (2), parameters (3, FSDP)"),
      integer_key("shard_group", {0, 1 << 20}, "GPUs", "0",
                  "GPUs that share one copy of what ZeRO shards; 0: all replicas"),
      integer_key("prefetch_layers", {0, 10'000}, "layers", "1",
                  "ZeRO-3: layers whose parameters are gathered ahead"),
      boolean_key("reshard_after_forward", "true",
                  "ZeRO-3: free gathered parameters after the forward pass"),
      word_key<Recompute>("recompute", "none",
                          "activation recomputation; operators is torchtitan's selective mode"),
      integer_key("recompute_every", layers, "layers", "1",
                  "full recomputation: of every k-th layer"),
      word_key<ContextExchange>("context_exchange", "ring",
                                "how context-parallel ranks exchange keys and values"),
      word_key<AttentionKernel>("attention", "flash",
                                "attention kernel; flash is the fastest of the device"),
  };
}

std::vector<Key> formats_and_overlap() {
  return {
      word_key<DType>("compute_dtype", "bf16", "format of GEMMs"),
      word_key<DType>("activation_dtype",
                      KeyDefault::follows("16 bits for bf16, fp16 and fp8 GEMMs, else fp32"),
                      "format of activations and of weights in the forward pass"),
      word_key<DType>("gradient_dtype", KeyDefault::follows("activation_dtype"),
                      "format in which gradients are stored"),
      word_key<DType>("reduce_dtype", KeyDefault::follows("gradient_dtype"),
                      "format in which gradients are reduced"),
      boolean_key("master_weights", KeyDefault::follows("true with 16-bit activations"),
                  "the optimizer keeps fp32 copies of the weights"),
      word_key<OptimizerKind>("optimizer", "adam", "optimizer, which decides the states it keeps"),
      word_key<DType>("moment_dtype", "fp32", "format of the optimizer's moments"),
      boolean_key("eight_bit_parameters", "false",
                  "fp8 GEMMs: weights are stored and gathered in 8 bits"),
      text_key(size, "bucket", "auto",
               "size of a gradient bucket, which is reduced as a whole; auto: the framework's",
               {"auto"}),
      text_key(size, "first_bucket", "auto",
               "size of the bucket that is reduced first; auto: the framework's", {"auto"}),
      boolean_key("overlap", KeyDefault::follows("each as below"),
                  "short form: all overlaps below but tensor_products"),
      boolean_key("overlap.gradients", "true",
                  "reduction of gradients overlaps with the backward pass"),
      boolean_key("overlap.parameters", "true", "gathering of parameters overlaps with compute"),
      boolean_key("overlap.pipeline", "true",
                  "messages between pipeline stages overlap with compute"),
      boolean_key("overlap.tensor_wgrad", KeyDefault::follows("true; false under torchtitan"),
                  "tensor-parallel reduction overlaps with the weight-gradient GEMM"),
      boolean_key("overlap.tensor_products", "false",
                  "GEMMs overlap with tensor-parallel communication (tp-comm-overlap, AsyncTP)"),
  };
}

}  // namespace

std::vector<Key> layout() {
  std::vector<Key> keys = parallelism();
  for (std::vector<Key> (*more)() : {batch_and_sharding, formats_and_overlap})
    for (Key& key : more())
      keys.push_back(std::move(key));
  return in_section("layout", std::move(keys));
}

}  // namespace sim::catalog_tables
