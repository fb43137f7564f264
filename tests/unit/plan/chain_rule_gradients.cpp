#include "tests/unit/plan/chain_rule.hpp"

namespace sim::test {

void Interpreter::reduction(Action action) {
  Gradients& to = counted(Role::output);
  if (program_.pass[now_.value] == Pass::parameter_sync) return;
  const Role read = action == Action::compress ? Role::gradient : Role::input;
  const Gradients from = find(read) != nullptr          ? counted(read)
                         : find(Role::saved) != nullptr ? counted(Role::saved)
                                                        : to;
  switch (action) {
    case Action::reduce:
    case Action::decompress:
      to = {0, from.written, 0};
      break;
    case Action::replicate:
      REQUIRE(to.written == 0);
      to.replicated = to.reduced;
      break;
    case Action::accumulate:
      to.reduced += from.reduced;
      to.written += from.written;  // of a rank alone
      break;
    default:
      to = from;  // casts
  }
  for (const BufferUse& use : program_.buffer_uses(now_))
    if (use.access == Access::free) gradients_[use.buffer.value] = {};
}

// add_gradient() adds that of one micro-batch, which lay apart.
void Interpreter::add_gradient() {
  Gradients& own = counted(Role::input);
  REQUIRE(own.written > 0);
  counted(Role::weight_gradient).written += own.written;
  own = {};
}

// Operators that have given gradients so far, by bucket.
std::vector<int> Interpreter::writers_of_gradients() const {
  std::vector<int> writers(program_.parameter_buckets.size());
  for (std::uint32_t i = 0; i < now_.value; ++i) {
    const Action action = program_.action[i];
    if (action == Action::add_weight_gradient || action == Action::rescale_gradient) continue;
    for (const BufferUse& use : program_.buffer_uses(OpId{i})) {
      if (use.role != Role::weight_gradient) continue;
      const Site& site = program_.sites[program_.subject[i]];
      ++writers[site.bucket];
    }
  }
  return writers;
}

void Interpreter::adam() {
  const std::vector<int> writers = writers_of_gradients();
  for (std::size_t i = 0; i < writers.size(); ++i) {
    const ParameterBucket& bucket = program_.parameter_buckets[i];
    const bool sharded = bucket.gradient_shard.value != UINT32_MAX;
    const BufferId at = layout_.offloads_parameters() ? bucket.host_gradient
                        : sharded                     ? bucket.gradient_shard
                                                      : bucket.gradient;
    const Gradients& got = gradients_[at.value];
    INFO("bucket " << i << ": written " << got.written << " reduced " << got.reduced
                   << " replicated " << got.replicated << " of " << writers[i]);
    if (layout_.data_parallel == 1) {
      REQUIRE(got.written == writers[i]);
      continue;
    }
    REQUIRE(got.written == 0);
    REQUIRE(got.reduced == writers[i]);
    const bool hybrid = bucket.shards > 1 && bucket.shards < layout_.data_parallel;
    REQUIRE(got.replicated == (hybrid ? writers[i] : 0));
  }
}

}  // namespace sim::test
