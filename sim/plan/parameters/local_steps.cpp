// Sources: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from
// Decentralized Data"; Stich 2018, "Local SGD Converges Fast and Communicates Little" (the mean of
// the parameters); Douillard et al. 2023, "DiLoCo" (outer gradients, Nesterov); Douillard et al.
// 2025, "Streaming DiLoCo" (fragments, overlap with training, a mix of own and common parameters,
// outer gradients of 4 bits); Jaghouar et al. 2024, "INTELLECT-1" (8 bits, the outer state on the
// host).
#include "sim/plan/parameters/local_steps.hpp"

#include <algorithm>
#include <vector>

#include "sim/plan/lowering/host_transfers.hpp"
#include "sim/plan/outer_message.hpp"

namespace sim::lowering {
namespace {

constexpr std::int64_t outer_state_bytes = 8;  // parameters and momentum, fp32

}  // namespace

void LocalSteps::allocate() {
  if (!layout_.trains_apart()) return;
  divide_into_fragments();
  for (Bucket& bucket : store_.buckets) {
    const Bytes state{owned(bucket) * outer_state_bytes};
    if (keeps_state())
      bucket.outer = layout_.outer_on_host
                         ? builder_.host_buffer(state)
                         : builder_.buffer(state, BufferCategory::optimizer, true);
    bucket.outer_message = message_buffer(message_of(layout_, owned(bucket)).all);
  }
}

// Alive at all times where a meeting is under way over several steps.
BufferId LocalSteps::message_buffer(Bytes size) {
  return builder_.buffer(size, BufferCategory::communication, layout_.outer_overlap > 0);
}

void LocalSteps::reads_last(BufferId buffer, Role role) {
  if (layout_.outer_overlap > 0) {
    builder_.reads(buffer, role);
  } else {
    builder_.frees(buffer, role);
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
  meet();
}

void LocalSteps::end() {
  if (!layout_.trains_apart()) return;
  if (layout_.outer_overlap == 0) meet();
  for (Bucket& bucket : store_.buckets)
    apply(bucket);
}

// Copies from the host share a lane with the collectives of a meeting beside training: all of them
// go first.
void LocalSteps::meet() {
  const bool shares_lane = layout_.outer_on_host && layout_.outer_overlap > 0;
  std::vector<BufferId> sent;
  for (Bucket& bucket : store_.buckets) {
    sent.push_back(send(bucket));
    if (!shares_lane) average(bucket, sent.back());
  }
  for (std::size_t i = 0; i < sent.size() && shares_lane; ++i)
    average(store_.buckets[i], sent[i]);
}

std::uint32_t LocalSteps::index_of(const Bucket& bucket) const {
  return static_cast<std::uint32_t>(&bucket - store_.buckets.data());
}

// Copies `bytes` of each owned parameter over the link to the host. A buffer that a kernel has read
// on the device may be written anew behind it.
void LocalSteps::copy(const Bucket& bucket, std::int64_t bytes, Action action, const char* name) {
  builder_.wait_for_stream(Stream::host_copy, Stream::compute);
  builder_.add_kernel(host_copy(context_, Bytes{owned(bucket) * bytes}), Stream::host_copy,
                      Pass::parameter_sync, context_.label(name), {action, index_of(bucket)});
}

BufferId LocalSteps::from_host(const Bucket& bucket, std::int64_t bytes, Action action,
                               const char* name) {
  const BufferId there = builder_.buffer(Bytes{owned(bucket) * bytes}, BufferCategory::optimizer);
  copy(bucket, bytes, action, name);
  builder_.reads(bucket.outer, Role::input);
  builder_.writes(there, Role::output);
  builder_.wait_for_stream(Stream::compute, Stream::host_copy);
  return there;
}

// Returns the buffer that is sent: the message of the all-reduce, or the pieces for all groups.
BufferId LocalSteps::send(Bucket& bucket) {
  const OuterMessage message = message_of(layout_, owned(bucket));
  const std::int64_t own = has_masters() ? 4 : bytes_of(layout_.activation_dtype);
  const std::int64_t bytes = owned(bucket) * (own + (keeps_state() ? 4 : 0)) + message.all.count();
  const bool on_host = keeps_state() && layout_.outer_on_host;
  const BufferId last =
      on_host ? from_host(bucket, 4, Action::last_from_host, "outer.from_host") : bucket.outer;
  const BufferId to = quantizes() ? message_buffer(message.all) : bucket.outer_message;
  builder_.add_kernel(
      context_.memory_pass(bytes, quantizes() ? OpKind::encode : OpKind::elementwise, DType::fp32),
      Stream::compute, Pass::parameter_sync, context_.label("outer_gradient"),
      {Action::outer_gradient, index_of(bucket)});
  builder_.reads(has_masters() ? bucket.optimizer : weight_of(bucket), Role::input);
  if (on_host) {
    builder_.frees(last, Role::state);
  } else if (keeps_state()) {
    builder_.reads(last, Role::state);
  }
  builder_.writes(to, Role::output);
  return to;
}

// Over all groups: ranks that own the same parameters.
void LocalSteps::average(Bucket& bucket, BufferId sent) {
  const Stream stream = layout_.outer_overlap > 0 ? Stream::host_copy : Stream::data_comm;
  builder_.wait_for_stream(stream, Stream::compute);
  if (quantizes()) return average_pieces(bucket, sent, stream);
  bucket.averaged = builder_.add_collective(
      builder_.collective({CollectiveKind::all_reduce, between(), layout_.outer_dtype,
                           builder_.size_of(bucket.outer_message)}),
      stream, Pass::parameter_sync, context_.label("outer_gradient.all_reduce"),
      {Action::average_outer, index_of(bucket)});
  builder_.writes(bucket.outer_message, Role::output);
}

// Each rank takes the mean of a piece from all groups, in fp32 (Douillard et al. 2025 add up in
// fp32, too), and sends it to all as it came.
void LocalSteps::average_pieces(Bucket& bucket, BufferId sent, Stream stream) {
  const OuterMessage message = message_of(layout_, owned(bucket));
  const BufferId came = message_buffer(message.all), mean = message_buffer(message.piece);
  const auto exchange = [&](CollectiveKind kind, const char* name) {
    return builder_.add_collective(builder_.collective({kind, between(), DType::fp32, message.all}),
                                   stream, Pass::parameter_sync, context_.label(name),
                                   {Action::exchange_outer, index_of(bucket)});
  };
  exchange(CollectiveKind::all_to_all, "outer_gradient.all_to_all");
  reads_last(sent, Role::input);
  builder_.writes(came, Role::output);
  builder_.add_kernel(
      context_.memory_pass((message.all + message.piece).count(), OpKind::encode, DType::fp32),
      stream, Pass::parameter_sync, context_.label("outer_gradient.mean"),
      {Action::mean_outer, index_of(bucket)});
  reads_last(came, Role::input);
  builder_.writes(mean, Role::output);
  bucket.averaged = exchange(CollectiveKind::all_gather, "outer_gradient.all_gather");
  reads_last(mean, Role::input);
  builder_.writes(bucket.outer_message, Role::output);
}

void LocalSteps::apply(Bucket& bucket) {
  const std::int64_t weight = bytes_of(layout_.activation_dtype);
  const bool mixes = layout_.outer_overlap > 0 && layout_.outer_mix > 0;
  const std::int64_t masters = has_masters() ? (mixes ? 8 : 4) : 0;
  const std::int64_t own = has_masters() || !mixes ? weight : 2 * weight;
  const std::int64_t states = keeps_state() ? 2 * outer_state_bytes : 0;
  const std::int64_t bytes =
      owned(bucket) * (states + masters + own) + builder_.size_of(bucket.outer_message).count();
  const bool on_host = keeps_state() && layout_.outer_on_host;
  const BufferId state =
      on_host ? from_host(bucket, outer_state_bytes, Action::outer_from_host, "outer.from_host")
              : bucket.outer;
  builder_.wait(Stream::compute, bucket.averaged);
  builder_.add_kernel(
      context_.memory_pass(bytes, quantizes() ? OpKind::decode : OpKind::elementwise, DType::fp32),
      Stream::compute, Pass::parameter_sync, context_.label("outer_update"),
      {Action::apply_outer, index_of(bucket)});
  reads_last(bucket.outer_message, Role::input);
  if (keeps_state()) builder_.writes(state, Role::state);
  if (has_masters()) builder_.writes(bucket.optimizer, Role::saved);
  builder_.writes(weight_of(bucket), Role::output);
  if (!on_host) return;
  copy(bucket, outer_state_bytes, Action::outer_to_host, "outer.to_host");
  builder_.frees(state, Role::input);
  builder_.writes(bucket.outer, Role::output);
}

}  // namespace sim::lowering
