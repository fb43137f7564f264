// Compressed gradients and parameters (Layout::compression): which go with what.
#include <utility>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

class CompressionChecker {
 public:
  CompressionChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (layout_.compression != GradientCompression::none) gradients();
    parameters();
    two_levels();
    parameters_of_schemes();
    if (compresses()) others();
  }

 private:
  bool quantizes() const {
    return layout_.compression == GradientCompression::int8 ||
           layout_.compression == GradientCompression::int4;
  }
  bool compresses() const {
    return layout_.compression != GradientCompression::none || layout_.quantized_weights ||
           layout_.secondary_shard;
  }

  void gradients() {
    const std::string_view scheme = word(layout_.compression);
    if (quantizes() && layout_.zero_stage != 3)
      list_.problem("compression.gradients",
                    "compression.gradients is {} with zero_stage {}; allowed: zero_stage 3 (ZeRO++ "
                    "reduces to shards), or top_k, random_k, power_sgd, one_bit, one_bit_lamb",
                    scheme, layout_.zero_stage);
    if (!quantizes() && layout_.zero_stage != 0)
      list_.problem("compression.gradients",
                    "compression.gradients is {} with zero_stage {}; allowed: zero_stage 0 (every "
                    "rank keeps all gradients), or int8, int4 with zero_stage 3",
                    scheme, layout_.zero_stage);
    if (layout_.reduce_dtype != layout_.gradient_dtype)
      list_.problem("reduce_dtype",
                    "reduce_dtype is {} and gradient_dtype {}; allowed with compression.gradients "
                    "{}: the same",
                    word(layout_.reduce_dtype), word(layout_.gradient_dtype), scheme);
    if (layout_.compression == GradientCompression::one_bit &&
        layout_.optimizer != OptimizerKind::adam)
      list_.problem("compression.gradients",
                    "compression.gradients is one_bit with optimizer {}; allowed: adam, whose "
                    "momentum it sends",
                    word(layout_.optimizer));
    if (layout_.compression == GradientCompression::one_bit_lamb &&
        layout_.optimizer != OptimizerKind::lamb)
      list_.problem("compression.gradients",
                    "compression.gradients is one_bit_lamb with optimizer {}; allowed: lamb, whose "
                    "momentum it sends",
                    word(layout_.optimizer));
  }

  void parameters() {
    for (const auto& [on, key] :
         {std::pair{layout_.quantized_weights, "compression.quantized_weights"},
          std::pair{layout_.secondary_shard, "compression.secondary_shard"}}) {
      if (on && layout_.zero_stage != 3)
        list_.problem(key, "{} needs zero_stage 3, where parameters are gathered; it is {}", key,
                      layout_.zero_stage);
    }
    if (layout_.quantized_weights && layout_.eight_bit_parameters)
      list_.problem("compression.quantized_weights",
                    "compression.quantized_weights and fp8_parameters both gather parameters in 8 "
                    "bits; allowed: one of them");
    if (layout_.secondary_shard && !layout_.reshard_after_forward)
      list_.problem("compression.secondary_shard",
                    "compression.secondary_shard is for the backward pass, but with "
                    "reshard_after_forward false parameters are not gathered again");
  }

  void two_levels() {
    const int ranks = layout_.node_ranks, replicas = layout_.replicas();
    if (layout_.secondary_shard && ranks == 0)
      list_.problem("compression.node_ranks",
                    "compression.secondary_shard needs compression.node_ranks: the data-parallel "
                    "GPUs of a node, one of {}",
                    LayoutProblemList::divisors_of({replicas}));
    if (ranks == 0) return;
    if (!layout_.secondary_shard && !quantizes())
      list_.problem("compression.node_ranks",
                    "compression.node_ranks is {}, but neither compression.gradients int8 or int4 "
                    "nor compression.secondary_shard uses it; allowed: 0",
                    ranks);
    if (replicas % ranks != 0)
      list_.problem("compression.node_ranks",
                    "compression.node_ranks is {}, which does not divide the {} data-parallel "
                    "ranks; allowed: {}, or 0",
                    ranks, replicas, LayoutProblemList::divisors_of({replicas}));
    if (layout_.shard_group > 0)
      list_.problem("shard_group",
                    "shard_group is {} with compression.node_ranks {}; allowed: 0, all ranks share "
                    "one copy",
                    layout_.shard_group, ranks);
  }

  void parameters_of_schemes() {
    const Layout usual;
    const bool selects = layout_.compression == GradientCompression::top_k ||
                         layout_.compression == GradientCompression::random_k;
    if (!(layout_.compression_density > 0 && layout_.compression_density <= 1))
      list_.problem("compression.density",
                    "compression.density is {}; allowed: more than 0, up to 1",
                    layout_.compression_density);
    else if (!selects && layout_.compression_density != usual.compression_density)
      list_.problem("compression.density",
                    "compression.density is for top_k and random_k; compression.gradients is {}",
                    word(layout_.compression));
    if (layout_.compression_rank < 1)
      list_.problem("compression.rank", "compression.rank is {}; allowed: 1 or more",
                    layout_.compression_rank);
    else if (layout_.compression != GradientCompression::power_sgd &&
             layout_.compression_rank != usual.compression_rank)
      list_.problem("compression.rank",
                    "compression.rank is for power_sgd; compression.gradients is {}",
                    word(layout_.compression));
  }

  void others() {
    if (model_.has_experts())
      list_.problem("compression.gradients",
                    "compression is not modelled with a mixture of experts; allowed: "
                    "compression.gradients none");
    if (layout_.zero_stage == 3 && layout_.pipeline_parallel > 1)
      list_.problem("pipeline_parallel",
                    "pipeline_parallel is {} with compressed ZeRO-3; allowed: 1",
                    layout_.pipeline_parallel);
    if (layout_.zero_stage == 3 && layout_.shard_group > 0 && layout_.node_ranks == 0)
      list_.problem("shard_group", "shard_group is {}; allowed with compressed ZeRO-3: 0",
                    layout_.shard_group);
    const Execution& runs = model_.execution;
    if (runs.gradient_buckets == GradientBuckets::copied || runs.flat_parameters)
      list_.problem("framework",
                    "compression is not modelled with framework.gradient_buckets copied or "
                    "flat_parameters; allowed: framework pytorch, deepspeed, megatron, torchtitan");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_compression(const Layout& layout, const Model& model, LayoutProblemList& list) {
  CompressionChecker{layout, model, list}.run();
}

}  // namespace sim
