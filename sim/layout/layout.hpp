// How a training step is laid out over ranks: the user's choices, checked against the model.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/attention_kernel.hpp"
#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/layout/expert_load.hpp"
#include "sim/layout/optimizer_kind.hpp"
#include "sim/layout/sequence_lengths.hpp"
#include "sim/model/linear_module.hpp"

namespace sim {

enum class Dimension : std::uint8_t { tensor, context, data, pipeline };
constexpr auto words_of(Dimension) {
  return std::array{Word{Dimension::tensor, "tp"}, Word{Dimension::context, "cp"},
                    Word{Dimension::data, "dp"}, Word{Dimension::pipeline, "pp"}};
}

// sim/schedule/schedule_rules.hpp has what each asks for.
enum class Schedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  interleaved_zb,
  zb_v,
  v_half,
  v_min,
  dual_pipe_v
};
constexpr auto words_of(Schedule) {
  return std::array{Word{Schedule::one_f_one_b, "1f1b"},
                    Word{Schedule::gpipe, "gpipe"},
                    Word{Schedule::interleaved, "interleaved"},
                    Word{Schedule::zb_h1, "zb-h1"},
                    Word{Schedule::zb_v, "zb-v"},
                    Word{Schedule::v_half, "v-half"},
                    Word{Schedule::v_min, "v-min"},
                    Word{Schedule::interleaved_zb, "interleaved-zb"},
                    Word{Schedule::dual_pipe_v, "dualpipe-v"}};
}

// operators: per operator, as torchtitan's selective_ac_option "op": of each layer the outputs of
// attention, of reduce-scatters and of every first of two products are kept, the rest runs again.
enum class Recompute : std::uint8_t { none, selective, operators, full };
constexpr auto words_of(Recompute) {
  return std::array{Word{Recompute::none, "none"}, Word{Recompute::selective, "selective"},
                    Word{Recompute::operators, "operators"}, Word{Recompute::full, "full"}};
}

// RecomputeModule: the parts of a layer that selective recomputation runs again in its backward
// pass (Megatron-LM at d98e8a64, core/transformer/transformer_config.py, recompute_modules):
//  core_attn       attention proper, from Q, K and V
//  mla_up_proj     latent attention: the wide products of queries, keys and values, and the kernels
//                  that put them together
//  mlp             an MLP that is no mixture of experts
//  moe             a mixture of experts: router, exchange, experts
//  moe_act         the activation of its experts
//  shared_experts  its shared experts
//  layernorm       norms that are kernels of their own
enum class RecomputeModule : std::uint8_t {
  core_attn,
  mla_up_proj,
  mlp,
  moe,
  moe_act,
  shared_experts,
  layernorm
};
constexpr auto words_of(RecomputeModule) {
  return std::array{Word{RecomputeModule::core_attn, "core_attn"},
                    Word{RecomputeModule::mla_up_proj, "mla_up_proj"},
                    Word{RecomputeModule::mlp, "mlp"},
                    Word{RecomputeModule::moe, "moe"},
                    Word{RecomputeModule::moe_act, "moe_act"},
                    Word{RecomputeModule::shared_experts, "shared_experts"},
                    Word{RecomputeModule::layernorm, "layernorm"}};
}

// How the optimizer keeps its copy of the weights. remainders: of an fp32 copy the 16 bits that
// bf16 weights do not have; fp16: with a scale per tensor (Transformer Engine,
// pytorch/optimizers/fused_adam.py, store_param_remainders and master_weight_dtype; Megatron-LM,
// --use-precision-aware-optimizer, --main-params-dtype).
enum class MasterFormat : std::uint8_t { fp32, remainders, fp16 };
constexpr auto words_of(MasterFormat) {
  return std::array{Word{MasterFormat::fp32, "fp32"}, Word{MasterFormat::remainders, "remainders"},
                    Word{MasterFormat::fp16, "fp16"}};
}

// Linears of a layer that get low-rank adapters, by Megatron-LM's names (Hu et al. 2021, LoRA;
// NVIDIA Megatron-Bridge at 067f987d, peft/lora.py, target_modules).
enum class LoraModule : std::uint8_t { linear_qkv, linear_proj, linear_fc1, linear_fc2 };
constexpr auto words_of(LoraModule) {
  return std::array{
      Word{LoraModule::linear_qkv, "linear_qkv"}, Word{LoraModule::linear_proj, "linear_proj"},
      Word{LoraModule::linear_fc1, "linear_fc1"}, Word{LoraModule::linear_fc2, "linear_fc2"}};
}

// How frozen weights of linears are kept. nf4: 4 bits, which a kernel turns into 16 wherever they
// are used (Dettmers et al. 2023, QLoRA). int8: 8 bits with a scale for each row, multiplied in 8
// bits forward and turned into 16 for the input gradient (Dettmers et al. 2022, LLM.int8).
enum class FrozenFormat : std::uint8_t { as_trained, nf4, int8 };
constexpr auto words_of(FrozenFormat) {
  return std::array{Word{FrozenFormat::as_trained, "as_trained"}, Word{FrozenFormat::nf4, "nf4"},
                    Word{FrozenFormat::int8, "int8"}};
}

// How moments are kept. plain: numbers of Layout::moment_dtype. Else in blocks, each with a scale
// in fp32 (optimizer_states.hpp): as bitsandbytes or torchao have them, in 8 bits, 4 bits or fp8.
// bitsandbytes_32bit: fp32 whatever the weights are.
enum class StateFormat : std::uint8_t {
  plain,
  bitsandbytes_32bit,
  bitsandbytes_8bit,
  torchao_8bit,
  torchao_4bit,
  torchao_fp8
};
constexpr auto words_of(StateFormat) {
  return std::array{Word{StateFormat::plain, "plain"},
                    Word{StateFormat::bitsandbytes_32bit, "bitsandbytes_32bit"},
                    Word{StateFormat::bitsandbytes_8bit, "bitsandbytes_8bit"},
                    Word{StateFormat::torchao_8bit, "torchao_8bit"},
                    Word{StateFormat::torchao_4bit, "torchao_4bit"},
                    Word{StateFormat::torchao_fp8, "torchao_fp8"}};
}

// In which orders a frozen weight that is kept in the format of the products (eight_bit_parameters)
// is there for the product that reads it transposed, the input gradient. both: beside the first
// order, made once, as nothing changes the weight. one: the products read either (Blackwell with
// one scale for a tensor). transposed: a kernel makes it for each input gradient. Transformer
// Engine 2.8, pytorch/tensor/float8_tensor.py, update_usage; csrc/quantizer.cpp; Megatron-LM,
// disable_parameter_transpose_cache.
enum class FrozenOrders : std::uint8_t { both, one, transposed };
constexpr auto words_of(FrozenOrders) {
  return std::array{Word{FrozenOrders::both, "both"}, Word{FrozenOrders::one, "one"},
                    Word{FrozenOrders::transposed, "transposed"}};
}

// Adapters of the linears of routed experts (Megatron-Bridge at 067f987d, peft/lora.py): none; one
// that all experts of a linear share, on all ranks (share_expert_adapters, on by default there); or
// one for each expert.
enum class ExpertAdapters : std::uint8_t { none, shared, each };
constexpr auto words_of(ExpertAdapters) {
  return std::array{Word{ExpertAdapters::none, "none"}, Word{ExpertAdapters::shared, "shared"},
                    Word{ExpertAdapters::each, "each"}};
}

// How context-parallel ranks see each other's keys and values. ring: slices travel from rank to
// rank beside the attention of the slice before (Liu et al. 2023; Transformer Engine, cp_comm_type
// p2p). all_gather: all of them before the attention (Llama 3, section 3.3.2); under PyTorch's
// context_parallel (Execution::context) all of them at once, and the attention goes slice by slice.
// all_to_all: within attention a rank has all tokens of its share of the heads (Jacobs et al. 2023,
// "DeepSpeed Ulysses"; cp_comm_type a2a).
enum class ContextExchange : std::uint8_t { ring, all_gather, all_to_all, all_to_all_ring };
constexpr auto words_of(ContextExchange) {
  return std::array{Word{ContextExchange::ring, "ring"},
                    Word{ContextExchange::all_gather, "all_gather"},
                    Word{ContextExchange::all_to_all, "all_to_all"},
                    Word{ContextExchange::all_to_all_ring, "all_to_all_ring"}};
}

// How tokens come to the ranks of their experts and back (Megatron-LM,
// core/transformer/moe/token_dispatcher.py). alltoall: a copy for each choice. allgather: all
// tokens of the ranks that share the experts. deepep, hybridep: a fused kernel sends a token once
// to each node and rank that it has chosen (--moe-token-dispatcher-type flex with
// --moe-flex-dispatcher-backend).
enum class TokenDispatcher : std::uint8_t { alltoall, allgather, deepep, hybridep };
constexpr auto words_of(TokenDispatcher) {
  return std::array{
      Word{TokenDispatcher::alltoall, "alltoall"}, Word{TokenDispatcher::allgather, "allgather"},
      Word{TokenDispatcher::deepep, "deepep"}, Word{TokenDispatcher::hybridep, "hybridep"}};
}
constexpr bool is_fused(TokenDispatcher dispatcher) {
  return dispatcher == TokenDispatcher::deepep || dispatcher == TokenDispatcher::hybridep;
}

// Which experts a token chooses, where all are chosen equally often. any: all sets alike.
// consecutive: experts that follow each other, from where the token before it ended (NeMo
// Automodel, fake_balanced_gate), so that a token goes to few ranks.
enum class ExpertChoice : std::uint8_t { any, consecutive };
constexpr auto words_of(ExpertChoice) {
  return std::array{Word{ExpertChoice::any, "any"}, Word{ExpertChoice::consecutive, "consecutive"}};
}

// How gradients travel between the data-parallel ranks (sim/plan/rules/compression.md).
//  top_k, random_k  a share of the elements, the rest is kept for the next step
//  power_sgd        two factors of each matrix (Vogels et al. 2019)
//  one_bit          signs of the optimizer's momentum (Tang et al. 2021, 1-bit Adam)
//  one_bit_lamb     the same of LAMB, each tensor scaled (Li et al. 2021, 1-bit LAMB)
//  int8, int4       integers with a scale per group (Wang et al. 2023, ZeRO++)
enum class GradientCompression : std::uint8_t {
  none,
  top_k,
  random_k,
  power_sgd,
  one_bit,
  one_bit_lamb,
  int8,
  int4
};
constexpr auto words_of(GradientCompression) {
  return std::array{Word{GradientCompression::none, "none"},
                    Word{GradientCompression::top_k, "top_k"},
                    Word{GradientCompression::random_k, "random_k"},
                    Word{GradientCompression::power_sgd, "power_sgd"},
                    Word{GradientCompression::one_bit, "one_bit"},
                    Word{GradientCompression::one_bit_lamb, "one_bit_lamb"},
                    Word{GradientCompression::int8, "int8"},
                    Word{GradientCompression::int4, "int4"}};
}

// Whether a scheme sends the signs of a momentum, behind the last backward pass.
constexpr bool sends_signs(GradientCompression scheme) {
  return scheme == GradientCompression::one_bit || scheme == GradientCompression::one_bit_lamb;
}

// Where optimizer states lie, and where the update runs: on the device, or on the host with states
// in its memory or on its NVMe (Ren et al. 2021, ZeRO-Offload; Rajbhandari et al. 2021,
// ZeRO-Infinity; Megatron-LM, core/optimizer/cpu_offloading).
enum class OffloadTarget : std::uint8_t { none, cpu, nvme };
constexpr auto words_of(OffloadTarget) {
  return std::array{Word{OffloadTarget::none, "none"}, Word{OffloadTarget::cpu, "cpu"},
                    Word{OffloadTarget::nvme, "nvme"}};
}

// OffloadModule: the modules of a layer whose inputs, kept for the backward pass, go to the host
// (Megatron-LM, --offload-modules; core/transformer/transformer_config.py, offload_modules).
enum class OffloadModule : std::uint8_t {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  expert_fc1,
  moe_act,
  fused_group_mlp  // all that the operation fuser's grouped MLP of experts keeps
};
constexpr auto words_of(OffloadModule) {
  return std::array{Word{OffloadModule::attn_norm, "attn_norm"},
                    Word{OffloadModule::qkv_linear, "qkv_linear"},
                    Word{OffloadModule::core_attn, "core_attn"},
                    Word{OffloadModule::attn_proj, "attn_proj"},
                    Word{OffloadModule::mlp_norm, "mlp_norm"},
                    Word{OffloadModule::expert_fc1, "expert_fc1"},
                    Word{OffloadModule::moe_act, "moe_act"},
                    Word{OffloadModule::fused_group_mlp, "fused_group_mlp"}};
}

// How groups of data-parallel ranks that train apart become one model again: they take the mean of
// their parameters (local SGD: McMahan et al. 2017, Stich 2018), or the mean of how far each has
// come is the gradient of an outer optimizer, SGD with Nesterov's momentum (DiLoCo: Douillard et
// al. 2023).
enum class OuterOptimizer : std::uint8_t { average, nesterov };
constexpr auto words_of(OuterOptimizer) {
  return std::array{Word{OuterOptimizer::average, "average"},
                    Word{OuterOptimizer::nesterov, "nesterov"}};
}

// OuterQuantization is the format of messages when such groups meet, in place of numbers in
// Layout::outer_dtype: integers of 8 bits with a scale per group of numbers (INTELLECT-1), or 4
// bits of sign and exponent, E3M0, with such scales (Streaming DiLoCo: Douillard et al. 2025).
enum class OuterQuantization : std::uint8_t { none, int8, e3m0 };
constexpr auto words_of(OuterQuantization) {
  return std::array{Word{OuterQuantization::none, "none"}, Word{OuterQuantization::int8, "int8"},
                    Word{OuterQuantization::e3m0, "e3m0"}};
}

// Parameter servers in place of a reduction among the ranks: each data-parallel rank, or with
// ZeRO-1 each shard group, is a worker that sends its gradients to them
// (sim/plan/rules/servers.md).
//  synchronous   servers add up the gradients of all workers, which update (Jiang et al. 2020,
//                BytePS)
//  asynchronous  servers update with each worker's gradients as they come (Li et al. 2014; Dean et
//                al. 2012, Downpour SGD)
//  bounded       the same, but no worker is more than `staleness` steps ahead of the slowest (Ho et
//                al. 2013, stale synchronous parallel)
enum class Servers : std::uint8_t { none, synchronous, asynchronous, bounded };
constexpr auto words_of(Servers) {
  return std::array{Word{Servers::none, "none"}, Word{Servers::synchronous, "synchronous"},
                    Word{Servers::asynchronous, "asynchronous"}, Word{Servers::bounded, "bounded"}};
}

// Where servers run: on the hosts of the workers' nodes; on machines of their own; or on both, each
// with the share of the parameters that makes all network cards equally busy (BytePS).
enum class ServerPlace : std::uint8_t { workers, machines, balanced };
constexpr auto words_of(ServerPlace) {
  return std::array{Word{ServerPlace::workers, "workers"}, Word{ServerPlace::machines, "machines"},
                    Word{ServerPlace::balanced, "balanced"}};
}

struct Layout {  // NOLINT(clang-analyzer-optin.performance.Padding): grouped by subject
  int tensor_parallel = 1;
  int context_parallel = 1;  // ranks that share the tokens of each sequence
  int pipeline_parallel = 1;
  int data_parallel = 1;
  // The number of ranks of a stage that share the routed experts of a layer, and of ranks that
  // share the features of each expert (0: tensor_parallel). The latter lie next to each other. The
  // rest of tensor_parallel x context_parallel x data_parallel has the same experts.
  int expert_parallel = 1;
  int expert_tensor_parallel = 0;
  double expert_imbalance = 1;  // tokens that come to the fullest rank, over the average
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  int dispatch_sms = 0;  // of deepep and hybridep; 0: Megatron-LM's
  // A fused dispatcher: tokens, and gradients of what comes back, go to experts in 8 bits.
  bool eight_bit_dispatch = false;
  ExpertChoice expert_choice = ExpertChoice::any;
  double expert_capacity = 0;    // tokens of an expert at most, over the average; 0: no limit
  bool pad_to_capacity = false;  // experts get as many at any rate
  // How many tokens the experts of a layer get, if not equally many: as measured, or drawn with so
  // much spread (standard deviation over mean).
  ExpertLoad expert_load;
  double expert_load_cv = 0;
  std::int64_t expert_load_seed = 1;
  int virtual_stages = 1;  // model chunks per pipeline rank (interleaved)
  // May leave out the context dimension where it has one rank.
  std::vector<Dimension> placement{Dimension::tensor, Dimension::context, Dimension::data,
                                   Dimension::pipeline};

  std::int64_t sequence_length = 0;  // tokens per sequence; 1 for layer lists (one sample)
  std::int64_t global_batch = 0;     // sequences per step over all data-parallel ranks
  std::int64_t micro_batch = 1;      // sequences per micro-batch and rank
  // Images of each sequence, whose tokens stand in the place of others; 0: a vision encoder is left
  // out (sim/plan/rules/vision.md).
  std::int64_t images = 0;
  // Tokens of an image in the sequence; 0: those of the size that the model takes.
  std::int64_t image_tokens = 0;
  // The parts in front of the language model that are not trained, as Megatron-Bridge names them.
  bool freeze_vision_model = false, freeze_vision_projection = false;
  // Sequences packed into one of `sequence_length`: the length that a token's sequence has in the
  // mean, sum of squares over sum. 0: nothing is packed.
  std::int64_t packed_length = 0;
  // In place of one length, those of a data set and how they become rows of `sequence_length`
  // (sim/plan/rules/sequence-lengths.md).
  LengthSource packing_lengths;
  double packing_mean = 0, packing_sigma = 0;  // lognormal: mean length; deviation of its logarithm
  Packing packing = Packing::first_fit_decreasing;
  std::int64_t packing_multiple = 0;  // to which each sequence is padded; 0: what the layout needs
  std::int64_t packing_seed = 1;

  Schedule schedule = Schedule::one_f_one_b;
  // Times that a step runs the schedule, each with as many of its micro-batches: gradient
  // accumulation around a pipeline (torchtitan; NeMo Automodel).
  int pipeline_runs = 1;
  // Layers of each model chunk in execution order (pipeline_parallel * virtual_stages entries);
  // empty: even split.
  std::vector<int> layers_per_chunk;
  // Micro-batches of each data-parallel replica; empty: as many for all. Gradients are averaged
  // over all micro-batches of the step.
  std::vector<int> replica_batches;

  bool sequence_parallel = false;
  int zero_stage = 0;       // 0..3; 3 is FSDP full shard
  int shard_group = 0;      // ranks that share a copy (hybrid sharding); 0: all of dp x cp
  int prefetch_layers = 1;  // ZeRO-3: layers gathered ahead of their use
  bool reshard_after_forward = true;  // ZeRO-3: free gathered weights between forward and backward

  Recompute recompute = Recompute::none;
  int recompute_every = 1;   // full: every k-th layer of a chunk is recomputed (1: all)
  int recompute_layers = 0;  // full: the first n layers of each chunk are recomputed; 0: no limit
  // Whether full recomputation runs the layer at `index` of its chunk, from 0, again.
  bool recomputes_layer(int index) const {
    return recompute == Recompute::full && index % recompute_every == 0 &&
           (recompute_layers == 0 || index < recompute_layers);
  }
  // selective: what runs again. Empty: the attention proper of unfused kernels.
  std::vector<RecomputeModule> recompute_modules;
  int mlp_tiles = 1;    // pieces of the tokens in which the MLP of a layer runs
  int loss_chunks = 1;  // the same of the head and the loss
  AttentionKernel attention = AttentionKernel::flash;
  ContextExchange context_exchange = ContextExchange::ring;
  int context_heads = 0;  // all_to_all_ring: neighbours among context ranks that exchange heads
  // Context ranks that share the heads of a tensor rank within attention, and groups of these.
  int head_ranks() const {
    if (context_exchange == ContextExchange::all_to_all) return context_parallel;
    const bool both = context_exchange == ContextExchange::all_to_all_ring && context_parallel > 1;
    return both ? std::max(1, context_heads) : 1;
  }
  int head_groups() const { return std::max(1, context_parallel / head_ranks()); }

  DType compute_dtype = DType::bf16;     // matrix products
  DType activation_dtype = DType::bf16;  // activations, weights in the forward pass, messages
  DType gradient_dtype = DType::bf16;    // gradient storage
  DType reduce_dtype = DType::bf16;      // gradients on the wire
  bool master_weights = true;            // the optimizer keeps fp32 copies of the weights
  OptimizerKind optimizer = OptimizerKind::adam;
  DType moment_dtype =
      DType::fp32;  // moments of the optimizer; 16 bits: torchtitan's training.dtype
  std::optional<DType> second_moment_dtype;         // of the second one; unset: moment_dtype
  StateFormat state_format = StateFormat::plain;    // of the moments
  MasterFormat master_format = MasterFormat::fp32;  // of master_weights
  // Weights of 8-bit products are stored and gathered in 8 bits, with a transposed copy
  // (Megatron-LM, --fp8-param-gather; NeMo, fp8_params); else in activation_dtype, beside both.
  // ZeRO-3: gathered in 8 bits (torchao, enable_fsdp_float8_all_gather).
  bool eight_bit_parameters = false;
  // Layers at either end whose products are not cast (Megatron-LM, --first-last-layers-bf16).
  int first_bf16_layers = 0, last_bf16_layers = 0;
  // Linears that multiply in activation_dtype, and those in 8 bits, beside others in compute_dtype
  // (Megatron-LM, --te-precision-config-file).
  std::vector<LinearModule> bf16_modules, fp8_modules;

  int lora_rank = 0;  // of the adapters, which alone are trained; 0: all parameters are
  std::vector<LoraModule> lora_modules{LoraModule::linear_qkv, LoraModule::linear_proj,
                                       LoraModule::linear_fc1, LoraModule::linear_fc2};
  FrozenFormat frozen_format = FrozenFormat::as_trained;
  FrozenOrders frozen_orders = FrozenOrders::both;
  // int8: share of the input's features that hold outliers, which are multiplied in 16 bits.
  double outlier_share = 0;
  double lora_dropout = 0;       // probability, of the input of an adapter
  bool lora_magnitudes = false;  // DoRA: a trained norm for each output of an adapted linear
  // Trained whole beside the adapters, each a copy of the frozen one (PEFT, modules_to_save).
  bool trains_embedding = false, trains_head = false;
  ExpertAdapters expert_adapters = ExpertAdapters::none;

  // Gradient buckets of the data-parallel reduction, the first to fire apart; unset: the
  // framework's (sim/framework/bucket_sizes.hpp).
  std::optional<Bytes> bucket, first_bucket;
  // In place of their size, by how many the parameters of a rank are divided to have it
  // (Megatron-LM, --ddp-num-buckets); 0: the size decides.
  int buckets = 0;
  bool overlap_gradients = true;     // reduce buckets while the backward pass runs
  bool overlap_parameters = true;    // gather parameters while computing (ZeRO-1/2/3)
  bool overlap_pipeline = true;      // sends and receives beside compute
  bool overlap_tensor_wgrad = true;  // tensor-parallel reduction beside the weight-gradient GEMM
  // Products cut into parts, beside which the tensor group communicates: in user buffers
  // (Transformer Engine; Megatron-LM, --tp-comm-overlap) or in symmetric memory (PyTorch, AsyncTP).
  bool overlap_tensor_products = false;
  bool overlap_shared_experts = false;  // beside the exchange of tokens
  // The exchange of tokens of a micro-batch beside the compute of another one, and weight gradients
  // behind the exchange of their layer (Megatron-LM, --overlap-moe-expert-parallel-comm,
  // --delay-wgrad-compute).
  bool overlap_expert_exchange = false;
  bool delay_weight_gradients = false;

  GradientCompression compression = GradientCompression::none;
  double compression_density = 0.01;  // top_k, random_k: share of a bucket's elements that is sent
  int compression_rank = 4;           // power_sgd: columns of the factors
  bool quantized_weights = false;     // ZeRO-3: gathered as 8-bit integers (ZeRO++, qwZ)
  bool secondary_shard = false;  // ZeRO-3: a second copy per `node_ranks`, gathered from backward
  int node_ranks = 0;            // data-parallel ranks of a node, for those; 0: one level

  OffloadTarget offload_optimizer = OffloadTarget::none;
  double offload_fraction = 1;   // of the optimizer's states
  bool offload_overlap = false;  // copies to and from the host beside its update
  // The host updates with the gradients of the step before, beside the compute of a step; the first
  // steps without (Ren et al. 2021, section 5.2, one-step delayed parameter update).
  bool offload_delay = false;
  int offload_delay_after = 0;
  OffloadTarget offload_parameters = OffloadTarget::none;   // ZeRO-3: the shards of ranks
  OffloadTarget offload_activations = OffloadTarget::none;  // saved tensors of layers
  int offload_layers = 0;  // the first so many of a model chunk; 0: all but the last
  std::vector<OffloadModule> offload_modules;  // inputs of these modules; empty: everything
  std::int64_t offload_least = 0;              // only tensors of so many elements or more

  // Local steps: groups of `local_ranks` data-parallel ranks train apart and meet every
  // `local_steps` steps (sim/plan/rules/local-steps.md). 1: all ranks reduce gradients each step.
  int local_steps = 1;
  int local_ranks = 1;
  OuterOptimizer outer = OuterOptimizer::average;
  double outer_rate = 0.7, outer_momentum = 0.9;  // nesterov
  DType outer_dtype = DType::fp32;                // on the wire
  OuterQuantization outer_quantization = OuterQuantization::none;
  int outer_fragments = 1;  // parts of the model that meet in turn
  int outer_overlap = 0;    // steps that a meeting may take beside training; 0: training waits
  double outer_mix = 0.5;   // share of a rank's own parameters that then stays, with outer_overlap
  bool outer_on_host = false;  // nesterov: parameters and momentum of the last meeting

  Servers servers = Servers::none;
  ServerPlace server_place = ServerPlace::workers;
  // Machines beside the nodes of the workers, with the host and the NICs of such a node.
  int server_machines = 0;
  int staleness = 0;  // bounded: steps that a worker may be ahead of the slowest
  // The part of a bucket that travels and is updated at a time; unset: all of it.
  std::optional<Bytes> server_partition;

  bool operator==(const Layout&) const = default;
  int world_size() const {
    return tensor_parallel * context_parallel * pipeline_parallel * data_parallel;
  }
  // Ranks with the same parameters: their gradients are reduced together, their optimizer states
  // sharded (Megatron-LM, get_data_parallel_group(with_context_parallel=True); torchtitan's mesh
  // dp_shard_cp).
  int replicas() const { return data_parallel * context_parallel; }
  bool trains_apart() const { return local_steps > 1; }
  bool has_servers() const { return servers != Servers::none; }
  // Servers hold the optimizer; workers take new parameters from them.
  bool updates_on_servers() const { return has_servers() && servers != Servers::synchronous; }
  // Workers of parameter servers: GPUs that reduce their gradients among themselves first, and the
  // number of such groups.
  int worker_gpus() const { return zero_stage > 0 && shard_group > 0 ? shard_group : 1; }
  int workers() const { return replicas() / worker_gpus(); }
  // The number of replicas that reduce their gradients together, among themselves.
  int synchronous_replicas() const {
    return has_servers() ? worker_gpus() : trains_apart() ? local_ranks : replicas();
  }
  int expert_tensor() const {
    return expert_tensor_parallel > 0 ? expert_tensor_parallel : tensor_parallel;
  }
  // Whether experts get different numbers of tokens, beyond expert_imbalance.
  bool has_uneven_experts() const { return expert_load.exists() || expert_load_cv > 0; }
  int expert_replicas() const {
    return tensor_parallel * replicas() / (expert_tensor() * expert_parallel);
  }
  // Those of them that share one copy: the ranks of a shard group (torchtitan's mesh efsdp).
  int expert_shards() const {
    if (shard_group == 0) return std::max(1, expert_replicas());
    return std::max(1, tensor_parallel * shard_group / (expert_tensor() * expert_parallel));
  }
  // 0: they hold no part of a copy, or one with all others.
  int expert_inner_ranks() const {
    const int ranks = zero_stage > 0 && shard_group > 0 ? expert_shards() : 0;
    return ranks > 1 && ranks < expert_replicas() ? ranks : 0;
  }
  // Megatron-LM's defaults (core/transformer/transformer_config.py, moe_deepep_num_sms,
  // moe_hybridep_num_sms).
  int sms_of_dispatch() const {
    if (dispatch_sms > 0) return dispatch_sms;
    return token_dispatcher == TokenDispatcher::deepep ? 20 : 16;
  }
  bool cuts_products() const { return overlap_tensor_products && tensor_parallel > 1; }
  std::int64_t tokens_held() const { return sequence_length / context_parallel; }  // of a sequence
  // micro_batches() is of the replica that has most.
  std::int64_t micro_batches() const {
    return replica_batches.empty()
               ? global_batch / (micro_batch * data_parallel)
               : *std::max_element(replica_batches.begin(), replica_batches.end());
  }
  std::int64_t batches_of(int replica) const {
    return replica_batches.empty() ? micro_batches()
                                   : replica_batches[static_cast<std::size_t>(replica)];
  }
  // Those of the replicas before it: the samples of a step are dealt in order.
  std::int64_t batches_before(int replica) const {
    std::int64_t before = replica_batches.empty() ? micro_batches() * replica : 0;
    for (int r = 0; r < replica && !replica_batches.empty(); ++r)
      before += batches_of(r);
    return before;
  }
  std::int64_t step_batches() const { return global_batch / micro_batch; }  // of all replicas
  // The layout as if every replica had so many micro-batches.
  Layout with_even_batches(int batches) const {
    Layout even = *this;
    even.replica_batches.clear();
    even.global_batch = micro_batch * data_parallel * batches;
    return even;
  }
  std::int64_t run_batches() const { return micro_batches() / pipeline_runs; }
  bool offloads() const { return offload_optimizer != OffloadTarget::none; }
  bool offloads_parameters() const { return offload_parameters != OffloadTarget::none; }
  bool offloads_activations() const { return offload_activations != OffloadTarget::none; }
  bool uses_host() const { return offloads() || offloads_parameters() || offloads_activations(); }
  bool uses_disk() const {
    return offload_optimizer == OffloadTarget::nvme || offload_parameters == OffloadTarget::nvme;
  }
  int chunks() const { return pipeline_parallel * virtual_stages; }
  int shard_ranks() const { return shard_group > 0 ? shard_group : synchronous_replicas(); }
  // Bytes and formats of the optimizer state, per parameter that a rank updates.
  std::int64_t master_bytes() const {
    return !master_weights ? 0 : master_format == MasterFormat::fp32 ? 4 : 2;
  }
  DType dtype_of_moment(int moment) const {
    return moment == 1 ? second_moment_dtype.value_or(moment_dtype) : moment_dtype;
  }
  std::int64_t moment_bytes() const {
    std::int64_t bytes = 0;
    for (int moment = 0; moment < moments_of(optimizer); ++moment)
      bytes += bytes_of(dtype_of_moment(moment));
    return bytes;
  }
  bool trains_adapters() const { return lora_rank > 0; }
  bool has_lengths() const { return packing_lengths.exists(); }
  bool pads_rows() const { return has_lengths() && sim::pads_rows(packing); }
  // Sequences that a kernel of attention sees as one.
  std::int64_t attended_length() const {
    return packed_length > 0 ? packed_length : sequence_length;
  }
  bool recomputes(RecomputeModule module) const {
    return recompute == Recompute::selective &&
           std::find(recompute_modules.begin(), recompute_modules.end(), module) !=
               recompute_modules.end();
  }
  // Ranks of the groups that lie within all data-parallel ranks: those that share a copy under
  // hybrid sharding, those of a node under two-level compression, those that train together between
  // meetings; 0: there are none.
  int inner_ranks() const {
    const int ranks = trains_apart()                      ? local_ranks
                      : shard_group > 0 && zero_stage > 0 ? shard_group
                                                          : node_ranks;
    return ranks > 1 && ranks < replicas() ? ranks : 0;
  }
  bool gathers_in_eight_bits() const { return eight_bit_parameters && zero_stage == 3; }
};

}  // namespace sim
