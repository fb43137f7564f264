#include "sim/memory/gathered_units.hpp"

#include <algorithm>
#include <utility>

#include "sim/memory/root_unit.hpp"

namespace sim {
namespace {

constexpr std::uint32_t none = UINT32_MAX;
constexpr int compute = 0, gathers = 1, reductions = 2;  // streams
constexpr std::int64_t fp32 = 4;

}  // namespace

GatheredUnits::GatheredUnits(const Program& program, BlockPool& pool)
    : program_{program}, pool_{pool} {
  if (!program.allocation.copies_gathered) return;
  const std::size_t units = program.parameter_buckets.size();
  unit_of_buffer_.assign(program.buffers.size(), none);
  unit_of_shard_.assign(program.buffers.size(), none);
  unit_of_gradient_.assign(program.buffers.size(), none);
  in_root_ = in_root_unit(program);
  gathered_.resize(units);
  copied_.resize(units);
  gradients_.resize(units);
  reduced_.resize(units);
  for (std::uint32_t i = 0; i < units; ++i) {
    const ParameterBucket& bucket = program.parameter_buckets[i];
    unit_of_buffer_.at(bucket.weight.value) = i;
    if (bucket.gradient_shard.value != none) unit_of_shard_.at(bucket.gradient_shard.value) = i;
    const std::uint32_t gradient = bucket.gradient.value;
    if (gradient != none && !program.buffers[gradient].persistent) unit_of_gradient_[gradient] = i;
  }
  find_parts();
}

// Each site is a part of its unit; all that is frozen, or padding, is one more.
void GatheredUnits::find_parts() {
  parts_.resize(gathered_.size());
  std::vector<Bytes> rest;
  for (std::uint32_t i = 0; i < gathered_.size(); ++i)
    rest.push_back(whole(i));
  for (const Site& site : program_.sites) {
    if (!program_.owns_parameters(site) || site.bucket >= parts_.size()) continue;
    const std::int64_t padded = program_.parameter_buckets[site.bucket].padded;
    if (padded == 0) continue;
    const Bytes part{whole(site.bucket).count() / padded * site.elements};
    parts_[site.bucket].push_back(part);
    rest[site.bucket] = rest[site.bucket] - part;
  }
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] > Bytes{}) parts_[i].push_back(rest[i]);
  }
}

void GatheredUnits::leave_out(std::vector<bool>& buffers) const {
  if (unit_of_buffer_.empty()) return;
  for (const ParameterBucket& unit : program_.parameter_buckets) {
    buffers.at(unit.weight.value) = true;
    // Without masters the shard is the parameter itself.
    buffers.at(unit.weight_shard.value) = program_.allocation.master_weights;
    if (unit.gradient_shard.value != none) buffers.at(unit.gradient_shard.value) = true;
  }
}

bool GatheredUnits::replay(OpId op) {
  if (unit_of_buffer_.empty()) return false;
  const Pass pass = program_.pass[op.value];
  if (pass == Pass::forward || pass == Pass::backward) forward_ = pass == Pass::forward;
  const std::uint32_t unit = program_.subject[op.value];
  switch (program_.action[op.value]) {
    case Action::gather_weights:
      gather(unit);
      return true;
    case Action::copy_weights:
      copy_out(unit);
      return true;
    case Action::reduce:
    case Action::cast_in:
    case Action::accumulate: {
      const ParameterBucket& bucket = program_.parameter_buckets[unit];
      const Bytes own = program_.buffers[bucket.gradient_shard.value].size;
      const Bytes widened{bucket.padded / bucket.shards * fp32};
      take(reduced_[unit], program_.allocation.master_weights ? widened : own, reductions);
      return false;
    }
    default:
      return false;
  }
}

// Autograd makes each parameter's; a second one is added to the first.
bool GatheredUnits::write_gradient(OpId op, BufferId buffer) {
  if (unit_of_buffer_.empty() || unit_of_gradient_[buffer.value] == none) return false;
  const std::uint32_t site = program_.subject[op.value];
  const std::uint32_t unit = unit_of_gradient_[buffer.value];
  if (site >= program_.sites.size() || program_.sites[site].bucket != unit) {
    take(gradients_[unit], program_.buffers[buffer.value].size, compute);
    return true;
  }
  if (std::find(made_.begin(), made_.end(), site) != made_.end()) return true;
  made_.push_back(site);
  const std::int64_t padded = std::max<std::int64_t>(1, program_.parameter_buckets[unit].padded);
  const std::int64_t element = program_.buffers[buffer.value].size.count() / padded;
  add(gradients_[unit], Bytes{program_.sites[site].elements * element}, compute);
  return true;
}

bool GatheredUnits::release(BufferId buffer) {
  if (unit_of_buffer_.empty()) return false;
  if (const std::uint32_t unit = unit_of_gradient_[buffer.value]; unit != none) {
    pool_.give(gradients_[unit]);
    std::erase_if(made_, [&](std::uint32_t site) { return program_.sites[site].bucket == unit; });
    return true;
  }
  if (const std::uint32_t unit = unit_of_shard_[buffer.value]; unit != none) {
    pool_.give(reduced_[unit]);
    return true;
  }
  const std::uint32_t unit = unit_of_buffer_[buffer.value];
  if (unit == none) return false;
  if (!in_root_[unit]) pool_.give(copied_[unit]);
  return true;
}

void GatheredUnits::end_step() {
  for (Blocks& shard : reduced_)
    pool_.give(shard);
  for (Blocks& unit : copied_)
    pool_.give(unit);
  for (Blocks& unit : gradients_)
    pool_.give(unit);
  made_.clear();
  root_ = none;
}

void GatheredUnits::gather(std::uint32_t unit) {
  if (!in_root_[unit]) return take(gathered_[unit], whole(unit), gathers);
  if (root_ != none) return;
  root_ = unit;
  Bytes all{};
  for (std::uint32_t i = 0; i < in_root_.size(); ++i)
    all += in_root_[i] ? whole(i) : Bytes{};
  take(gathered_[unit], all, gathers);
}

void GatheredUnits::copy_out(std::uint32_t unit) {
  if (in_root_[unit] && unit != root_) return;
  if (forward_) pool_.give(deferred_);
  for (std::uint32_t i = 0; i < in_root_.size(); ++i) {
    if (i == unit || (in_root_[unit] && in_root_[i])) copy_parts(i);
  }
  if (forward_) {
    std::swap(deferred_, gathered_[unit]);
  } else {
    pool_.give(gathered_[unit]);
  }
}

void GatheredUnits::copy_parts(std::uint32_t unit) {
  if (!copied_[unit].empty()) return;
  for (const Bytes part : parts_[unit])
    add(copied_[unit], part, compute);
}

void GatheredUnits::take(Blocks& blocks, Bytes bytes, int stream) {
  if (blocks.empty()) add(blocks, bytes, stream);
}

void GatheredUnits::add(Blocks& blocks, Bytes bytes, int stream) {
  if (bytes.count() > 0) blocks.push_back(pool_.take(bytes, stream));
}

}  // namespace sim
