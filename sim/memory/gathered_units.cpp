#include "sim/memory/gathered_units.hpp"

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
  in_root_ = in_root_unit(program);
  gathered_.resize(units);
  copied_.resize(units);
  reduced_.resize(units);
  for (std::uint32_t i = 0; i < units; ++i)
    unit_of_buffer_.at(program.parameter_buckets[i].weight.value) = i;
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

bool GatheredUnits::release(BufferId buffer) {
  if (unit_of_buffer_.empty() || unit_of_buffer_[buffer.value] == none) return false;
  const std::uint32_t unit = unit_of_buffer_[buffer.value];
  if (!in_root_[unit]) pool_.give(copied_[unit]);
  return true;
}

void GatheredUnits::end_step() {
  for (Blocks& shard : reduced_)
    pool_.give(shard);
  for (Blocks& unit : copied_)
    pool_.give(unit);
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
    if (i == unit || (in_root_[unit] && in_root_[i])) take(copied_[i], whole(i), compute);
  }
  if (forward_) {
    std::swap(deferred_, gathered_[unit]);
  } else {
    pool_.give(gathered_[unit]);
  }
}

void GatheredUnits::take(Blocks& blocks, Bytes bytes, int stream) {
  if (!fits_ || !blocks.empty()) return;
  const auto address = pool_.take(bytes, stream);
  fits_ = address.has_value();
  if (address) blocks.push_back(*address);
}

}  // namespace sim
