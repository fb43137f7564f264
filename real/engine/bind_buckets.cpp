#include "real/engine/bind_buckets.hpp"

#include <algorithm>

#include "real/engine/model_sites.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

using sim::GroupRole;
using sim::TensorSplit;

struct Range {  // of elements of a bucket
  std::int64_t first = 0, last = 0;
};

const BoundGroup& group(const BoundProgram& bound, GroupRole role) {
  return bound.groups[static_cast<std::size_t>(role)];
}

// All ranks with these parameters.
const BoundGroup& holders(const BoundProgram& bound, const sim::ParameterBucket& bucket) {
  const sim::Layout& layout = bound.plan->layout;
  const bool one_worker = layout.worker_gpus() == layout.replicas();
  const bool apart = layout.trains_apart() || (layout.updates_on_servers() && !one_worker);
  return group(bound, bucket.of_experts ? GroupRole::expert_data
                      : apart           ? GroupRole::shard
                                        : GroupRole::data);
}

// The ranks that share one copy: the hybrid group, or all of them.
const BoundGroup& sharers(const BoundProgram& bound, const sim::ParameterBucket& bucket) {
  const BoundGroup& hybrid = group(bound, GroupRole::shard);
  const bool shares = static_cast<int>(hybrid.ranks.size()) == bucket.shards;
  return hybrid.index != sim::Plan::no_group && shares && !bucket.of_experts
             ? hybrid
             : holders(bound, bucket);
}

int shard_of(const BoundProgram& bound, const sim::ParameterBucket& bucket) {
  if (bucket.shards == 1) return 0;
  const BoundGroup& ranks = sharers(bound, bucket);
  SIM_CHECK(static_cast<int>(ranks.ranks.size()) == bucket.shards, ranks.ranks.size(),
            bucket.shards);
  return ranks.position;
}

// Whether another rank holds the same gradients and counts them.
bool is_replica(const BoundProgram& bound, const sim::ParameterBucket& bucket) {
  if (bucket.shards == 1) return holders(bound, bucket).position > 0;
  const bool hybrid = bucket.shards < static_cast<int>(holders(bound, bucket).ranks.size());
  return hybrid && !bucket.of_experts && group(bound, GroupRole::replicate).position > 0;
}

// Whether every tensor rank holds the same of it. Tensor ranks that have the same experts are among
// the holders of their bucket.
bool replicated_matrix(const sim::ModelOp& op) {
  if (op.experts > 0) return false;
  return op.split == TensorSplit::sequence || op.split == TensorSplit::inner;
}
bool replicated_vector(const sim::ModelOp& op) {
  return op.split != TensorSplit::column && op.split != TensorSplit::vocabulary;
}

// A site's parameters: the matrix (or table) and what is behind it.
struct Parts {
  Range matrix, vector;
};
Parts parts_of(const sim::Layout& layout, const sim::Site& site, const sim::ModelOp& op) {
  const std::int64_t end = site.first + site.elements;
  if (layout.trains_adapters()) return {{site.first, end}, {end, end}};
  std::int64_t biases = op.biases;
  // A column's bias is split like its rows, and padded as they are.
  if (op.kind == sim::ModelOpKind::linear && op.biases > 0 && !replicated_vector(op))
    biases = site.elements / (op.in_features + 1);
  const bool has_matrix = op.weights > 0 || op.tied_to_embedding;
  if (!has_matrix) biases = site.elements;
  SIM_CHECK(biases <= site.elements, op.name, biases, site.elements);
  return {{site.first, end - biases}, {end - biases, end}};
}

void add_owned(const BoundBucket& bucket, const Range& range, std::vector<OwnedRange>& to) {
  const std::int64_t first = std::max(range.first, bucket.owned_first);
  const std::int64_t last = std::min(range.last, bucket.owned_first + bucket.owned);
  if (first < last) to.push_back({first - bucket.owned_first, last - first});
}

// A tied head and its table name the same.
void add_tensor(BoundBucket& bucket, const Range& range, bool decayed) {
  const bool known = std::any_of(bucket.tensors.begin(), bucket.tensors.end(),
                                 [&](const BoundTensor& one) { return one.first == range.first; });
  if (range.first == range.last || known || bucket.owned != bucket.padded) return;
  bucket.tensors.push_back({range.first, range.last - range.first, decayed});
}

// Sorted; neighbours become one, and so does what a tied head and its table both name.
void tidy(std::vector<OwnedRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const OwnedRange& a, const OwnedRange& b) { return a.first < b.first; });
  std::vector<OwnedRange> joined;
  for (const OwnedRange& range : ranges) {
    if (joined.empty() || range.first > joined.back().first + joined.back().count) {
      joined.push_back(range);
      continue;
    }
    OwnedRange& last = joined.back();
    last.count = std::max(last.count, range.first + range.count - last.first);
  }
  ranges = std::move(joined);
}

Operand persistent(const BoundProgram& bound, const sim::ArenaLayout& arena, sim::BufferId buffer) {
  const std::int64_t offset = arena.offset_of_persistent.at(buffer.value);
  SIM_CHECK(offset >= 0, buffer.value);
  const sim::Buffer& planned = bound.program->buffers[buffer.value];
  return {offset, (planned.size + planned.host).count()};
}

void add_ranges(BoundProgram& bound) {
  for (const sim::Site& site : bound.program->sites) {
    if (site.elements == 0) continue;
    const sim::ModelOp& op = model_op(*bound.model, site);
    BoundBucket& bucket = bound.buckets.at(site.bucket);
    const Parts parts = parts_of(bound.plan->layout, site, op);
    add_owned(bucket, parts.matrix, bucket.decayed);
    add_tensor(bucket, parts.matrix, true);
    add_tensor(bucket, parts.vector, false);
    // The table of a tied head counts where the embedding is.
    const bool replica = is_replica(bound, bound.program->parameter_buckets[site.bucket]);
    if (replica || site.tied) continue;
    if (bound.at.tensor == 0 || !replicated_matrix(op))
      add_owned(bucket, parts.matrix, bucket.counted);
    if (bound.at.tensor == 0 || !replicated_vector(op))
      add_owned(bucket, parts.vector, bucket.counted);
  }
  for (BoundBucket& bucket : bound.buckets) {
    tidy(bucket.decayed);
    tidy(bucket.counted);
  }
}

}  // namespace

void bind_buckets(BoundProgram& bound, const sim::ArenaLayout& arena) {
  const sim::Program& program = *bound.program;
  for (const sim::ParameterBucket& from : program.parameter_buckets) {
    BoundBucket& to = bound.buckets.emplace_back();
    to.elements = from.elements;
    to.padded = from.padded;
    to.owned = from.padded / from.shards;
    to.owned_first = shard_of(bound, from) * to.owned;
    const bool on_host = bound.plan->layout.offloads_parameters();
    const bool sharded_weight = from.weight_shard.value != UINT32_MAX;
    to.weight = persistent(bound, arena,
                           on_host          ? from.host_weight
                           : sharded_weight ? from.weight_shard
                                            : from.weight);
    const bool sharded_gradient = from.gradient_shard.value != UINT32_MAX;
    to.gradient = persistent(bound, arena,
                             on_host            ? from.host_gradient
                             : sharded_gradient ? from.gradient_shard
                                                : from.gradient);
    if (from.optimizer.value != UINT32_MAX) to.optimizer = persistent(bound, arena, from.optimizer);
    if (from.host_gradient.value != UINT32_MAX) {
      to.host_gradient = persistent(bound, arena, from.host_gradient);
      to.host_weight = persistent(bound, arena, from.host_weight);
    }
    if (from.outer.value != UINT32_MAX) to.outer = persistent(bound, arena, from.outer);
    if (from.residual.value != UINT32_MAX) to.residual = persistent(bound, arena, from.residual);
  }
  add_ranges(bound);
}

}  // namespace real
