#include "real/host/state_ops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "real/host/kernels_elementwise.hpp"
#include "real/host/kernels_optimizer.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::Role;

namespace {

// The owned elements in a buffer that holds them alone or the whole bucket.
std::span<float> owned_part(const BoundBucket& bucket, std::span<float> all) {
  const auto owned = static_cast<std::size_t>(bucket.owned);
  if (all.size() == owned) return all;
  return all.subspan(static_cast<std::size_t>(bucket.owned_first), owned);
}

}  // namespace

StateOps::StateOps(const BoundProgram& program, const sim::Training& training, Arena& arena,
                   StepState& state)
    : program_{program}, training_{training}, arena_{arena}, state_{state} {}

void StateOps::run(const BoundOp& op) {
  switch (op.action) {
    case Action::accumulate: {
      const std::span<const float> from = arena_.of(op, Role::input);
      const std::span<float> to = arena_.of(op, Role::output);
      const std::span<float> own =
          to.size() == from.size() ? to : owned_part(program_.buckets.at(op.subject), to);
      return add(from, own);
    }
    case Action::zero_gradients:
      return zero_gradients();
    case Action::gradient_norm:
      return gradient_norm();
    case Action::adam:
      return adam();
    default:
      // Casts belong to formats that host_problems() refuses.
      SIM_CHECK(false, static_cast<int>(op.action));
  }
}

void StateOps::zero_gradients() {
  for (const BoundBucket& bucket : program_.buckets)
    zero(arena_.floats(bucket.gradient));
}

// A loss that is not finite makes the norm so too: then every rank knows of it.
void StateOps::gradient_norm() {
  double total = 0;
  for (const BoundBucket& bucket : program_.buckets) {
    const std::span<const float> gradient = owned_part(bucket, arena_.floats(bucket.gradient));
    for (const OwnedRange& range : bucket.counted) {
      total += sum_of_squares(gradient.subspan(static_cast<std::size_t>(range.first),
                                               static_cast<std::size_t>(range.count)));
    }
  }
  const bool finite = std::all_of(state_.loss.begin(), state_.loss.end(),
                                  [](double loss) { return std::isfinite(loss); });
  state_.square_sum = finite ? static_cast<float>(total) : std::numeric_limits<float>::quiet_NaN();
}

void StateOps::adam() {
  // Weights stay as they are: the step can be run again to find out why.
  if (!std::isfinite(state_.square_sum)) return;
  const double norm = std::sqrt(static_cast<double>(state_.square_sum));
  for (const BoundBucket& bucket : program_.buckets)
    adam_bucket(bucket, clip_scale(norm, training_.clip));
}

void StateOps::adam_bucket(const BoundBucket& bucket, double scale) {
  AdamStep step{.learning_rate = training_.learning_rate,
                .beta1 = training_.beta1,
                .beta2 = training_.beta2,
                .epsilon = training_.epsilon,
                .weight_decay = 0,
                .gradient_scale = scale,
                .step = state_.step + 1};
  const std::span<const float> gradient = owned_part(bucket, arena_.floats(bucket.gradient));
  const std::span<float> weight = owned_part(bucket, arena_.floats(bucket.weight));
  const std::span<float> state = arena_.floats(bucket.optimizer);
  const auto owned = static_cast<std::size_t>(bucket.owned);
  const bool masters = program_.plan->layout.master_weights;
  SIM_CHECK(state.size() == owned * (masters ? 3 : 2), state.size(), owned);
  const std::span<float> master = state.first(masters ? owned : 0);
  const std::span<float> m = state.subspan(master.size(), owned);
  const std::span<float> v = state.subspan(master.size() + owned, owned);
  const auto update = [&](std::size_t first, std::size_t count, double decay) {
    if (count == 0) return;
    step.weight_decay = decay;
    adamw(step, gradient.subspan(first, count), weight.subspan(first, count),
          masters ? master.subspan(first, count) : master, m.subspan(first, count),
          v.subspan(first, count));
  };
  // Behind the last real element is padding, which nobody reads.
  const auto real = static_cast<std::size_t>(
      std::clamp<std::int64_t>(bucket.elements - bucket.owned_first, 0, bucket.owned));
  std::size_t at = 0;
  for (const OwnedRange& range : bucket.decayed) {
    const auto first = static_cast<std::size_t>(range.first);
    const auto count = static_cast<std::size_t>(range.count);
    update(at, first - at, 0);
    update(first, count, training_.weight_decay);
    at = first + count;
  }
  update(at, real - at, 0);
}

// visit(the piece of a bucket's gradient that is held here), in the order of the sites.
template <class Visit>
void StateOps::for_each_summed(Visit visit) {
  for (const sim::Site& site : program_.program->sites) {
    if (site.summed == 0) continue;
    const BoundBucket& bucket = program_.buckets.at(site.bucket);
    const std::span<float> gradient = arena_.floats(bucket.gradient);
    const auto held = static_cast<std::int64_t>(gradient.size());
    const std::int64_t start = held == bucket.padded ? 0 : bucket.owned_first;
    const std::int64_t first = std::clamp<std::int64_t>(site.summed_first - start, 0, held);
    const std::int64_t last =
        std::clamp<std::int64_t>(site.summed_first + site.summed - start, 0, held);
    visit(
        gradient.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
  }
}

void StateOps::pack_summed(std::span<float> message) {
  std::size_t at = 0;
  for_each_summed([&](std::span<const float> piece) {
    SIM_CHECK(at + piece.size() <= message.size(), at, piece.size(), message.size());
    copy(piece, message.subspan(at, piece.size()));
    at += piece.size();
  });
  zero(message.subspan(at));
}

void StateOps::unpack_summed(std::span<const float> message) {
  std::size_t at = 0;
  for_each_summed([&](std::span<float> piece) {
    copy(message.subspan(at, piece.size()), piece);
    at += piece.size();
  });
}

}  // namespace real
