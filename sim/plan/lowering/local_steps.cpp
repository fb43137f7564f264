// Sources: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from
// Decentralized Data"; Stich 2018, "Local SGD Converges Fast and Communicates Little" (the mean of
// the parameters); Douillard et al. 2023, "DiLoCo" (outer gradients, Nesterov); Douillard et al.
// 2025, "Streaming DiLoCo" (fragments, overlap with training, a mix of own and common parameters).
#include "sim/plan/lowering/local_steps.hpp"

#include <algorithm>

namespace sim::lowering {

void LocalSteps::allocate() {
  if (!layout_.trains_apart()) return;
  divide_into_fragments();
  for (Bucket& bucket : store_.buckets) {
    if (keeps_state())
      bucket.outer = builder_.buffer(Bytes{owned(bucket) * 8}, BufferCategory::optimizer, true);
    bucket.outer_message =
        builder_.buffer(Bytes{owned(bucket) * bytes_of(layout_.outer_dtype)},
                        BufferCategory::communication, layout_.outer_overlap > 0);
  }
}

// Contiguous, of about as many parameters each.
void LocalSteps::divide_into_fragments() {
  std::int64_t total = 0, before = 0;
  for (const Bucket& bucket : store_.buckets)
    total += bucket.elements;
  if (total == 0) return;
  for (Bucket& bucket : store_.buckets) {
    const std::int64_t middle = before + bucket.elements / 2;
    bucket.fragment = static_cast<int>(std::min<std::int64_t>(
        layout_.outer_fragments - 1, middle * layout_.outer_fragments / total));
    before += bucket.elements;
  }
}

void LocalSteps::set_out() {
  if (!layout_.trains_apart() || layout_.outer_overlap == 0) return;
  for (Bucket& bucket : store_.buckets) {
    send(bucket);
    average(bucket);
  }
}

void LocalSteps::end() {
  if (!layout_.trains_apart()) return;
  const bool waits = layout_.outer_overlap == 0;
  for (Bucket& bucket : store_.buckets) {
    if (waits) send(bucket);
    if (waits) average(bucket);
  }
  for (Bucket& bucket : store_.buckets)
    apply(bucket);
}

std::uint32_t LocalSteps::index_of(const Bucket& bucket) const {
  return static_cast<std::uint32_t>(&bucket - store_.buckets.data());
}

void LocalSteps::send(Bucket& bucket) {
  const std::int64_t own = has_masters() ? 4 : bytes_of(layout_.activation_dtype);
  const std::int64_t bytes = own + bytes_of(layout_.outer_dtype) + (keeps_state() ? 4 : 0);
  builder_.add_kernel(context_.memory_pass(owned(bucket) * bytes, OpKind::elementwise, DType::fp32),
                      Stream::compute, Pass::parameter_sync, context_.label("outer_gradient"),
                      {Action::outer_gradient, index_of(bucket)});
  builder_.reads(has_masters() ? bucket.optimizer : weight_of(bucket), Role::input);
  if (keeps_state()) builder_.reads(bucket.outer, Role::state);
  builder_.writes(bucket.outer_message, Role::output);
}

// Over all groups: ranks that own the same parameters.
void LocalSteps::average(Bucket& bucket) {
  const bool alone = layout_.local_ranks == 1;
  const std::int64_t elements = owned(bucket);
  const std::int64_t wire = bytes_of(layout_.outer_dtype);
  const Stream stream = layout_.outer_overlap > 0 ? Stream::host_copy : Stream::data_comm;
  const GroupRole role = alone ? GroupRole::data : GroupRole::replicate;
  builder_.wait_for_stream(stream, Stream::compute);
  bucket.averaged = builder_.add_collective(
      builder_.collective(
          {CollectiveKind::all_reduce, role, layout_.outer_dtype, Bytes{elements * wire}}),
      stream, Pass::parameter_sync, context_.label("outer_gradient.all_reduce"),
      {Action::average_outer, index_of(bucket)});
  builder_.writes(bucket.outer_message, Role::output);
}

void LocalSteps::apply(Bucket& bucket) {
  const std::int64_t weight = bytes_of(layout_.activation_dtype);
  const bool mixes = layout_.outer_overlap > 0 && layout_.outer_mix > 0;
  const std::int64_t masters = has_masters() ? (mixes ? 8 : 4) : 0;
  const std::int64_t own = has_masters() || !mixes ? weight : 2 * weight;
  const std::int64_t state = keeps_state() ? 16 : 0;
  const std::int64_t bytes = bytes_of(layout_.outer_dtype) + state + masters + own;
  builder_.wait(Stream::compute, bucket.averaged);
  builder_.add_kernel(context_.memory_pass(owned(bucket) * bytes, OpKind::elementwise, DType::fp32),
                      Stream::compute, Pass::parameter_sync, context_.label("outer_update"),
                      {Action::apply_outer, index_of(bucket)});
  if (layout_.outer_overlap > 0) {
    builder_.reads(bucket.outer_message, Role::input);
  } else {
    builder_.frees(bucket.outer_message, Role::input);
  }
  if (keeps_state()) builder_.writes(bucket.outer, Role::state);
  if (has_masters()) builder_.writes(bucket.optimizer, Role::saved);
  builder_.writes(weight_of(bucket), Role::output);
}

}  // namespace sim::lowering
