// Keys of the section `framework`; sim/framework/FRAMEWORKS.md says which page explains each.
#include "sim/catalog/tables.hpp"
#include "sim/framework/presets/preset.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

KeyDefault preset() {
  return KeyDefault::follows("the framework's");
}

std::vector<Key> kernel_forms() {
  return {
      word_key<PresetName>(
          "name",
          KeyDefault::follows("megatron's kernels, with the interval of an unknown framework"),
          "framework, which sets all other keys"),
      text_key(KeyType::text, "version", KeyDefault::follows("none: the framework's kernels alone"),
               "generation of the framework, which also sets the layout keys that are left out"),
      word_key<NormForm>("layer_norm", preset(), "kernels of LayerNorm"),
      word_key<NormForm>("rms_norm", preset(), "kernels of RMSNorm"),
      word_key<KernelForm>("qkv", preset(), "gradients of Q, K and V: one tensor, or concatenated"),
      word_key<RotaryForm>("rotary", preset(), "kernels of the rotary embedding"),
      word_key<KernelForm>("gate", preset(), "kernels of SwiGLU and GEGLU"),
      word_key<KernelForm>("softmax", preset(), "kernels of unfused attention"),
      word_key<LossForm>("loss", preset(), "kernels of the cross-entropy"),
      word_key<LossChunks>("loss_chunks_backward", preset(),
                           "layout.loss_chunks: when chunks go back, and what they keep"),
      word_key<KernelForm>("key_heads", preset(),
                           "eager: keys and values are repeated for every query head"),
      word_key<OptimizerForm>("optimizer", preset(), "kernels of the optimizer step"),
      word_key<KernelForm>("token_collectives", preset(),
                           "eager: gathers and scatters of tokens copy their tensors"),
      word_key<KernelForm>("weight_gathers", preset(),
                           "eager: gathered weights are copied out of the buffer"),
      word_key<EightBit>("fp8", preset(), "software that casts the operands of fp8 GEMMs"),
      word_key<EightBitAttention>("fp8_attention", preset(), "attention in 8 bits, and its casts"),
      word_key<ContextForm>("context", preset(), "attention over context-parallel ranks"),
      word_key<ExpertForm>("experts", preset(), "the way of tokens to experts and back"),
      integer_key("expert_rows", {1, 1024}, "tokens", preset(),
                  "the tokens of an expert are padded to a multiple of them"),
      word_key<Placeholders>("gradient_placeholders", preset(),
                             "tensors that stand for fused weight gradients"),
      word_key<GradientBuckets>("gradient_buckets", preset(),
                                "where gradients lie while their bucket is reduced"),
      boolean_key("keeps_intermediates", "true",
                  "recompute operators: keep what eager kernels pass on within a layer"),
      quantity_key(duration, "host_issue", KeyDefault::follows("host_calls of the device file's"),
                   "host time to issue one kernel; 1 ms at most"),
      number_key("host_calls", {0, 100}, "", preset(),
                 "host time to issue one kernel, in bare PyTorch calls"),
      quantity_key(bandwidth, "host_update", preset(),
                   "rate at which a process updates an offloaded optimizer, of the host's memory"),
      boolean_key("joint_gate", preset(), "gate and up-projection are one GEMM"),
      boolean_key("accuracy", preset(), "the loss also takes the argmax of its logits"),
      boolean_key(
          "operation_fuser", preset(),
          "Transformer Engine's: activations write the GEMMs' format, adapters add in GEMMs"),
      boolean_key("router_fusion", preset(),
                  "Transformer Engine's kernels choose the experts of tokens"),
      boolean_key("activation_func_fp8_input_store", preset(),
                  "SwiGLU keeps its input for the backward pass in 8 bits"),
  };
}

std::vector<Key> memory_and_gradients() {
  return {
      boolean_key("parallel_output", preset(), "logits stay split over the tensor ranks"),
      boolean_key("gradient_accumulation_fusion", preset(),
                  "weight-gradient GEMMs add to the gradients; else a kernel does"),
      boolean_key("keeps_gathered_inputs", preset(),
                  "sequence parallelism: gathered inputs are kept for the backward pass"),
      boolean_key("offload_keeps_masters", preset(),
                  "an optimizer on the host: fp32 masters stay on the device, too"),
      boolean_key("all_reduces_gradients", preset(),
                  "ZeRO-1, 2: gradients are all-reduced, not reduce-scattered"),
      boolean_key("gradient_prescale", preset(), "a kernel divides each bucket by the replicas"),
      boolean_key("check_for_nan_in_grad", preset(),
                  "buckets are read for values that are not finite"),
      boolean_key("repeats_exchanged_keys", preset(),
                  "context_exchange all_to_all over more GPUs than key heads: these are repeated"),
      boolean_key("ddp_bucket_copies", preset(),
                  "DistributedDataParallel's buckets lie beside the gradients"),
      boolean_key("whole_parameter_shards", preset(),
                  "Muon under ZeRO-1: each replica has whole parameters, also those of Adam"),
      boolean_key("separate_update", preset(),
                  "clipping and new weights are passes apart from the optimizer's"),
      boolean_key("sends_whole", preset(),
                  "every tensor rank sends the whole tensor to the next stage"),
      boolean_key("recomputes_head", preset(),
                  "full recomputation includes the final norm and the head"),
      boolean_key("checkpoint_early_stop", preset(),
                  "recomputation of a layer stops at the last tensor that is needed"),
      boolean_key("copies_attention", preset(),
                  "attention output of several sequences is copied into another order"),
      boolean_key("copies_flash_output", preset(),
                  "the same of flash kernels, with nothing else copied"),
      boolean_key("caching_allocator", preset(),
                  "memory is taken in blocks of PyTorch's allocator"),
      boolean_key("expandable_segments", preset(), "segments of that allocator grow"),
      quantity_key(size, "max_split_size", preset(),
                   "of its blocks that are split (max_split_size_mb); 0: any"),
      quantity_key(size, "workspaces", preset(),
                   "of libraries, beyond those that the device file reserves"),
      boolean_key("keeps_unread_outputs", preset(),
                  "recompute operators: keep outputs that no gradient needs"),
      boolean_key("flat_parameters", preset(), "ZeRO-3 as PyTorch's FSDP1: flat parameters"),
      boolean_key("defer_gradient_sync", preset(),
                  "ZeRO-3 in a pipeline: gathered parameters are kept for the whole step"),
      boolean_key("defer_over_runs", preset(),
                  "with defer_gradient_sync: also from run to run of layout.pipeline_runs"),
      boolean_key("no_sync", preset(),
                  "ZeRO-3 without a pipeline: gradients stay whole until the last micro-batch"),
      boolean_key("no_reshard", preset(),
                  "with no_sync: gathered parameters stay until the last micro-batch"),
  };
}

std::vector<Key> host_and_loss() {
  return {
      boolean_key("waits_for_lengths", preset(),
                  "the host waits for the lengths of sequences before each attention"),
      boolean_key("sync_expert_counts", preset(), "the host waits for the token counts of experts"),
      boolean_key("batch_p2p_sync", preset(),
                  "the host waits for pipeline messages that do not overlap"),
      boolean_key("sync_before_mlp", preset(),
                  "the host waits before each MLP, to copy numbers to the device"),
      boolean_key("blocking_launches", preset(), "CUDA_LAUNCH_BLOCKING=1"),
      boolean_key("sync_local_batches", preset(),
                  "the host waits behind every run of the pipeline, or micro-batch without one"),
      integer_key("held_logits", {0, 64}, "micro-batches", preset(),
                  "micro-batches whose logits are referenced during a backward pass"),
      integer_key("loss_metrics", {0, 64}, "losses", preset(),
                  "losses that are computed once more, for the log"),
  };
}

}  // namespace

std::vector<Key> framework() {
  std::vector<Key> keys = kernel_forms();
  for (std::vector<Key> (*more)() : {memory_and_gradients, host_and_loss})
    for (Key& key : more())
      keys.push_back(std::move(key));
  return in_section("framework", std::move(keys));
}

}  // namespace sim::catalog_tables
