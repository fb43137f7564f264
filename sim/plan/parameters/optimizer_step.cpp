// Order as in Megatron-LM, core/distributed/finalize_model_grads.py: data-parallel reductions,
// gradients of sequence-parallel regions over the tensor group, tied embedding over its two stages;
// then core/optimizer/optimizer.py: norm, clip, update.
#include "sim/plan/parameters/optimizer_step.hpp"

#include <algorithm>

#include "sim/layout/optimizer_states.hpp"
#include "sim/plan/parameters/adafactor.hpp"
#include "sim/plan/parameters/lamb.hpp"
#include "sim/plan/parameters/muon.hpp"

namespace sim::lowering {
namespace {

// Tensors that one launch of Apex's multi-tensor Adam takes at depth 5 (gradient, master, m, v,
// weight): csrc/multi_tensor_apply.cuh, depth_to_max_tensors.
constexpr std::int64_t tensors_per_launch = 30;

}  // namespace

void OptimizerStep::begin_step() {
  zero_gradients();
  host_.begin_step();
}

// Gradients are accumulated, so what outlives a step starts at zero (Megatron-LM,
// zero_grad_buffer).
void OptimizerStep::zero_gradients() {
  const bool keeps_first = runs_.adds_gradients && !sharing_.converts;
  if (keeps_first && sharing_.zero < 2) return;
  if (sharing_.host_gradients) return;  // the first of a step are written there
  std::int64_t elements = 0;
  for (const Bucket& bucket : trained_buckets(store_)) {
    if (sharing_.zero >= 2 && bucket.accumulate == none)
      continue;  // overwritten by its one reduction
    elements += sharing_.zero >= 2 ? shard_of(bucket) : bucket.elements;
  }
  if (elements == 0) return;
  const std::uint32_t kernel = context_.memory_pass(elements * bytes_of(sharing_.gradient_dtype),
                                                    OpKind::elementwise, sharing_.gradient_dtype);
  builder_.add_kernel(kernel, Stream::compute, Pass::optimizer, context_.label("zero_gradients"),
                      {Action::zero_gradients});
  touch_gradients(Access::write);
}

// The gradients that outlive a step.
void OptimizerStep::touch_gradients(Access access) {
  for (const Bucket& bucket : trained_buckets(store_)) {
    const BufferId gradient = sharing_.host_gradients ? bucket.host_gradient
                              : sharing_.zero >= 2    ? bucket.gradient_shard
                                                      : bucket.gradient;
    if (access == Access::write) {
      builder_.writes(gradient, Role::state);
    } else {
      builder_.reads(gradient, Role::state);
    }
  }
}

// Writes the states and weights that the device updates: all but those of buckets that are
// offloaded whole.
void OptimizerStep::write_updated_state() {
  for (const Bucket& bucket : trained_buckets(store_)) {
    if (bucket.offloaded > 0 && bucket.optimizer == bucket.host_states) continue;
    builder_.writes(bucket.optimizer, Role::state);
    builder_.writes(sharing_.zero == 3 ? bucket.weight_shard : bucket.weight, Role::state);
  }
}

// Elements of all Site::summed; where a rank holds only a shard, those of the shard that has the
// most of them: all ranks run one program, so each sends as much.
std::int64_t OptimizerStep::summed_elements() const {
  const int shards = sharing_.zero >= 2 ? sharing_.shards : 1;
  std::vector<std::int64_t> of_shard(static_cast<std::size_t>(shards));
  for (const Site& site : store_.sites) {
    if (site.summed == 0) continue;
    const std::int64_t size = shards == 1 ? INT64_MAX : store_.buckets[site.bucket].padded / shards;
    const std::int64_t end = site.summed_first + site.summed;
    for (std::int64_t at = site.summed_first; at < end;) {
      const std::int64_t shard = at / size;
      const std::int64_t next = std::min(end, shards == 1 ? end : (shard + 1) * size);
      of_shard[static_cast<std::size_t>(shard)] += next - at;
      at = next;
    }
  }
  return *std::max_element(of_shard.begin(), of_shard.end());
}

// Norms and biases outside the split blocks see only a slice of the tokens (sequence parallelism),
// norms inside them only some of the heads: their gradients are summed over the tensor group.
void OptimizerStep::sum_tensor_gradients() {
  const std::int64_t elements = summed_elements();
  if (elements == 0) return;
  const Bytes bytes{elements * bytes_of(sharing_.gradient_dtype)};
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::data_comm);
  const OpId done = builder_.add_collective(
      builder_.collective(
          {CollectiveKind::all_reduce, GroupRole::tensor, sharing_.gradient_dtype, bytes}),
      Stream::tensor_comm, Pass::gradient_sync, context_.label("sequence_gradients.all_reduce"),
      {Action::sum_tensor_gradients});
  std::vector<bool> summed(store_.buckets.size());
  for (const Site& site : store_.sites) {
    if (site.summed > 0) summed[site.bucket] = true;
  }
  for (std::size_t i = 0; i < store_.buckets.size(); ++i) {
    if (!summed[i]) continue;
    builder_.writes(
        sharing_.zero >= 2 ? store_.buckets[i].gradient_shard : store_.buckets[i].gradient,
        Role::state);
  }
  const BufferId packed = builder_.buffer(bytes, BufferCategory::communication);
  builder_.writes(packed, Role::output);
  builder_.frees(packed, Role::output);
  builder_.wait(Stream::compute, done);
}

// The table is held by the first and the last stage: both add up its gradient.
void OptimizerStep::sum_tied_gradients() {
  const auto table = std::find_if(store_.buckets.begin(), store_.buckets.end(),
                                  [](const Bucket& bucket) { return bucket.holds_shared_table; });
  if (table == store_.buckets.end()) return;
  const std::int64_t elements =
      sharing_.zero >= 2 ? table->padded / sharing_.shards : table->padded;
  builder_.wait_for_stream(Stream::data_comm, Stream::compute);
  builder_.wait_for_stream(Stream::data_comm, Stream::tensor_comm);
  builder_.add_collective(
      builder_.collective({CollectiveKind::all_reduce, GroupRole::tied_embedding,
                           sharing_.gradient_dtype,
                           Bytes{elements * bytes_of(sharing_.gradient_dtype)}}),
      Stream::data_comm, Pass::gradient_sync, context_.label("tied_embedding.all_reduce"),
      {Action::sum_tied_gradient, static_cast<std::uint32_t>(table - store_.buckets.begin())});
  builder_.writes(sharing_.zero >= 2 ? table->gradient_shard : table->gradient, Role::output);
}

void OptimizerStep::optimizer_step() {
  const std::int64_t owned = owned_elements();
  const std::int64_t gradient = bytes_of(sharing_.gradient_dtype);
  auto launches = static_cast<int>(
      (static_cast<std::int64_t>(store_.parameters.size()) + tensors_per_launch - 1) /
      tensors_per_launch);
  builder_.wait_for_stream(Stream::compute, Stream::data_comm);
  // DeepSpeed takes the norm of a bucket before it leaves the device (stage3.py, partition_grads):
  // it costs as much there.
  if (sharing_.host_gradients) builder_.wait_for_stream(Stream::compute, Stream::host_copy);
  if (owned > 0) {
    builder_.add_kernel(
        context_.memory_pass(norm_bytes(), OpKind::elementwise, sharing_.gradient_dtype, launches),
        Stream::compute, Pass::optimizer, context_.label("gradient_norm"), {Action::gradient_norm});
    touch_gradients(Access::read);
  }
  const NormGroup together = norm_group();
  if (together.ranks > 1) {
    builder_.wait_for_stream(Stream::data_comm, Stream::compute);
    const OpId done = builder_.add_collective(
        builder_.collective({CollectiveKind::all_reduce, together.role, DType::fp32, Bytes{4}}),
        Stream::data_comm, Pass::optimizer, context_.label("gradient_norm.all_reduce"),
        {Action::sum_gradient_norm});
    builder_.wait(Stream::compute, done);
  }
  if (layout_.updates_on_servers()) return gather_updated();
  if (owned == 0) return;
  std::int64_t offloaded = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    offloaded += bucket.offloaded;
  const std::int64_t kept = std::max<std::int64_t>(0, owned - offloaded);
  std::int64_t bytes = offloaded == 0 ? update_bytes() : update_bytes() / owned * kept;
  // The gradients scaled in a pass of their own, the masters read once more for the weights
  // (Megatron-LM, core/optimizer/clip_grads.py, clip_grad_by_total_norm_fp32; distrib_optimizer.py,
  // _copy_main_params_to_model_params, parameter by parameter), unless Transformer Engine has
  // these.
  if (runs_.separate_update) {
    const bool copies = layout_.master_format == MasterFormat::fp32;
    bytes += owned * (2 * gradient + (copies ? layout_.master_bytes() : 0));
    launches += launches + (copies ? static_cast<int>(store_.parameters.size()) : 0);
  }
  const UnscaledStates unscaled = unscaled_states(layout_);
  launches += unscaled.launches * static_cast<int>(store_.parameters.size());
  if (const std::optional<int> own = launches_by_tensor()) launches = *own;
  builder_.add_kernel(context_.memory_pass(bytes, OpKind::optimizer, DType::fp32, launches),
                      Stream::compute, Pass::optimizer,
                      context_.label(word(layout_.optimizer).data()), {Action::adam});
  touch_gradients(Access::read);
  write_updated_state();
  if (layout_.optimizer == OptimizerKind::muon)
    MuonStep{context_, store_}.update([&] { touch_gradients(Access::read); },
                                      [&] { write_updated_state(); });
  take_scratch(std::int64_t{4} * unscaled.states * largest_group());
  if (layout_.optimizer == OptimizerKind::adafactor)
    take_scratch(adafactor_scratch(layout_, gradient) * largest_tensor());
  if (offloaded > 0) host_.update();
  local_steps_.end();
  gather_updated();
}

// Launches of optimizers that go tensor by tensor: LAMB, Adafactor, those of bitsandbytes
// (optim/optimizer.py, step) and of torchao (optim/adam.py).
std::optional<int> OptimizerStep::launches_by_tensor() const {
  if (layout_.state_format != StateFormat::plain) return trained_tensors();
  if (layout_.optimizer == OptimizerKind::lamb)
    return lamb_launches(layout_) * static_cast<int>(store_.parameters.size());
  if (layout_.optimizer == OptimizerKind::adafactor)
    return adafactor_launches(layout_) * trained_tensors();
  return std::nullopt;
}

// Adds scratch memory that the update takes while it runs.
void OptimizerStep::take_scratch(std::int64_t bytes) {
  if (bytes == 0) return;
  const BufferId temporary = builder_.buffer(Bytes{bytes}, BufferCategory::optimizer);
  builder_.writes(temporary, Role::workspace);
  builder_.frees(temporary, Role::workspace);
}

// The ranks that update together. With servers that update: the GPUs of a worker.
OptimizerStep::NormGroup OptimizerStep::norm_group() const {
  if (layout_.trains_apart())
    return {layout_.world_size() / layout_.replicas() * layout_.local_ranks, GroupRole::local};
  if (!layout_.updates_on_servers()) return {layout_.world_size(), GroupRole::world};
  return {layout_.worker_gpus(), layout_.inner_ranks() > 0 ? GroupRole::shard : GroupRole::world};
}

void OptimizerStep::gather_updated() {
  if ((sharing_.zero != 1 && sharing_.zero != 2) || layout_.overlap_parameters) return;
  for (std::size_t i = store_.buckets.size(); i-- > 0;)
    weights_.gather_bucket(store_.buckets[i], +1);
}

std::int64_t OptimizerStep::owned_elements() const {
  std::int64_t elements = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    elements += shard_of(bucket);
  return elements;
}

// Experts have an optimizer of their own (Megatron-LM, core/optimizer/__init__.py).
std::int64_t OptimizerStep::largest_group() const {
  std::int64_t experts = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    if (bucket.of_experts) experts += shard_of(bucket);
  return std::max(experts, owned_elements() - experts);
}

// Linears that are one product here may be tensors apart; an adapter has two of each, and norms.
int OptimizerStep::trained_tensors() const {
  std::int64_t tensors = 0;
  for (const StageBlock& block : context_.blocks)
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      if (op.parameters + op.tied_parameters == 0 || op.op->shares_with >= 0) continue;
      const std::int64_t apart = op.adapter ? op.adapter->narrow / op.adapter->rank : 0;
      const auto whole = std::max<std::size_t>(1, op.weight_gradient_apart.size());
      const int factors = layout_.lora_magnitudes ? 3 : 2;
      tensors += apart > 0 ? factors * apart : static_cast<std::int64_t>(whole);
    }
  return static_cast<int>(tensors);
}

std::int64_t OptimizerStep::largest_tensor() const {
  std::int64_t elements = 0;
  for (const Parameters& parameters : store_.parameters)
    elements = std::max(elements, parameters.matrix().elements);
  return elements;
}

std::int64_t OptimizerStep::rest_of_muon() const {
  std::int64_t elements = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    elements += lowering::rest_of_muon(bucket);
  return elements;
}

std::int64_t OptimizerStep::all_elements() const {
  std::int64_t elements = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    elements += bucket.elements;
  return elements;
}

// DeepSpeed has an optimizer for each way of keeping gradients, and none around fp32 (runtime/
// engine.py, _do_optimizer_sanity_check).
OptimizerStep::DeepSpeedOptimizer OptimizerStep::deepspeed_optimizer() const {
  if (runs_.optimizer != OptimizerForm::deepspeed) return DeepSpeedOptimizer::absent;
  if (sharing_.converts) return DeepSpeedOptimizer::bf16;
  if (layout_.zero_stage > 0) return DeepSpeedOptimizer::zero;
  return layout_.master_weights ? DeepSpeedOptimizer::fp16 : DeepSpeedOptimizer::absent;
}

// The squares of gradients, of a rank's own where nothing else is said. With fp16 DeepSpeed looks
// for what is not finite first.
std::int64_t OptimizerStep::norm_bytes() const {
  const std::int64_t gradient = bytes_of(sharing_.gradient_dtype);
  const bool checks = sharing_.gradient_dtype == DType::fp16;
  switch (deepspeed_optimizer()) {
    case DeepSpeedOptimizer::absent:
      break;
    case DeepSpeedOptimizer::bf16:  // of all (bf16_optimizer.py, get_grads_for_norm)
      return all_elements() * gradient;
    case DeepSpeedOptimizer::fp16:
      // x.float().sum() (runtime/utils.py, CheckOverflow), then the norm of the fp32 gradients.
      return owned_elements() * (4 + (checks ? gradient + 8 : 0));
    case DeepSpeedOptimizer::zero:
      // A copy in fp64. Before: one in fp32, two comparisons of it, their disjunction, that in
      // fp32, its maximum (zero/stage_1_and_2.py, get_grad_norm_direct, _has_inf_or_nan).
      return owned_elements() * (gradient + 16 + (checks ? gradient + 26 : 0));
  }
  return owned_elements() * gradient;
}

// Adam reads gradient, master, m and v, and writes master, m, v and the weights; without masters
// it reads and writes the weights themselves. Clipping scales the gradient as it is read. Others
// the same with their own moments.
// DeepSpeed's FusedAdam works on fp32 alone: gradients are put together, cast and scaled before it,
// the weights copied from the masters behind it.
std::int64_t OptimizerStep::update_bytes() const {
  const std::int64_t gradient = bytes_of(sharing_.gradient_dtype);
  const std::int64_t weight = bytes_of(layout_.activation_dtype);
  // In the kernel, those that it does not read as they are kept are fp32.
  const UnscaledStates unscaled = unscaled_states(layout_);
  const bool plain = layout_.state_format == StateFormat::plain;
  const std::int64_t in_kernel = layout_.master_bytes() + (plain ? layout_.moment_bytes() : 0) -
                                 unscaled.kept_bytes + 4 * std::int64_t{unscaled.states};
  // Masters as remainders need the weights beside.
  const bool reads_weight =
      !layout_.master_weights || layout_.master_format == MasterFormat::remainders;
  const std::int64_t states = 2 * in_kernel + (reads_weight ? weight : 0) + unscaled.bytes;
  const std::int64_t element = layout_.master_weights ? 4 : weight;
  const std::int64_t by_operation = element * eager_passes(layout_.optimizer);
  const std::int64_t cast = sharing_.gradient_dtype == DType::fp32 ? 0 : gradient + 4;
  // Its Adam and Lion are kernels of its own; SGD is PyTorch's.
  const bool own = !plain || layout_.optimizer == OptimizerKind::adam ||
                   layout_.optimizer == OptimizerKind::lion;
  const std::int64_t blocks = moments_in_blocks();
  const std::int64_t update = (own ? 4 + states : by_operation) + layout_.master_bytes() + weight;
  if (layout_.optimizer == OptimizerKind::lamb)
    return owned_elements() * lamb_bytes(layout_, gradient);
  if (layout_.optimizer == OptimizerKind::adafactor)
    return owned_elements() * adafactor_bytes(layout_, gradient);
  switch (deepspeed_optimizer()) {
    case DeepSpeedOptimizer::absent:
      break;
    case DeepSpeedOptimizer::bf16:  // all of them clipped where they lie (bf16_optimizer.py, step)
      return all_elements() * 2 * gradient + owned_elements() * update + blocks;
    case DeepSpeedOptimizer::fp16:  // cast, put together (fp16/fused_optimizer.py, step)
      return owned_elements() * (cast + 8 + 8 + update) + blocks;
    case DeepSpeedOptimizer::zero:  // put together, cast (zero/stage_1_and_2.py, step)
      return owned_elements() * (2 * gradient + cast + 8 + update) + blocks;
  }
  if (layout_.optimizer == OptimizerKind::muon) {
    // Adam has what is no matrix; its two moments and the masters are read and written.
    const std::int64_t adam =
        layout_.master_bytes() + std::int64_t{2} * bytes_of(layout_.moment_dtype);
    return rest_of_muon() * (gradient + weight + 2 * adam);
  }
  const bool eager = plain && runs_.optimizer == OptimizerForm::eager;
  return owned_elements() * (gradient + weight + (eager ? by_operation : states)) + blocks;
}

// Bytes of moments that a kernel reads and writes in the format in which they are kept
// (bitsandbytes at 95f9af30, csrc/kernels.cu, kOptimizerStatic8bit2StateBlockwise and
// kOptimizer32bit2State; torchao at 36027d82, optim/adam.py, single_param_adam, compiled).
std::int64_t OptimizerStep::moments_in_blocks() const {
  if (layout_.state_format == StateFormat::plain) return 0;
  std::int64_t small = 0;
  for (const Bucket& bucket : trained_buckets(store_))
    small += std::min(shard_of(bucket), bucket.small_elements);
  return 2 * moment_bytes(layout_, owned_elements(), small);
}

}  // namespace sim::lowering
