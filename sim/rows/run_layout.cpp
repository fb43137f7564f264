// The layout of a row: what its columns say, the preset of its framework, and keys.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/config/scalars.hpp"
#include "sim/model/transformer.hpp"
#include "sim/rows/row_keys.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"
#include "sim/scenario/read/read_layout.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

// torchtitan's recomputation, operator by operator.
bool recomputes_operators(const RunCells& cells) {
  const std::string text = lower_case(cells["recompute"]);
  return contains(text, "per-op") || contains(text, "torchtitan default");
}

// The word that a cell begins with, among `words`.
template <class Enum>
std::optional<Enum> leading_word(std::string_view text) {
  const std::string lower = lower_case(text);
  for (const auto& entry : words_of(Enum{}))
    if (lower.starts_with(entry.text)) return entry.value;
  return std::nullopt;
}

DType precision_of(const RunCells& cells) {
  const std::string_view text = cells["precision"];
  if (const std::optional<DType> found = leading_word<DType>(text)) return *found;
  if (text.empty()) throw NotSimulated("precision is empty");
  std::string allowed;
  for (const auto& entry : words_of(DType{}))
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", entry.text);
  throw NotSimulated(fmt::format(
      "precision is '{}', which is not known; allowed: {}, with a remark", text, allowed));
}

Schedule schedule_of(const RunCells& cells, int virtual_stages) {
  const std::string_view text = cells["pp_schedule"];
  const std::optional<Schedule> named = leading_word<Schedule>(text);
  if (named && (splits_backward(*named) || named == Schedule::gpipe)) return *named;
  const bool none = lower_case(text) == "none" && needed(cells, "pp") == 1;
  if (!text.empty() && !none && !contains(lower_case(text), "1f1b"))
    throw NotSimulated(fmt::format(
        "pp_schedule is '{}', which is not known; allowed: 1F1B, interleaved 1F1B, gpipe, zb-h1, "
        "zb-v, v-half, v-min, interleaved-zb, dualpipe-v",
        text));
  return virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
}

void set_parallelism(const RunCells& cells, Layout& layout) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t tensor = needed(cells, "tp");
  const std::int64_t context = needed(cells, "cp", 1);
  const std::int64_t pipeline = needed(cells, "pp");
  const std::int64_t gpus = needed(cells, "num_gpus");
  if (tensor > most || context > most || pipeline > most || gpus > most ||
      tensor * context > most || tensor * context * pipeline > most)
    throw NotSimulated(fmt::format("more than {} GPUs", most));
  // Where dp is empty, it is what the GPUs leave.
  const std::int64_t data =
      needed(cells, "dp", std::max<std::int64_t>(1, gpus / (tensor * context * pipeline)));
  if (data > most || tensor * context * pipeline * data > most)
    throw NotSimulated(fmt::format("more than {} GPUs", most));
  layout.tensor_parallel = static_cast<int>(tensor);
  layout.context_parallel = static_cast<int>(context);
  layout.pipeline_parallel = static_cast<int>(pipeline);
  layout.data_parallel = static_cast<int>(data);
  layout.virtual_stages = static_cast<int>(std::min(most, needed(cells, "vpp", 1)));
  layout.expert_parallel = static_cast<int>(std::min(most, needed(cells, "ep", 1)));
  layout.expert_tensor_parallel = static_cast<int>(std::min(most, cells.whole("etp").value_or(0)));
  // A row that was computed and not run may be for one replica of several.
  if (layout.world_size() != gpus)
    throw NotSimulated(fmt::format("tp {} x cp {} x pp {} x dp {} is {} GPUs, num_gpus is {}",
                                   tensor, context, pipeline, data, layout.world_size(), gpus));
  layout.schedule = schedule_of(cells, layout.virtual_stages);
  const std::string overlap = lower_case(cells["overlap"]);
  if (context > 1 && contains(overlap, "cp a2a"))
    layout.context_exchange = ContextExchange::all_to_all;
  if (context > 1 && contains(overlap, "cp all-gather"))
    layout.context_exchange = ContextExchange::all_gather;
}

// "4 5 5 4": the layers of the chunks in the order in which a micro-batch goes through them.
std::vector<int> listed_layers(const RunCells& cells) {
  std::vector<int> layers;
  std::istringstream words{std::string{cells["layers_per_chunk"]}};
  for (std::string text; words >> text;) {
    const auto parsed = parse_integer(text, true);
    const auto* value = std::get_if<std::int64_t>(&parsed);
    if (!value || *value < 0 || *value > transformer_limits::layers)
      throw NotSimulated(
          fmt::format("layers_per_chunk is '{}'; allowed: numbers of layers, up to {}, with spaces",
                      cells["layers_per_chunk"], transformer_limits::layers));
    layers.push_back(static_cast<int>(*value));
  }
  return layers;
}

// Where layers do not divide over the model chunks, embedding and loss count as a layer each
// (Megatron-LM, account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split,
// which NVIDIA's recipes for the 126 layers of Llama 3.1 405B set).
void set_split(const RunCells& cells, Layout& layout) {
  layout.layers_per_chunk = listed_layers(cells);
  if (!layout.layers_per_chunk.empty()) return;
  const std::int64_t layers = needed(cells, "layers");
  const std::int64_t chunks = layout.chunks();
  if (layers % chunks == 0 || (layers + 2) % chunks != 0) return;
  layout.layers_per_chunk.assign(static_cast<std::size_t>(chunks),
                                 static_cast<int>((layers + 2) / chunks));
  --layout.layers_per_chunk.front();
  --layout.layers_per_chunk.back();
}

// Megatron-LM's selective recomputation takes a list of modules; the core of the attention is what
// it was made for, and what it does without a list.
Recompute recompute_of(const RunCells& cells) {
  if (recomputes_operators(cells)) return Recompute::operators;
  const std::string text = lower_case(cells["recompute"]);
  if (text == "core_attn") return Recompute::selective;
  if (const std::optional<Recompute> found = leading_word<Recompute>(text)) return *found;
  throw NotSimulated(
      text.empty() ? "recompute is empty"
                   : fmt::format("recompute is '{}', which is not known; allowed: none, selective "
                                 "or core_attn, full, per-op",
                                 cells["recompute"]));
}

void set_recomputation(const RunCells& cells, Layout& layout) {
  // Megatron-LM, --recompute-method block: only some of a stage's layers.
  if (contains(lower_case(cells["recompute"]), "block"))
    throw NotSimulated(
        fmt::format("recompute is '{}': recomputing a part of a stage's layers is not modelled",
                    cells["recompute"]));
  layout.recompute = recompute_of(cells);
  // torchtitan's selective_ac_option with a number: "full, every 2 layers".
  if (const auto every = number_behind(lower_case(cells["recompute"]), "every "))
    layout.recompute_every = *every;
}

AttentionKernel attention_of(const RunCells& cells) {
  const std::string text = lower_case(cells["attn_kernel"]);
  // Rows without a kernel were computed before flash attention existed; runs say what they ran.
  if (text.empty() && cells["status"].starts_with("analytic")) return AttentionKernel::unfused;
  if (text.empty()) throw NotSimulated("attn_kernel is empty");
  // "torch" and "fused" (Megatron's softmax kernel) are the kernels of Hagemann et al. beside
  // flash.
  if (contains(text, "unfused") || contains(text, "no flash") || text == "torch" || text == "fused")
    return AttentionKernel::unfused;
  if (contains(text, "cudnn")) return AttentionKernel::flash;
  // FlashAttention 1 and the Triton kernel of that time.
  if (contains(text, "flash_attentionv1") || contains(text, "triton"))
    return AttentionKernel::flash_1;
  // PyTorch and flash-attn run FlashAttention-2 on Hopper; on Ampere it is the fastest there is.
  if (contains(text, "flash")) return AttentionKernel::flash_2;
  if (contains(text, "fused softmax")) return AttentionKernel::unfused;
  throw NotSimulated(fmt::format("attn_kernel is '{}', which is not known", cells["attn_kernel"]));
}

// Gradients are stored and reduced in the activations' format unless the row says otherwise. FSDP
// reduces in fp32 unless told not to (llm-foundry: mixed_precision PURE is bf16 throughout).
void set_formats(const RunCells& cells, Layout& layout) {
  layout.compute_dtype = precision_of(cells);
  layout.activation_dtype = DType::bf16;
  if (layout.compute_dtype == DType::fp16) layout.activation_dtype = DType::fp16;
  if (layout.compute_dtype == DType::fp32 || layout.compute_dtype == DType::tf32)
    layout.activation_dtype = DType::fp32;
  layout.master_weights = layout.activation_dtype != DType::fp32;
  // NVIDIA's recipes with Transformer Engine (NeMo, fp8_params).
  const std::string precision = lower_case(cells["precision"]);
  layout.eight_bit_parameters =
      is_quantized(layout.compute_dtype) &&
      (contains(precision, "te hybrid") || contains(precision, "fp8 parameters") ||
       contains(precision, "fp4 parameters") || contains(precision, "float8 all-gather"));
  layout.gradient_dtype = layout.reduce_dtype = layout.activation_dtype;
  const std::string strategy = lower_case(cells["shard_strategy"]);
  if (is_torch_fsdp(strategy) && !contains(strategy, "pure")) layout.reduce_dtype = DType::fp32;
  if (contains(precision, "fp32 gradients"))
    layout.gradient_dtype = layout.reduce_dtype = DType::fp32;
  // Korthikanti et al. count 18 bytes per parameter: fp32 gradients (analytic rows are theirs).
  if (cells["status"].starts_with("analytic")) layout.gradient_dtype = DType::fp32;
}

void set_sharding(const RunCells& cells, Layout& layout) {
  const bool sharded_optimizer = truth(cells, "dist_optimizer").value_or(false);
  const std::int64_t stage = cells.whole("zero_stage").value_or(sharded_optimizer ? 1 : 0);
  if (stage > 3) throw NotSimulated(fmt::format("zero_stage is {}; allowed: 0 to 3", stage));
  layout.zero_stage = static_cast<int>(stage);
  // Switched on without a tensor split, sequence parallelism does nothing.
  layout.sequence_parallel =
      truth(cells, "seq_parallel").value_or(false) && layout.tensor_parallel > 1;
  const std::string strategy = lower_case(cells["shard_strategy"]);
  if (!contains(strategy, "hybrid") && !contains(strategy, "hsdp")) return;
  const std::optional<int> group = number_behind(strategy, "groups of ");
  if (!group) throw NotSimulated("hybrid sharding without the size of its groups");
  layout.shard_group = *group;
}

// Megatron-LM: interleaved schedules only, by a flag. The authors of ZB-H1 post every message ahead
// of its use (Qi et al. 2024, section 5).
bool sends_beside_compute(Schedule schedule, bool modern, std::string_view overlap) {
  if (splits_backward(schedule)) return true;
  return schedule == Schedule::interleaved && (modern || contains(overlap, "overlap_p2p_comm")) &&
         !contains(overlap, "overlap_p2p_comm false");
}

// Gradients are reduced behind the last backward pass.
bool gradients_wait(std::string_view overlap) {
  for (const char* words :
       {"no bucketed", "gradients not overlapped", "gradients and parameters not overlapped"})
    if (contains(overlap, words)) return true;
  return contains(overlap, "not overlapped") && !contains(overlap, "parameters not overlapped");
}

// set_overlap() follows the column `overlap` where it speaks; else the generation decides: a
// sharded optimizer came to Megatron-LM in 2022, with the tensor-parallel reduction beside the
// weight gradient, and messages beside compute in interleaved schedules. Stages without virtual
// ones always wait for their messages. PyTorch's tensor parallelism overlaps only when AsyncTP.
void set_overlap(const RunCells& cells, Layout& layout) {
  const std::string text = lower_case(cells["overlap"]);
  const bool fsdp = is_torch_fsdp(cells["shard_strategy"]);
  const bool modern = truth(cells, "dist_optimizer").value_or(false) || layout.zero_stage > 0;
  layout.overlap_gradients = !gradients_wait(text);
  layout.overlap_parameters = !contains(text, "parameters not overlapped");
  layout.overlap_pipeline = sends_beside_compute(layout.schedule, modern, text);
  layout.overlap_tensor_wgrad = contains(text, "weight-grad") || (!fsdp && modern);
  layout.overlap_tensor_products =
      contains(text, fsdp ? "asynctp" : "userbuffers") && layout.sequence_parallel;
}

// DeepSpeed's overlap_comm, which it has for ZeRO-1 and 2 where a job asks for it.
bool asks_for_overlap(std::string_view overlap) {
  return contains(overlap, "overlap_comm") && !contains(overlap, "overlap_comm false");
}

// Keys of the section `layout` that the cells speak of; the others are the preset's. Of what
// overlaps, the generation speaks where the framework is not named (set_overlap).
std::set<std::string_view> said_keys(const RunCells& cells, const Preset& preset) {
  const bool analytic = cells["status"].starts_with("analytic");
  const std::string precision = lower_case(cells["precision"]);
  const std::string overlap = lower_case(cells["overlap"]);
  std::set<std::string_view> said{"recompute", "attention", "schedule", "global_batch",
                                  "activation_dtype"};
  const auto add = [&](bool is_said, std::initializer_list<std::string_view> keys) {
    if (is_said) said.insert(keys);
  };
  add(analytic || contains(precision, "gradients"), {"gradient_dtype", "reduce_dtype"});
  add(is_torch_fsdp(cells["shard_strategy"]), {"reduce_dtype"});
  add(contains(precision, "te hybrid") || contains(precision, "parameters") ||
          contains(precision, "float8 all-gather"),
      {"fp8_parameters"});
  add(analytic || !cells["zero_stage"].empty() || !cells["dist_optimizer"].empty(), {"zero_stage"});
  add(!cells["seq_parallel"].empty(), {"sequence_parallel"});
  add(contains(overlap, "cp a2a") || contains(overlap, "cp all-gather"), {"context_exchange"});
  const std::optional<Schedule> schedule = leading_word<Schedule>(cells["pp_schedule"]);
  add(schedule && splits_backward(*schedule), {"overlap.pipeline"});
  add(!overlap.empty() || cells.is_read_from_words || !preset.fills_scenarios(),
      {"overlap.gradients", "overlap.parameters", "overlap.pipeline", "overlap.tensor_wgrad",
       "overlap.tensor_products"});
  const FrameworkName name = preset.framework.name;
  const bool deepspeed =
      name == FrameworkName::deepspeed || name == FrameworkName::megatron_deepspeed;
  if (deepspeed && !asks_for_overlap(overlap) && !gradients_wait(overlap))
    said.erase("overlap.gradients");
  return said;
}

}  // namespace

Layout run_layout(const RunCells& cells) {
  const Preset& preset = run_preset(cells);
  LayoutBase base{.layout = {}, .said = said_keys(cells, preset)};
  Layout& layout = base.layout;
  const auto has_key = [&](const char* key) { return cells.keys.contains(key); };
  set_parallelism(cells, layout);
  set_split(cells, layout);
  layout.sequence_length = needed(cells, "seq_len");
  layout.micro_batch = needed(cells, "mbs");
  layout.global_batch = needed(cells, "gbs");
  if (!has_key("layout.recompute")) set_recomputation(cells, layout);
  if (!has_key("layout.attention")) layout.attention = attention_of(cells);
  set_formats(cells, layout);
  set_sharding(cells, layout);
  if (base.said.contains("overlap.gradients") || base.said.contains("overlap.parameters"))
    set_overlap(cells, layout);
  const ScenarioSources keys = sources_of(assignments_of(cells, "layout"));
  const Layered section = keys.top().section("layout");
  LayoutText text = read_layout(section, run_framework(cells).execution, preset, base);
  spread_layers(text, static_cast<int>(needed(cells, "layers")), section, text.layout);
  if (preset.split) split_as_preset(preset, run_model(cells), section, text);
  finish_row(keys);
  return text.layout;
}

}  // namespace sim
