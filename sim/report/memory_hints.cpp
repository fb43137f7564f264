#include "sim/report/memory_hints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>

#include "sim/framework/chunked_loss.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/report/stage_memory.hpp"

namespace sim {
namespace {

// Capabilities of the software of a framework, beyond what layout_problems refuses.
struct Capabilities {
  FrameworkName name;
  bool tensor, pipeline, context;
  bool stages_1_and_2;  // of ZeRO; FSDP shards everything or nothing
  bool chunked_loss;    // Liger's kernel, with Hugging Face's trainers and NeMo Automodel
  bool loss_chunks;     // torchtitan, ChunkedLossWrapper
  bool tiles;           // DeepSpeed's TiledMLP, which axolotl sets for its trainers
  bool operators;       // recomputation by operators (torchtitan, activation_checkpoint.mode)
  bool activations, optimizer, parameters;  // on the host
};
// Megatron-LM: arguments.py (--context-parallel-size, --cpu-offloading-num-layers,
// --optimizer-cpu-offload). PyTorch with accelerate's plugins: ParallelismConfig,
// fsdp_offload_params, offloaded checkpoints (utils/dataclasses.py). transformers: Trainer under
// DDP. torchtitan: config/job_config.py (enable_cpu_offload). DeepSpeed: runtime/config.py
// (zero_optimization, activation_checkpointing.cpu_checkpointing).
constexpr std::array capabilities{
    Capabilities{FrameworkName::megatron, true, true, true, true, false, false, false, false, true,
                 true, false},
    Capabilities{FrameworkName::pytorch, true, false, true, false, true, false, true, false, true,
                 false, true},
    Capabilities{FrameworkName::transformers, false, false, false, false, true, false, true, false,
                 true, false, false},
    Capabilities{FrameworkName::scaling, true, true, false, true, false, false, false, false, false,
                 false, false},
    Capabilities{FrameworkName::torchtitan, true, true, true, false, false, true, false, true,
                 false, false, true},
    Capabilities{FrameworkName::deepspeed, false, true, false, true, true, false, true, false, true,
                 true, true},
    Capabilities{FrameworkName::megatron_deepspeed, true, true, false, true, false, false, false,
                 false, true, true, true},
};
static_assert(capabilities.size() == words_of(FrameworkName{}).size());

const Capabilities& capabilities_of(FrameworkName name) {
  return *std::find_if(capabilities.begin(), capabilities.end(),
                       [&](const Capabilities& one) { return one.name == name; });
}

// One change, as keys of the scenario.
struct Change {
  std::string text;
  std::function<void(Layout&)> edit = [](Layout&) {};
  bool chunks_loss = false;
};

// A job with some changes, and what it needs on the fullest GPU.
struct Tried {
  std::vector<std::string> texts;
  Layout layout;
  bool chunks_loss = false;
  Bytes total{};
};

class Hints {
 public:
  Hints(const Model& model, FrameworkName framework, const Layout& given, const Cluster& cluster)
      : model_{model},
        chunked_{model},
        framework_{framework},
        has_{capabilities_of(framework)},
        cluster_{cluster},
        capacity_{cluster.device().memory} {
    run_with_chunked_loss(chunked_);
    start_.layout = given;
    start_.chunks_loss = model.execution.chunks_logits;
    start_.total = total_of(start_);
  }

  std::vector<std::string> lines() {
    constexpr std::size_t most = 4;
    std::vector<Tried> tried = after(start_);
    std::stable_sort(tried.begin(), tried.end(), [&](const Tried& a, const Tried& b) {
      if (fits(a) || fits(b)) return fits(a) > fits(b);
      return a.total < b.total;
    });
    std::vector<std::string> lines;
    if (!tried.empty() && !fits(tried.front()))
      if (const std::optional<Tried> both = several(tried.front())) lines.push_back(line_of(*both));
    for (std::size_t i = 0; i < tried.size() && lines.size() < most; ++i)
      lines.push_back(line_of(tried[i]));
    if (lines.empty())
      lines.push_back(
          fmt::format("no change of the layout that {} can run lowers it", word(framework_)));
    return lines;
  }

 private:
  bool fits(const Tried& one) const { return one.total <= capacity_; }

  std::string line_of(const Tried& one) const {
    return fmt::format("{} -> {:.1f} GiB{}", fmt::join(one.texts, ", "), one.total.gib(),
                       fits(one) ? ", fits" : "");
  }

  // several() lowers the memory further, one change after the other, until it fits.
  std::optional<Tried> several(Tried now) const {
    constexpr int most_changes = 4;
    for (int changes = 1; changes < most_changes && !fits(now); ++changes) {
      const std::vector<Tried> next = after(now);
      if (next.empty()) break;
      const auto enough =
          std::find_if(next.begin(), next.end(), [&](const Tried& one) { return fits(one); });
      now = enough != next.end()
                ? *enough
                : *std::min_element(next.begin(), next.end(), [](const Tried& a, const Tried& b) {
                    return a.total < b.total;
                  });
    }
    if (now.texts.size() < 2) return std::nullopt;
    return now;
  }

  // Each change that lowers it.
  std::vector<Tried> after(const Tried& from) const {
    std::vector<Tried> lower;
    for (const Change& change : changes_of(from)) {
      Tried one = from;
      change.edit(one.layout);
      one.chunks_loss = from.chunks_loss || change.chunks_loss;
      one.texts.push_back(change.text);
      if (!layout_problems(one.layout, model_of(one)).empty()) continue;
      one.total = total_of(one);
      if (one.total < from.total) lower.push_back(std::move(one));
    }
    return lower;
  }

  const Model& model_of(const Tried& one) const { return one.chunks_loss ? chunked_ : model_; }

  Bytes total_of(const Tried& one) const {
    Bytes total{};
    const Plan plan = make_plan(model_of(one), one.layout);
    for (const StageMemory& stage : stage_memory(plan, cluster_))
      total = std::max(total, stage.total);
    return total;
  }

  // In the order of the time that they cost.
  std::vector<Change> changes_of(const Tried& from) const {
    std::vector<Change> changes;
    add_kernels(from, changes);
    add_sharding(from.layout, changes);
    add_recomputation(from.layout, changes);
    add_host(from.layout, changes);
    add_parallelism(from.layout, changes);
    return changes;
  }

  void add_kernels(const Tried& from, std::vector<Change>& changes) const {
    const Layout& base = from.layout;
    if (!is_flash(base.attention))
      changes.push_back(
          {"layout.attention: flash", [](Layout& l) { l.attention = AttentionKernel::flash; }});
    if (has_.chunked_loss && !from.chunks_loss)
      changes.push_back({.text = "framework.loss: chunked", .chunks_loss = true});
    if (has_.loss_chunks && base.loss_chunks == 1)
      changes.push_back({"layout.loss_chunks: 8", [](Layout& l) { l.loss_chunks = 8; }});
    if (base.tensor_parallel > 1 && !base.sequence_parallel)
      changes.push_back(
          {"layout.sequence_parallel: true", [](Layout& l) { l.sequence_parallel = true; }});
  }

  // Stages 2 and 3 shard what a pipeline's micro-batches add up or read again and again: DeepSpeed
  // (runtime/pipe/engine.py) and Megatron-FSDP leave them to jobs without stages.
  bool has_stage(const Layout& base, int stage) const {
    if (stage == 1) return has_.stages_1_and_2;
    const bool alone = base.pipeline_parallel == 1 || framework_ == FrameworkName::torchtitan;
    return alone && (stage == 3 || has_.stages_1_and_2);
  }

  void add_sharding(const Layout& base, std::vector<Change>& changes) const {
    for (int stage = base.zero_stage + 1; stage <= 3 && base.replicas() > 1; ++stage)
      if (has_stage(base, stage))
        changes.push_back({fmt::format("layout.zero_stage: {}", stage),
                           [stage](Layout& l) { l.zero_stage = stage; }});
    if (base.zero_stage == 3 && !base.reshard_after_forward)
      changes.push_back({"layout.reshard_after_forward: true",
                         [](Layout& l) { l.reshard_after_forward = true; }});
    if (base.zero_stage > 0 && base.shard_ranks() < base.replicas())
      changes.push_back({"layout.shard_group: 0", [](Layout& l) { l.shard_group = 0; }});
    if (base.micro_batch > 1)
      changes.push_back({"layout.micro_batch: 1", [](Layout& l) { l.micro_batch = 1; }});
  }

  // As many pieces as make the tensors of one as wide as long, which is axolotl's default
  // (monkeypatch/tiled_mlp/patch.py).
  void add_tiles(const Layout& base, std::vector<Change>& changes) const {
    const std::int64_t held = base.sequence_length / base.context_parallel;
    if (!has_.tiles || base.mlp_tiles > 1 || model_.hidden == 0 || held < 2 * model_.hidden) return;
    const auto tiles =
        static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(held / model_.hidden)));
    changes.push_back(
        {fmt::format("layout.mlp_tiles: {}", tiles), [tiles](Layout& l) { l.mlp_tiles = tiles; }});
  }

  void add_recomputation(const Layout& base, std::vector<Change>& changes) const {
    add_tiles(base, changes);
    const bool none = base.recompute == Recompute::none;
    if (none && !is_flash(base.attention))
      changes.push_back(
          {"layout.recompute: selective", [](Layout& l) { l.recompute = Recompute::selective; }});
    for (const auto& module : words_of(RecomputeModule{})) {
      const bool is_there =
          std::any_of(model_.layers.begin(), model_.layers.end(),
                      [&](const Block& layer) { return has_module(layer, module.value); });
      const bool modules =
          none || (base.recompute == Recompute::selective && !base.recompute_modules.empty());
      if (!is_there || !modules || base.recomputes(module.value)) continue;
      changes.push_back(
          {fmt::format("layout.recompute: selective with recompute_modules: {}", module.text),
           [value = module.value](Layout& l) {
             l.recompute = Recompute::selective;
             l.recompute_modules.push_back(value);
           }});
    }
    if (none && has_.operators)
      changes.push_back(
          {"layout.recompute: operators", [](Layout& l) { l.recompute = Recompute::operators; }});
    if (base.recompute != Recompute::full || base.recompute_every > 1 || base.recompute_layers > 0)
      changes.push_back({"layout.recompute: full", [](Layout& l) {
                           l.recompute = Recompute::full;
                           l.recompute_every = 1;
                           l.recompute_layers = 0;
                           l.recompute_modules.clear();
                         }});
  }

  void add_host(const Layout& base, std::vector<Change>& changes) const {
    // Megatron-LM, core/transformer/transformer_config.py, __post_init__: neither with stages nor
    // with recomputation.
    const bool alone = base.pipeline_parallel == 1 && base.recompute == Recompute::none;
    if (has_.activations && !base.offloads_activations() &&
        (framework_ != FrameworkName::megatron || alone))
      changes.push_back({"layout.offload.activations: cpu",
                         [](Layout& l) { l.offload_activations = OffloadTarget::cpu; }});
    if (has_.optimizer && !base.offloads() && base.optimizer == OptimizerKind::adam)
      changes.push_back({"layout.offload.optimizer: cpu",
                         [](Layout& l) { l.offload_optimizer = OffloadTarget::cpu; }});
    if (has_.parameters && !base.offloads_parameters() && base.zero_stage == 3)
      changes.push_back({"layout.offload: {parameters: cpu, optimizer: cpu}", [](Layout& l) {
                           l.offload_parameters = l.offload_optimizer = OffloadTarget::cpu;
                         }});
  }

  void add_parallelism(const Layout& base, std::vector<Change>& changes) const {
    if (model_.has_experts() && base.replicas() % (2 * base.expert_parallel) == 0)
      changes.push_back({fmt::format("layout.expert_parallel: {}", base.expert_parallel * 2),
                         [](Layout& l) { l.expert_parallel *= 2; }});
    if (base.data_parallel % 2 != 0) return;
    const auto halves = [&](std::string_view key, int now, std::function<void(Layout&)> twice) {
      changes.push_back(
          {fmt::format("layout.{}: {}, data_parallel: {}", key, 2 * now, base.data_parallel / 2),
           [twice = std::move(twice)](Layout& l) {
             twice(l);
             l.data_parallel /= 2;
           }});
    };
    if (has_.context)
      halves("context_parallel", base.context_parallel, [](Layout& l) { l.context_parallel *= 2; });
    if (has_.tensor)
      halves("tensor_parallel", base.tensor_parallel, [](Layout& l) { l.tensor_parallel *= 2; });
    if (has_.pipeline)
      halves("pipeline_parallel", base.pipeline_parallel, [](Layout& l) {
        l.pipeline_parallel *= 2;
        l.layers_per_chunk.clear();
      });
  }

  const Model& model_;
  Model chunked_;
  FrameworkName framework_;
  const Capabilities& has_;
  const Cluster& cluster_;
  Bytes capacity_;
  Tried start_;
};

}  // namespace

std::vector<std::string> memory_hints(const Model& model, FrameworkName framework,
                                      const Layout& layout, const Cluster& cluster) {
  return Hints{model, framework, layout, cluster}.lines();
}

}  // namespace sim
