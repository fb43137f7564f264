// Checks of a layout: layers that differ, scans and sparse attention.
#include <string_view>
#include <utility>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

class HybridChecker {
 public:
  HybridChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (!model_.shape) return;
    sparse_attention();
    if (!model_.is_hybrid()) return;
    merged_passes();
    if (!model_.has_scan()) return;
    for (const Block* layer : model_.layers_of_each_kind())
      for (const ModelOp& op : layer->ops)
        if (op.scan) heads(op);
    scans();
  }

 private:
  // Megatron-LM, core/ssm/mamba_mixer.py and mamba_context_parallel.py: "nheads must be evenly
  // divisible by tp_size * cp_size", "ngroups must be evenly divisible by tp_size", and a context
  // rank has whole groups or a part of one. gated_delta_net/common.py the same of its heads.
  void heads(const ModelOp& op) {
    const ScanShape& scan = *op.scan;
    const std::int64_t t = layout_.tensor_parallel, c = layout_.context_parallel;
    if (scan.heads % t != 0 || scan.groups % t != 0)
      return list_.problem("tensor_parallel",
                           "tensor_parallel is {}, which does not divide the {} heads and {} "
                           "groups of {}; allowed: {}",
                           t, scan.heads, scan.groups, op.name,
                           LayoutProblemList::divisors_of({scan.heads, scan.groups}));
    const std::int64_t groups = scan.groups / t;
    const bool whole = c <= groups ? groups % c == 0 : c % groups == 0;
    if (scan.heads / t % c == 0 && whole) return;
    list_.problem("context_parallel",
                  "context_parallel is {}: the {} heads in {} groups that a tensor rank has of {} "
                  "do not divide over as many ranks; allowed: {}",
                  c, scan.heads / t, groups, op.name,
                  LayoutProblemList::divisors_of({scan.heads / t}));
  }

  // transformers has the kernels that Megatron-LM has (models/qwen3_next, nemotron_h, falcon_h1),
  // under data parallelism alone. NeMo Automodel's models at 36044ad3 run them, too
  // (components/models/qwen3_5_moe/cp_linear_attn.py, nemotron_v3/layers.py); its context
  // parallelism of them is not modelled. torchtitan at b5bcd76c has gated delta nets
  // (models/qwen3_5/gdn.py), whose heads tensor ranks divide, and no context parallelism of them
  // (models/qwen3_5/parallelize.py).
  void scans() {
    const Execution& runs = model_.execution;
    // The experts of transformers 5 run as torchtitan's do.
    const bool titan = runs.bucket_rule == BucketRule::torchtitan;
    if (model_.shape->hybrid.kinds().front().mixer == Mixer::attention_mamba2 &&
        (runs_as_megatron(runs) || titan))
      return list_.problem("framework",
                           "{} has attention and Mamba-2 side by side, which is modelled as "
                           "transformers runs it; allowed: framework pytorch, transformers",
                           model_.name);
    if (runs_as_megatron(runs)) return as_megatron("a scan", "megatron");
    if (titan && model_.shape->hybrid.has(Mixer::mamba2))
      return list_.problem("framework",
                           "torchtitan has no Mamba-2, as {} has it; allowed: framework megatron, "
                           "pytorch, transformers",
                           model_.name);
    if (layout_.recompute == Recompute::operators)
      list_.problem("recompute",
                    "recompute is operators; allowed with a scan: none, selective, full");
    for (const auto& [key, ranks] : {std::pair{"tensor_parallel", layout_.tensor_parallel},
                                     std::pair{"context_parallel", layout_.context_parallel}})
      if (ranks > 1 && !(titan && key == std::string_view{"tensor_parallel"}))
        list_.problem(key,
                      "{} is {}, but scans are modelled whole on every GPU of this framework; "
                      "allowed: 1, or framework megatron",
                      key, ranks);
  }

  void as_megatron(const char* what, const char* frameworks) {
    const bool told = model_.has_experts() && !runs_as_torchtitan(model_.execution);
    if (!runs_as_megatron(model_.execution) && !told)
      list_.problem("framework",
                    "{} is not modelled as this framework runs it; allowed: framework {}", what,
                    frameworks);
    if (layout_.recompute == Recompute::operators && !told)
      list_.problem("recompute", "recompute is operators; allowed with {}: none, selective, full",
                    what);
  }

  // Their pieces are those of a layer of attention and experts.
  void merged_passes() {
    if (layout_.overlap_expert_exchange)
      list_.problem("overlap.expert_exchange",
                    "overlap.expert_exchange is not modelled for layers that differ, as those of "
                    "{}; allowed: false",
                    model_.name);
  }

  // The indexer is whole on every tensor rank, which gathers what it reads (absorbed_mla.py:
  // "AbsorbedMLA requires sequence_parallel").
  void sparse_attention() {
    if (!model_.shape->sparse.exists()) return;
    if (layout_.tensor_parallel > 1 && !layout_.sequence_parallel)
      list_.problem("sequence_parallel",
                    "sequence_parallel is false with tensor_parallel {}, but {} has sparse "
                    "attention, with which Megatron-LM needs it; allowed: true",
                    layout_.tensor_parallel, model_.name);
    // dsa.py, DSAttention.forward: "currently supports cp_comm_type=allgather only".
    if (layout_.context_parallel > 1 && layout_.context_exchange != ContextExchange::all_gather)
      list_.problem("context_exchange",
                    "context_exchange is {}, but {} has sparse attention, for which Megatron-LM "
                    "has cp_comm_type allgather alone; allowed: all_gather",
                    word(layout_.context_exchange), model_.name);
    as_megatron("sparse attention", "megatron");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_hybrid_layers(const Layout& layout, const Model& model, LayoutProblemList& list) {
  HybridChecker{layout, model, list}.run();
}

}  // namespace sim
