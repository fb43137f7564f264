// Groups of ranks that train apart (Layout::local_steps).
#include <utility>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

class LocalStepsChecker {
 public:
  LocalStepsChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (!layout_.trains_apart()) return without();
    groups();
    meetings();
    outer();
    others();
  }

 private:
  static std::string proper_divisors(int of) {
    std::string text = LayoutProblemList::divisors_of({of});
    const std::string last = fmt::format(", {}", of);
    if (text.ends_with(last)) text.resize(text.size() - last.size());
    return text;
  }

  void without() {
    Layout usual;
    usual.local_steps = layout_.local_steps;
    const bool set =
        layout_.local_ranks != usual.local_ranks || layout_.outer != usual.outer ||
        layout_.outer_rate != usual.outer_rate || layout_.outer_momentum != usual.outer_momentum ||
        layout_.outer_dtype != usual.outer_dtype ||
        layout_.outer_fragments != usual.outer_fragments ||
        layout_.outer_overlap != usual.outer_overlap || layout_.outer_mix != usual.outer_mix ||
        layout_.outer_quantization != usual.outer_quantization ||
        layout_.outer_on_host != usual.outer_on_host;
    if (set)
      list_.problem("local_steps.every",
                    "local_steps.every is {}: all ranks reduce their gradients at each step, but "
                    "another key of local_steps is set; allowed: 2 or more",
                    layout_.local_steps);
  }

  void groups() {
    const int ranks = layout_.local_ranks, replicas = layout_.replicas();
    if (replicas == 1)
      list_.problem("local_steps.every",
                    "local_steps.every is {}, but there is one replica: it meets nobody",
                    layout_.local_steps);
    else if (ranks < 1 || replicas % ranks != 0 || ranks == replicas)
      list_.problem("local_steps.ranks",
                    "local_steps.ranks is {}: it divides the {} data-parallel ranks, and is less; "
                    "allowed: {}",
                    ranks, replicas, proper_divisors(replicas));
    else if (ranks % layout_.context_parallel != 0)
      list_.problem("local_steps.ranks",
                    "local_steps.ranks is {}: the {} context-parallel ranks of a sequence train "
                    "together; allowed: multiples of {}",
                    ranks, layout_.context_parallel, layout_.context_parallel);
    if (ranks > 1 && layout_.zero_stage == 0)
      list_.problem("zero_stage",
                    "zero_stage is 0 with local_steps.ranks {}; allowed: 1, 2, 3, so that each "
                    "rank of a group sends a shard of its own",
                    ranks);
    if (layout_.shard_group > 0)
      list_.problem("shard_group",
                    "shard_group is {} with local_steps; allowed: 0, a group shares one copy",
                    layout_.shard_group);
  }

  void meetings() {
    const int most = layout_.local_steps / std::max(1, layout_.outer_fragments);
    if (layout_.outer_fragments < 1 || layout_.outer_fragments > layout_.local_steps)
      list_.problem("local_steps.fragments",
                    "local_steps.fragments is {}; allowed: 1 to local_steps.every, {}",
                    layout_.outer_fragments, layout_.local_steps);
    else if (layout_.outer_overlap < 0 || layout_.outer_overlap > most)
      list_.problem("local_steps.overlap",
                    "local_steps.overlap is {}; allowed: 0 to {}, the steps between two meetings",
                    layout_.outer_overlap, most);
    const DType wire = layout_.outer_dtype;
    if (wire != DType::fp32 && wire != DType::bf16 && wire != DType::fp16 && wire != DType::fp8)
      list_.problem("local_steps.wire", "local_steps.wire is {}; allowed: fp32, bf16, fp16, fp8",
                    word(wire));
    if (layout_.outer_quantization != OuterQuantization::none && wire != DType::fp32)
      list_.problem("local_steps.wire",
                    "local_steps.wire is {} with local_steps.quantization {}; allowed: one of them",
                    word(wire), word(layout_.outer_quantization));
  }

  void outer() {
    const Layout usual;
    if (!(layout_.outer_rate > 0 && layout_.outer_momentum >= 0 && layout_.outer_momentum < 1))
      list_.problem("local_steps.rate",
                    "local_steps.rate is {} and momentum {}; allowed: a rate above 0, a momentum "
                    "from 0 to less than 1",
                    layout_.outer_rate, layout_.outer_momentum);
    if (layout_.outer == OuterOptimizer::average &&
        (layout_.outer_rate != usual.outer_rate || layout_.outer_momentum != usual.outer_momentum))
      list_.problem("local_steps.outer",
                    "local_steps.rate and momentum are for nesterov; local_steps.outer is average");
    if (layout_.outer == OuterOptimizer::average &&
        layout_.outer_quantization != OuterQuantization::none)
      list_.problem("local_steps.quantization",
                    "local_steps.quantization is of outer gradients; local_steps.outer is average, "
                    "whose ranks send parameters; allowed: nesterov");
    if (layout_.outer == OuterOptimizer::average && layout_.outer_on_host)
      list_.problem("local_steps.on_host",
                    "local_steps.on_host is for the state of nesterov; local_steps.outer is "
                    "average, which keeps none");
    if (!(layout_.outer_mix >= 0 && layout_.outer_mix < 1))
      list_.problem("local_steps.mix", "local_steps.mix is {}; allowed: 0 to less than 1",
                    layout_.outer_mix);
    if (layout_.outer_overlap == 0 && layout_.outer_mix != usual.outer_mix)
      list_.problem("local_steps.mix",
                    "local_steps.mix is for local_steps.overlap above 0: without it all "
                    "parameters are replaced");
  }

  void others() {
    if (model_.has_experts())
      list_.problem("local_steps.every",
                    "local steps are not modelled with a mixture of experts; allowed: 1");
    if (layout_.compression != GradientCompression::none || layout_.quantized_weights ||
        layout_.secondary_shard)
      list_.problem("compression.gradients",
                    "compression is not modelled with local_steps; allowed: one of them");
    if (layout_.offloads())
      list_.problem("offload.optimizer",
                    "offload.optimizer is {} with local_steps, which needs the states on the "
                    "device; allowed: none",
                    word(layout_.offload_optimizer));
    if (is_quantized(layout_.compute_dtype))
      list_.problem("compute_dtype",
                    "compute_dtype is {} with local_steps, which shares no scales between "
                    "groups; allowed: bf16, fp16, fp32",
                    word(layout_.compute_dtype));
    if (model_.execution.flat_parameters)
      list_.problem(
          "framework",
          "local steps are not modelled with framework.flat_parameters (PyTorch's first FSDP)");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_local_steps(const Layout& layout, const Model& model, LayoutProblemList& list) {
  LocalStepsChecker{layout, model, list}.run();
}

}  // namespace sim
