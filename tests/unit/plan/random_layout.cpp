#include "tests/unit/plan/random_layout.hpp"

#include <fmt/format.h>

#include "sim/base/random.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/unit/plan/models.hpp"

namespace sim::test {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_{seed} {}
  template <class Value>
  Value pick(std::initializer_list<Value> values) {
    const auto at =
        static_cast<std::size_t>(uniform(seed_, 1, draws_++) * static_cast<double>(values.size()));
    return *(values.begin() + at);
  }
  bool coin() { return pick({false, true}); }

 private:
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
};

// In one of three layouts that can have it.
void compress(Dice& dice, Layout& layout) {
  const bool shards = layout.zero_stage == 3 && layout.pipeline_parallel == 1;
  const bool none = dice.pick({true, true, false});
  if (none || layout.reduce_dtype != layout.gradient_dtype) return;
  if (layout.zero_stage == 0)
    layout.compression = dice.pick({GradientCompression::top_k, GradientCompression::random_k,
                                    GradientCompression::power_sgd, GradientCompression::one_bit});
  if (!shards) return;
  layout.shard_group = 0;
  layout.compression =
      dice.pick({GradientCompression::none, GradientCompression::int8, GradientCompression::int4});
  layout.quantized_weights = dice.coin() && !layout.eight_bit_parameters;
  layout.secondary_shard = dice.coin() && layout.reshard_after_forward;
  if (layout.secondary_shard || layout.compression != GradientCompression::none)
    layout.node_ranks = layout.secondary_shard ? 2 : dice.pick({0, 2});
}

// offload() draws what may lie on the host in any model.
void offload(Dice& dice, Layout& layout) {
  const bool activations = dice.coin(), some = dice.coin();
  if (activations && !splits_backward(layout.schedule) && !layout.cuts_products()) {
    layout.offload_activations = OffloadTarget::cpu;
    layout.offload_layers = some ? 1 : 0;
  }
  const bool parameters = dice.coin();
  const bool alone = layout.pipeline_parallel == 1 && layout.tensor_parallel == 1;
  const bool compressed = layout.compression != GradientCompression::none ||
                          layout.quantized_weights || layout.secondary_shard;
  if (!parameters || layout.zero_stage != 3 || !alone || compressed || layout.eight_bit_parameters)
    return;
  layout.offload_parameters = dice.pick({OffloadTarget::cpu, OffloadTarget::nvme});
  layout.offload_optimizer = OffloadTarget::cpu;
}

}  // namespace

Layout random_layout(std::uint64_t seed) {
  Dice dice{seed};
  Layout layout = layout_for(dice.pick({1, 2, 4}), dice.pick({1, 2, 4}), dice.pick({1, 2, 4}),
                             dice.pick({1, 2, 4, 8}));
  layout.schedule = dice.pick({Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                               Schedule::zb_h1, Schedule::zb_v, Schedule::v_half, Schedule::v_min,
                               Schedule::interleaved_zb, Schedule::dual_pipe_v});
  if (rules_of(layout.schedule).chunks != RankChunks::one && layout.pipeline_parallel == 1)
    layout.schedule = Schedule::one_f_one_b;
  const ScheduleRules& rules = rules_of(layout.schedule);
  const bool beside = rules.sends_beside;
  layout.virtual_stages =
      rules.chunks == RankChunks::loop ? dice.pick({rules.least_chunks, 2}) : rules.least_chunks;
  layout.micro_batch = dice.pick<std::int64_t>({1, 2});
  layout.global_batch *= layout.micro_batch;
  layout.sequence_parallel = dice.coin();
  layout.zero_stage = dice.pick({0, 1, 2, 3});
  layout.shard_group = dice.pick({0, 1, 2});
  layout.prefetch_layers = dice.pick({0, 1, 3});
  layout.reshard_after_forward = dice.coin();
  layout.recompute =
      dice.pick({Recompute::none, Recompute::selective, Recompute::operators, Recompute::full});
  layout.recompute_every = layout.recompute == Recompute::full ? dice.pick({1, 2}) : 1;
  if (layout.recompute == Recompute::full && layout.recompute_every == 1)
    layout.recompute_layers = dice.pick({0, 1});
  layout.attention = dice.pick({AttentionKernel::flash, AttentionKernel::unfused});
  layout.compute_dtype = dice.pick({DType::bf16, DType::fp8});
  layout.eight_bit_parameters = layout.compute_dtype == DType::fp8 && dice.coin();
  layout.gradient_dtype = dice.pick({DType::bf16, DType::fp32});
  layout.reduce_dtype = dice.pick({DType::bf16, DType::fp32});
  layout.bucket = Bytes{dice.pick<std::int64_t>({1, 50'000, 1 << 25})};
  layout.first_bucket = Bytes{dice.pick<std::int64_t>({1, 20'000})};
  layout.overlap_gradients = dice.coin();
  layout.overlap_parameters = dice.coin();
  layout.overlap_pipeline = dice.coin() || beside;
  layout.overlap_tensor_wgrad = dice.coin();
  layout.overlap_tensor_products = layout.sequence_parallel && dice.coin() &&
                                   !splits_backward(layout.schedule) &&
                                   layout.recompute != Recompute::operators;
  layout.context_parallel = dice.pick({1, 2, 4});
  layout.context_exchange =
      dice.pick({ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all});
  if (layout.context_parallel > 1) layout.attention = AttentionKernel::flash;
  compress(dice, layout);
  offload(dice, layout);
  if (layout.pipeline_parallel > 1) layout.pipeline_runs = dice.pick({1, 1, 2});
  return layout;
}

std::string to_text(const Layout& layout) {
  return fmt::format(
      "tp {} cp {} {} dp {} pp {} v {} {} m {} in {} runs sp {} zero {} group {} prefetch {} "
      "reshard {} "
      "recompute "
      "{}/{} "
      "grad {} reduce {} overlap {}{}{}{}{} parameters on {} activations on {} ({})",
      layout.tensor_parallel, layout.context_parallel, word(layout.context_exchange),
      layout.data_parallel, layout.pipeline_parallel, layout.virtual_stages, word(layout.schedule),
      layout.micro_batches(), layout.pipeline_runs, layout.sequence_parallel, layout.zero_stage,
      layout.shard_group, layout.prefetch_layers, layout.reshard_after_forward,
      word(layout.recompute), layout.recompute_every, word(layout.gradient_dtype),
      word(layout.reduce_dtype), layout.overlap_gradients, layout.overlap_parameters,
      layout.overlap_pipeline, layout.overlap_tensor_wgrad, layout.overlap_tensor_products,
      word(layout.offload_parameters), word(layout.offload_activations), layout.offload_layers);
}

}  // namespace sim::test
