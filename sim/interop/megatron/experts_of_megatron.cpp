// Experts and latent attention of a job of Megatron-LM, as shape and layout. Defaults:
// megatron/training/arguments.py, _add_moe_args and _add_mla_args (commit 000c4ac2).
#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

void read_expert_layers(const MegatronConfig& config, const SettingProblems& problems,
                        TransformerShape& shape) {
  if (!hybrid_pattern_of(config, shape.layers).empty()) return;  // which says it
  const ExpertLayers layers = parse_expert_layers(config.expert_layers.value_or("1"), shape.layers);
  if (!layers.problem.empty())
    problems.problem(config.expert_layers, "{}", layers.problem);
  else if (!set_expert_layers(shape.experts, layers.pattern))
    problems.problem(config.expert_layers,
                     "the layers with experts are no regular row; modelled: each n-th layer from "
                     "some layer on");
}

// Dropless, tokens come to experts as their routers choose, and the host asks how many; padded to a
// capacity, just so many come.
void read_capacity(const MegatronConfig& config, const SettingProblems& problems,
                   Imported& result) {
  const bool padded = config.pad_to_capacity.value_or(false);
  const double capacity = config.expert_capacity.value_or(-1);  // negative: none, as there
  if (capacity <= 0) {
    if (padded) problems.problem(config.pad_to_capacity, "needs a capacity factor of the experts");
    if (result.layout.expert_parallel > 1)
      result.notes.push_back(
          {"layout.expert_imbalance", "tokens are forecast to come evenly to the experts"});
    return;
  }
  result.layout.expert_capacity = capacity;
  result.layout.pad_to_capacity = padded;
  if (!padded && result.layout.expert_parallel > 1)
    result.notes.push_back({"layout.expert_imbalance",
                            "tokens are forecast to come evenly, up to the capacity of experts"});
}

// core/transformer/transformer_config.py: of the backend ncclep. Both ways are modelled in one
// format.
bool goes_in_eight_bits(const MegatronConfig& config, const SettingProblems& problems,
                        const std::string& backend) {
  const auto micro = [&](const Text& dtype) {
    const std::string name = dtype.value_or("bf16");
    if (name != "bf16" && name != "mxfp8")
      problems.problem(dtype, "is '{}'; allowed: bf16, mxfp8", name);
    if (name == "mxfp8" && backend != "ncclep")
      problems.problem(dtype, "is mxfp8 with the backend {}; Megatron-LM allows it with ncclep",
                       backend);
    return name == "mxfp8";
  };
  const bool there = micro(config.dispatch_dtype), back = micro(config.combine_gradient_dtype);
  if (there != back)
    problems.problem(there ? config.dispatch_dtype : config.combine_gradient_dtype,
                     "is mxfp8 and that of the other pass is not: modelled alike only");
  return there && back;
}

// megatron/training/arguments.py: before --moe-flex-dispatcher-backend, whose default is deepep,
// flex needed --moe-enable-deepep.
void read_flex(const MegatronConfig& config, const SettingProblems& problems, Layout& layout) {
  const std::string backend = config.flex_backend.value_or("deepep");
  if (backend == "deepep")
    layout.token_dispatcher = TokenDispatcher::deepep;
  else if (backend == "hybridep" || backend == "ncclep")
    layout.token_dispatcher = TokenDispatcher::hybridep;
  else
    problems.problem(config.flex_backend, "is '{}'; modelled: deepep, hybridep, ncclep", backend);
  layout.eight_bit_dispatch = goes_in_eight_bits(config, problems, backend);
  constexpr std::int64_t most_sms = 1024;
  const bool deepep = layout.token_dispatcher == TokenDispatcher::deepep;
  const Whole& own = deepep ? config.deepep_sms : config.hybridep_sms;
  const Whole& given = own ? own : config.dispatch_sms;
  if (given) layout.dispatch_sms = static_cast<int>(problems.size(given, 0, most_sms));
}

void gather_tokens(Imported& result) {
  const bool alone = result.layout.expert_tensor() == 1;
  result.layout.token_dispatcher = alone ? TokenDispatcher::allgather : TokenDispatcher::alltoall;
  if (!alone)
    result.notes.push_back({"--moe-token-dispatcher-type",
                            "allgather with tensor parallelism of experts is modelled as alltoall",
                            true});
}

void read_dispatcher(const MegatronConfig& config, const SettingProblems& problems,
                     Imported& result) {
  Layout& layout = result.layout;
  // training/arguments.py: the default is allgather.
  const std::string type = config.token_dispatcher.value_or("allgather");
  if (config.deepep.value_or(false) && type != "flex")
    problems.problem(config.deepep, "is of the token dispatcher flex; this one is {}", type);
  if (type == "alltoall")
    layout.token_dispatcher = TokenDispatcher::alltoall;
  else if (type == "allgather")
    gather_tokens(result);
  else if (type == "flex")
    read_flex(config, problems, layout);
  else
    problems.problem(config.token_dispatcher, "is '{}'; modelled: alltoall, allgather, flex", type);
}

void read_exchange_overlap(const MegatronConfig& config, Layout& layout) {
  layout.overlap_shared_experts = config.overlap_shared_experts.value_or(false);
  layout.overlap_expert_exchange = config.overlap_experts.value_or(false);
  layout.delay_weight_gradients = config.delay_weight_gradients.value_or(false);
}

}  // namespace

void read_experts_of_model(const MegatronConfig& config, const SettingProblems& problems,
                           TransformerShape& shape) {
  namespace limits = transformer_limits;
  if (config.num_experts.value_or(0) == 0) return;
  Experts& experts = shape.experts;
  experts.count = problems.size(config.num_experts, 0, limits::experts, 2);
  experts.per_token = problems.size(config.experts_per_token, 2, limits::experts);
  experts.feed_forward =
      problems.size(config.expert_ffn_hidden_size, shape.feed_forward, limits::feed_forward);
  experts.shared_feed_forward =
      problems.size(config.shared_expert_hidden_size, 0, limits::feed_forward, 0);
  if (const std::string problem = experts_problem(shape); !problem.empty())
    problems.problem(config.experts_per_token.place ? config.experts_per_token : config.num_experts,
                     "{}", problem);
  experts.shared_gate = config.shared_expert_gate.value_or(false);
  if (experts.shared_gate && experts.shared_feed_forward == 0)
    problems.problem(config.shared_expert_gate, "is given, but there are no shared experts");
  experts.groups = problems.size(config.expert_groups, 0, limits::experts, 0);
  experts.groups_per_token = problems.size(config.expert_groups_per_token, 0, limits::experts, 0);
  if (const std::string problem = expert_groups_problem(experts); !problem.empty())
    problems.problem(
        config.expert_groups.place ? config.expert_groups : config.expert_groups_per_token, "{}",
        problem);
  read_expert_layers(config, problems, shape);
}

void read_latent_attention(const MegatronConfig& config, const SettingProblems& problems,
                           TransformerShape& shape) {
  namespace limits = transformer_limits;
  if (!config.latent_attention.value_or(false)) return;
  const bool grouped = shape.kv_heads != shape.heads;
  LatentAttention& latent = shape.latent;
  if (config.q_lora_rank) latent.query_rank = problems.size(config.q_lora_rank, 1, limits::rank);
  if (!config.kv_lora_rank)
    problems.at_root(
        "the rank of keys and values is missing (--kv-lora-rank, model.kv_lora_rank): releases "
        "differ in its default");
  latent.key_value_rank = problems.size(config.kv_lora_rank, 1, limits::rank);
  latent.plain_dim = problems.size(config.qk_head_dim, 128, limits::head_dim);
  latent.rotary_dim = problems.size(config.qk_pos_emb_head_dim, 64, limits::head_dim);
  latent.value_dim = problems.size(config.v_head_dim, 128, limits::head_dim);
  shape.head_dim = latent.plain_dim + latent.rotary_dim;
  shape.kv_heads = shape.heads;
  if (grouped) problems.problem(config.num_query_groups, "does not go with latent attention");
  if (shape.positions != Positions::rotary)
    problems.problem(config.position_embedding_type, "modelled with latent attention: rope");
  if (shape.projection_bias)
    problems.problem(config.latent_attention,
                     "latent attention is modelled without biases: add --disable-bias-linear "
                     "(model.add_bias_linear false)");
  if (!shape.qk_norm)
    problems.problem(config.latent_attention,
                     "latent attention is modelled with its norms: add --qk-layernorm "
                     "(model.qk_layernorm)");
  // Its projections of queries, keys and values have none, and its norms are not those of heads.
  shape.qkv_bias = shape.qk_norm = false;
}

void read_expert_layout(const MegatronConfig& config, const SettingProblems& problems,
                        Imported& result) {
  const auto parallel = static_cast<int>(problems.size(config.expert_parallel, 1, most_ranks));
  if (result.shape.experts.count == 0) {
    if (parallel > 1)
      problems.problem(config.expert_parallel, "is {}, but the model has no experts", parallel);
    if (config.delay_weight_gradients.value_or(false))
      result.notes.push_back(
          {"delay-wgrad-compute", "weight gradients are modelled behind their input gradients"});
    return;
  }
  result.layout.expert_parallel = parallel;
  if (config.expert_tensor_parallel)
    result.layout.expert_tensor_parallel =
        static_cast<int>(problems.size(config.expert_tensor_parallel, 1, most_ranks));
  read_dispatcher(config, problems, result);
  read_exchange_overlap(config, result.layout);
  read_capacity(config, problems, result);
  if (!config.grouped_products.value_or(false))
    result.notes.push_back(
        {"moe-grouped-gemm", "the products of a rank's experts are modelled as grouped"});
  if (config.flex_backend.value_or("") == "ncclep")
    result.notes.push_back({"moe-flex-dispatcher-backend", "ncclep is modelled as hybridep"});
  if (!config.fused_permutation.value_or(false))
    result.notes.push_back({"moe-permute-fusion", "tokens are modelled as moved by fused kernels"});
}

}  // namespace sim
