#include "real/engine/support.hpp"

#include <array>

namespace real {
namespace {

using enum Feature;

constexpr std::string_view equivalence = "property/equivalence_test.cpp";
constexpr std::string_view pairs = "property/pairs_training_test.cpp";
constexpr std::string_view eight_bits = "property/eight_bit_training_test.cpp";
constexpr std::string_view on_cuda = "unit/real_cuda/equivalence_test.cpp";

// A feature that no backend runs.
constexpr SupportRow none(Feature feature, std::string_view title, std::string_view keys,
                          std::string_view why) {
  return {feature, title, keys, refused(why), refused(why)};
}

constexpr std::array rows{
    SupportRow{transformer, "Causal transformers of GPT's and Llama's kinds",
               "sequence_length, global_batch, micro_batch", runs(equivalence), runs(on_cuda)},
    SupportRow{dropout, "Dropout", "model: dropout", runs(equivalence), runs(on_cuda)},
    none(dropout_of_all, "Dropout of 1", "model: dropout",
         "{}: dropout of 1 leaves nothing to train; allowed: less than 1"),
    SupportRow{classifier, "Classifiers of sentences", "model: head", runs(equivalence),
               runs(on_cuda)},
    none(classifier_slices, "Classifiers with sequence parallelism", "sequence_parallel",
         "layout.sequence_parallel: the head of {} reads the first token of each sequence, which "
         "one rank alone would hold; allowed: false"),
    none(
        classifier_context, "Classifiers with context parallelism", "context_parallel",
        "layout.context_parallel: the head of {} reads the first token of each sequence, which one "
        "rank alone would hold; allowed: 1"),
    none(causal_classifier, "Causal classifiers", "model: attention",
         "operator attention: {} is causal, so the first token, of which its head makes the class, "
         "sees no other; allowed: attention bidirectional"),
    none(bidirectional_tokens, "Masked language models", "model: attention",
         "operator attention: {} is not causal, and the engine trains the next token"),
    none(operators, "Soft caps, attention sinks, ALiBi, gates, poolers, images", "model: operators",
         "operator {} of the {} block: the engine does not execute {}"),
    none(layer_forms, "Norms of all queries or behind branches", "model: qk_norm, norm_placement",
         "{}: the engine does not execute {}"),
    SupportRow{windows, "Attention within windows", "model: window, full_attention",
               runs("property/packed_training_test.cpp"), runs(on_cuda)},
    none(window_slices, "Windows with context_exchange all_gather", "context_exchange",
         "layout.context_exchange is all_gather: the engine does not cut a window of {} tokens out "
         "of gathered keys; allowed: all_to_all"),
    SupportRow{partial_rotary, "Rotary positions of a part of a head", "model: rotary_share",
               runs("property/packed_training_test.cpp"), runs(on_cuda)},
    SupportRow{Feature::latent_attention, "Latent attention", "model: latent_attention",
               runs("property/latent_training_test.cpp"), runs(on_cuda)},
    none(latent_layouts, "Latent attention split, or with a backward pass in parts",
         "tensor_parallel, context_parallel, schedule, overlap.delay_wgrad, "
         "overlap.expert_exchange, recompute_modules",
         "{}: the engine executes latent attention with tensor_parallel 1, context_parallel 1, "
         "backward passes as a whole and nothing offloaded; not with a schedule of zero bubbles, "
         "overlap.delay_wgrad, overlap.expert_exchange, recompute operators, mla_up_proj or "
         "layernorm"),
    none(hybrid, "Hybrid models", "model: layer_pattern, layer_kinds",
         "{}: the engine does not execute layers that differ in what they are made of "
         "(layer_pattern, layer_kinds)"),
    none(diffusion, "Diffusion transformers", "model: diffusion",
         "{}: the engine executes no diffusion transformers"),
    none(layer_list, "Lists of layers", "model: layers",
         "{} is a list of layers: the engine executes transformers"),
    none(no_loss, "Models without a loss", "model: head",
         "{} ends in no loss: there is nothing to train"),
    SupportRow{data_parallel, "Data parallelism, replicas with unequal micro-batches",
               "data_parallel, replica_batches, bucket, first_bucket, buckets, overlap.gradients",
               runs(equivalence), runs(on_cuda)},
    SupportRow{zero, "ZeRO-1 to 3, hybrid sharding",
               "zero_stage, shard_group, prefetch_layers, reshard_after_forward, "
               "overlap.parameters, master_weights",
               runs(equivalence), runs(on_cuda)},
    SupportRow{tensor_parallel, "Tensor and sequence parallelism",
               "tensor_parallel, sequence_parallel, overlap.tensor_wgrad", runs(equivalence),
               runs(on_cuda)},
    SupportRow{shared_key_heads, "Tensor parallelism beyond the key/value heads", "tensor_parallel",
               runs("property/key_heads_training_test.cpp"), runs(on_cuda)},
    none(shared_heads_again, "Attention run again whose key/value heads are shared",
         "tensor_parallel, recompute, recompute_modules",
         "layout.recompute: the engine does not run attention again whose key/value heads tensor "
         "ranks share; allowed: none, full, modules other than core_attn, or tensor_parallel {} at "
         "most"),
    none(tensor_products, "GEMMs cut into parts", "overlap.tensor_products",
         "layout.overlap.tensor_products: the engine does not execute products cut into parts"),
    SupportRow{context_parallel, "Context parallelism: ring, all-gather, all-to-all",
               "context_parallel, context_exchange", runs("property/context_training_test.cpp"),
               runs(on_cuda)},
    none(context_form, "PyTorch's context_parallel", "framework.context",
         "framework.context is {}: the engine exchanges keys and values as Transformer Engine "
         "does; allowed: transformer_engine"),
    none(context_rings, "Heads exchanged within rings of context ranks",
         "context_exchange, context_heads",
         "layout.context_exchange is all_to_all_ring, which the engine does not execute; allowed: "
         "ring, all_gather, all_to_all"),
    none(context_apart, "Context parallelism with local steps or parameter servers",
         "context_parallel",
         "layout.context_parallel: workers that train apart hold whole sequences; allowed: 1"),
    none(context_shared_heads, "Shared key/value heads with context_exchange all_gather",
         "tensor_parallel, context_exchange",
         "layout.context_exchange: the engine does not gather keys and values that tensor ranks "
         "share; allowed: ring, or tensor_parallel {} at most"),
    SupportRow{Feature::pipeline, "Pipelines of every schedule",
               "pipeline_parallel, virtual_stages, schedule, pipeline_runs, layers_per_chunk, "
               "placement, overlap.pipeline, overlap.delay_wgrad",
               runs(equivalence), runs(on_cuda)},
    SupportRow{recompute, "Recomputation",
               "recompute, recompute_every, recompute_layers, recompute_modules", runs(equivalence),
               runs(on_cuda)},
    none(kept_parts, "Recomputation by operators where parts of outputs are kept",
         "recompute, framework.keeps_unread_outputs",
         "layout.recompute: by operators the engine keeps the outputs that a gradient needs, each "
         "as a whole; allowed: recompute none, selective, full, or "
         "framework.keeps_unread_outputs, keeps_gathered_inputs and copies_attention: false"),
    SupportRow{unfused_attention, "Attention without a fused kernel", "attention",
               runs(equivalence),
               refused("{}: the CUDA backend has fused attention only (layout.attention: flash or "
                       "flash-2)")},
    SupportRow{
        cuda_heads, "Heads of other sizes than multiples of 16 up to 256", "model: head_dim",
        runs(equivalence),
        refused("{}: {} elements per head; the CUDA kernel takes multiples of 16 up to 256")},
    SupportRow{
        cuda_norm_heads, "Norms of heads of other sizes than multiples of 32 up to 256",
        "model: qk_norm", runs(equivalence),
        refused("{}: {} elements per head; the CUDA kernel takes multiples of 32 up to 256")},
    SupportRow{cuda_norm_width, "Norms of more than 16,384 features", "model: hidden",
               runs("unit/real_host/norm_test.cpp"),
               refused("{}: {} features; the CUDA kernel takes 16,384 at most")},
    none(odd_heads, "Rotary positions of an odd head size", "model: head_dim",
         "{}: {} elements per head cannot be rotated in pairs"),
    SupportRow{experts, "Mixtures of experts, every expert with as many tokens",
               "expert_parallel, expert_tensor_parallel, moe.choice, overlap.shared_experts, "
               "overlap.expert_exchange",
               runs(equivalence), runs(on_cuda)},
    SupportRow{expert_scores, "Experts chosen by scores", "training.routing", runs(equivalence),
               refused("training.routing is {}: the CUDA backend gives every expert as many "
                       "tokens; allowed: even, or --backend host")},
    SupportRow{expert_capacity, "Capacities of experts, by scores",
               "moe.capacity_factor, moe.pad_to_capacity", runs(equivalence),
               refused("training.routing is {}: the CUDA backend gives every expert as many "
                       "tokens; allowed: even, or --backend host")},
    none(even_capacity, "Capacities without scores", "moe.capacity_factor",
         "layout.moe.capacity_factor is {}: the engine drops no token and pads no expert where it "
         "gives all as many; allowed: 0, or training.routing softmax or sigmoid"),
    none(expert_places, "Capacities that are no whole number of places", "moe.capacity_factor",
         "layout.moe.capacity_factor is {}: of {} tokens that choose {} of {} experts each, an "
         "expert takes {} of a rank's; allowed: factors with which that is a whole number, 1 or "
         "more"),
    none(expert_imbalance, "Imbalance without scores", "expert_imbalance",
         "layout.expert_imbalance is {}: the engine gives every expert as many tokens; allowed: 1"),
    none(expert_load, "Measured or drawn loads without scores",
         "moe.load, moe.load_cv, moe.load_seed",
         "layout.moe.load: the engine gives every expert as many tokens; allowed: even, or "
         "training.routing softmax or sigmoid, which choose by the scores of the router"),
    none(expert_shares, "Tokens that do not spread evenly over the experts, without scores",
         "sequence_length, tensor_parallel, context_parallel",
         "{}: the engine gives every expert as many tokens, but {} tokens that choose {} experts "
         "each do not spread evenly over {}"),
    none(expert_sharding, "Experts with ZeRO-2 or 3", "zero_stage, shard_group",
         "layout.zero_stage is {}, layout.shard_group {}: the engine shards experts over all ranks "
         "that have them; allowed: zero_stage 0 or 1, and no shard_group"),
    none(expert_dispatcher, "Dispatchers other than alltoall",
         "moe.dispatcher, moe.dispatch_sms, moe.fp8_dispatch",
         "layout.moe.dispatcher is {}: the engine sends a copy for each choice; allowed: alltoall"),
    none(expert_latent, "Experts of a narrower state", "model: experts.latent",
         "{}: the engine does not execute experts of a narrower state (experts.latent)"),
    none(expert_biases, "Biases of experts", "model: biases",
         "{}: the engine does not execute biases of experts"),
    none(expert_forms, "Mixtures as torchtitan and NeMo Automodel run them", "framework.experts",
         "framework.experts: the engine multiplies choices by their weights behind the activation, "
         "as Megatron-LM does; allowed: megatron"),
    SupportRow{formats, "bf16", "compute_dtype, activation_dtype, gradient_dtype, reduce_dtype",
               refused("layout.{}: the host backend computes in fp32, not {}"), runs(on_cuda)},
    SupportRow{mixed_formats, "Products in another format than activations",
               "compute_dtype, activation_dtype",
               refused("layout.{}: the host backend computes in fp32, not {}"),
               refused("layout.compute_dtype: the CUDA backend multiplies tensors in the format "
                       "that they have, which is {} (activation_dtype), not {}")},
    SupportRow{half_precision, "fp16",
               "compute_dtype, activation_dtype, gradient_dtype, reduce_dtype",
               refused("layout.{}: the host backend computes in fp32, not {}"),
               refused("layout.{}: the CUDA backend computes in bf16 or fp32, not {}")},
    SupportRow{bf16_masters, "bf16 weights without masters", "master_weights",
               refused("layout.{}: the host backend computes in fp32, not {}"),
               refused("layout.master_weights: Adam on bf16 weights without fp32 masters is not "
                       "done by the CUDA backend: updates smaller than 2^-9 of a weight would be "
                       "lost")},
    SupportRow{eight_bit, "GEMMs in 8 bits with a scale for each tensor: delayed, current",
               "compute_dtype, bf16_layers.first, bf16_layers.last, bf16_modules", runs(eight_bits),
               runs("unit/real_cuda/eight_bit_test.cpp")},
    SupportRow{eight_bit_blocks, "GEMMs in 8 bits with scales of blocks: 128, MXFP8",
               "framework.fp8", runs(eight_bits),
               refused("framework.fp8 is {}: the CUDA backend has GEMMs with a scale for each "
                       "tensor; allowed: transformer_engine, transformer_engine_linear, "
                       "transformer_engine_tensorwise, torchao")},
    none(eight_bit_sizes, "GEMMs in 8 bits of sizes that blocks or tensor cores do not divide",
         "micro_batch, sequence_length",
         "operator {}: its GEMMs in 8 bits need tokens, inputs and outputs of a rank that are "
         "multiples of {}; they are {}, {} and {}"),
    none(
        eight_bit_rest, "Other GEMMs in 8 bits or fewer",
        "fp8_parameters, fp8_modules, sequence_parallel",
        "layout.compute_dtype: the engine runs fp8 GEMMs of dense layers; allowed with them: "
        "fp8_parameters false, fp8_modules [], sequence_parallel false, no experts, latent "
        "attention, lora, offload or separate GEMMs of a linear; framework.fp8 transformer_engine, "
        "transformer_engine_linear, _tensorwise, _blockwise, _mxfp8, torchao; fp8_attention none; "
        "operation_fuser false"),
    SupportRow{optimizer, "AdamW", "optimizer", runs(equivalence), runs(on_cuda)},
    SupportRow{Feature::lamb, "LAMB", "optimizer", runs("property/compressed_training_test.cpp"),
               runs(on_cuda)},
    SupportRow{bf16_moments, "Both moments in bf16", "moment_dtype", runs(on_cuda), runs(on_cuda)},
    none(
        other_optimizers, "Other optimizers, moments in other formats",
        "optimizer, moment_dtype, second_moment_dtype",
        "layout.optimizer, layout.moment_dtype: the engine updates with Adam or LAMB, both moments "
        "in fp32, or with Adam in bf16; on servers and with compression.gradients one_bit in fp32 "
        "alone"),
    none(Feature::state_format, "Quantised moments", "state_format",
         "layout.state_format: the engine keeps moments as numbers; allowed: plain"),
    none(muon, "Muon", "optimizer",
         "layout.optimizer: the engine does not make matrices orthogonal"),
    none(Feature::master_format, "Masters in other formats", "master_format",
         "layout.master_format: the engine keeps masters in fp32; allowed: fp32"),
    SupportRow{adapters, "Low-rank adapters of linears", "lora.rank, lora.modules",
               runs("property/adapters_training_test.cpp"), runs(on_cuda)},
    SupportRow{frozen_nf4, "QLoRA: frozen weights with the values of NF4", "lora.base",
               runs("property/adapters_training_test.cpp"), runs(on_cuda)},
    none(adapter_forms, "Other adapters, frozen weights in 8 bits",
         "lora.base, lora.outliers, lora.orders, lora.dropout, lora.magnitudes, lora.embedding, "
         "lora.head, lora.experts",
         "layout.lora: the engine trains A and B beside frozen linears; of layout.lora allowed: "
         "rank, modules, and base as_trained or nf4"),
    none(adapter_layouts,
         "Adapters with other splits, experts, compression, offloading, local steps",
         "lora.rank, tensor_parallel, zero_stage",
         "layout.lora.rank: the engine trains adapters with tensor_parallel 1, zero_stage 0 to 2 "
         "and "
         "AdamW, without experts, compression, offload, local steps and servers"),
    none(lengths, "Sequences of unequal lengths",
         "packing.lengths, packing.mean, packing.sigma, packing.method, packing.multiple, "
         "packing.seed",
         "layout.packing.lengths: the engine trains on sequences of one length; allowed: none"),
    SupportRow{Feature::packed_length, "Packed sequences of one length", "packed_length",
               runs("property/packed_training_test.cpp"), runs(on_cuda)},
    none(packed_rest, "Packed sequences that do not fill a row", "packed_length",
         "layout.packed_length is {}: the engine fills rows of {} tokens with whole sequences; "
         "allowed: divisors of sequence_length"),
    none(packed_chunks, "Packed sequences that context ranks cannot cut evenly",
         "packed_length, context_parallel",
         "layout.packed_length is {}: a context rank has two equal chunks of each sequence; "
         "allowed: multiples of {}"),
    none(vision, "Vision encoders",
         "images, image_tokens, freeze_vision_model, freeze_vision_projection",
         "layout.images: the engine runs no vision encoder; allowed: 0"),
    none(Feature::mlp_tiles, "MLPs in pieces of the tokens", "mlp_tiles",
         "layout.mlp_tiles: the engine runs an MLP as a whole; allowed: 1"),
    none(Feature::loss_chunks, "The loss in chunks of the tokens", "loss_chunks",
         "layout.loss_chunks: the engine runs the loss as a whole; allowed: 1"),
    SupportRow{compression, "Compressed gradients and parameters, 1-bit LAMB",
               "compression.gradients, compression.density, compression.rank, "
               "compression.quantized_weights, compression.secondary_shard, "
               "compression.node_ranks",
               runs("property/compressed_training_test.cpp"),
               refused("layout.compression: the CUDA backend has no kernels that compress "
                       "gradients or parameters; the host backend has")},
    SupportRow{Feature::offload, "Offloading",
               "offload.optimizer, offload.overlap, offload.delay, offload.delay_after, "
               "offload.parameters, offload.activations, offload.layers, offload.modules, "
               "offload.least",
               runs("property/offloaded_training_test.cpp"),
               refused("layout.offload: the CUDA backend keeps everything on the device; the host "
                       "backend offloads")},
    none(Feature::offload_fraction, "A part of the optimizer offloaded", "offload.fraction",
         "layout.offload.fraction: the engine offloads all of the optimizer; allowed: 1"),
    none(offload_gradients, "Gradients of one rank offloaded in another format",
         "offload.parameters, reduce_dtype",
         "layout.offload.parameters: the gradients of one rank travel as they are kept; allowed: "
         "reduce_dtype as gradient_dtype"),
    SupportRow{Feature::local_steps, "Local steps",
               "local_steps.every, local_steps.ranks, local_steps.outer, local_steps.rate, "
               "local_steps.momentum, local_steps.quantization, local_steps.fragments, "
               "local_steps.overlap, local_steps.mix, local_steps.on_host",
               runs("property/local_steps_test.cpp"),
               refused("layout.local_steps: the CUDA backend has no kernels of meetings; the host "
                       "backend has")},
    none(outer_wire, "Local steps that meet in another format", "local_steps.wire",
         "layout.local_steps.wire: the engine averages in fp32; allowed: fp32"),
    SupportRow{Feature::servers, "Parameter servers",
               "servers.mode, servers.place, servers.machines, servers.staleness, "
               "servers.partition",
               runs("property/servers_test.cpp"),
               refused("layout.servers: the CUDA backend has no parameter servers; the host "
                       "backend has")},
    SupportRow{framework_kernels,
               "Kernels of other frameworks: separate GEMMs, gradients scaled, added or checked by "
               "kernels, losses that keep logits, copies of tokens and weights",
               "framework.name, framework.loss, framework.gradient_accumulation_fusion, "
               "framework.gradient_prescale, framework.check_for_nan_in_grad, "
               "framework.token_collectives, framework.weight_gathers",
               runs("property/framework_training_test.cpp"), runs(on_cuda)},
    none(framework_forms, "Logits and messages of Scaling, losses in chunks of a kernel",
         "framework.parallel_output, framework.sends_whole, framework.recomputes_head, "
         "framework.held_logits, framework.loss",
         "framework: the engine does not gather or hold logits, send whole tensors between "
         "stages, recompute the head, or take the loss in chunks; allowed: parallel_output true, "
         "sends_whole and recomputes_head false, held_logits up to 1, loss other than chunked"),
    none(gradient_passes, "Scaled gradients that are exchanged otherwise than by collectives",
         "framework.gradient_prescale",
         "framework.gradient_prescale: the engine scales gradients before collectives alone; "
         "allowed: false with compressed gradients, local steps, servers and unequal replicas"),
    SupportRow{host_operators, "Operators of the host", "offload.optimizer",
               runs("property/offloaded_training_test.cpp"),
               refused("{}: the CUDA backend has no operator of kind {}")},
};

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].feature != static_cast<Feature>(i)) return false;
  return rows.back().feature == host_operators;
}
static_assert(rows_in_order(), "a row for each feature, in their order");

}  // namespace

std::span<const SupportRow> support_rows() {
  return rows;
}

const SupportRow& support_row(Feature feature) {
  return rows[static_cast<std::size_t>(feature)];
}

}  // namespace real
