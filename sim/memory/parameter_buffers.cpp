#include "sim/memory/parameter_buffers.hpp"

#include <algorithm>
#include <array>

namespace sim {

ParameterBuffers::ParameterBuffers(const Program& program, BlockPool& pool)
    : program_{program}, pool_{pool} {
  active_ = program.allocation.parameter_buffers && !program.parameter_buckets.empty();
  if (active_) find_pieces();
}

void ParameterBuffers::leave_out(std::vector<bool>& buffers) const {
  if (!active_) return;
  for (const ParameterBucket& bucket : program_.parameter_buckets)
    for (const BufferId part : {bucket.weight, bucket.gradient, bucket.optimizer})
      if (part.value < buffers.size()) buffers[part.value] = true;
}

void ParameterBuffers::find_pieces() {
  for (const Site& site : program_.sites)
    if (program_.owns_parameters(site)) add_pieces(site);
}

void ParameterBuffers::add_pieces(const Site& site) {
  const ParameterBucket& bucket = program_.parameter_buckets[site.bucket];
  const std::int64_t owned = bucket.padded / std::max(1, bucket.shards);
  const std::int64_t each = site.elements / site.tensors;
  for (std::int64_t i = 0; i < site.tensors; ++i) {
    const std::int64_t first = site.first + i * each;
    const std::int64_t end = i + 1 == site.tensors ? site.first + site.elements : first + each;
    const std::int64_t part = std::min(end, owned) - first;
    if (part > 0) pieces_.push_back({site.bucket, part});
  }
}

// Its state is not that of its elements one by one: of some only, or with more than Adam's.
bool ParameterBuffers::is_whole(const ParameterBucket& bucket) const {
  const Allocation& allocation = program_.allocation;
  const std::int64_t owned = bucket.padded / std::max(1, bucket.shards);
  return size_of(bucket.optimizer).count() !=
         owned * (allocation.master_bytes + allocation.moment_bytes);
}

Bytes ParameterBuffers::size_of(BufferId buffer) const {
  return buffer.value < program_.buffers.size() ? program_.buffers[buffer.value].size : Bytes{};
}

Bytes ParameterBuffers::sum_of(BufferId ParameterBucket::*part, bool of_experts) const {
  Bytes sum{};
  for (const ParameterBucket& bucket : program_.parameter_buckets)
    if (bucket.of_experts == of_experts) sum += size_of(bucket.*part);
  return sum;
}

void ParameterBuffers::make() {
  if (!active_) return;
  make_parameters();
  make_masters();
}

void ParameterBuffers::make_parameters() {
  std::array<BlockPool::Addresses, 2> originals;
  for (const Site& site : program_.sites) {
    if (!program_.owns_parameters(site)) continue;
    const ParameterBucket& bucket = program_.parameter_buckets[site.bucket];
    if (bucket.padded == 0) continue;
    const Bytes each{size_of(bucket.weight).count() / bucket.padded * site.elements / site.tensors};
    for (std::int64_t i = 0; i < site.tensors; ++i)
      take(each, &originals.at(bucket.of_experts ? 1 : 0));
  }
  for (const bool of_experts : {false, true}) {
    const bool moves = program_.allocation.moved_parameters;
    if (moves) take(sum_of(&ParameterBucket::weight, of_experts));
    take(sum_of(&ParameterBucket::gradient, of_experts));
    if (moves) pool_.give(originals.at(of_experts ? 1 : 0));
  }
}

void ParameterBuffers::make_masters() {
  const Allocation& allocation = program_.allocation;
  for (const ParameterBucket& bucket : program_.parameter_buckets) {
    const Bytes state = size_of(bucket.optimizer);
    if (is_whole(bucket)) take(state - allocation.moments_of(state));
  }
  for (const Piece& piece : pieces_)
    if (!is_whole(program_.parameter_buckets[piece.bucket]))
      take(Bytes{piece.elements * allocation.master_bytes});
}

void ParameterBuffers::make_moments() {
  if (!active_) return;
  const Allocation& allocation = program_.allocation;
  const auto two = [&](Bytes bytes) {
    take(Bytes{bytes.count() / 2});
    take(Bytes{bytes.count() - bytes.count() / 2});
  };
  for (const ParameterBucket& bucket : program_.parameter_buckets)
    if (is_whole(bucket)) two(allocation.moments_of(size_of(bucket.optimizer)));
  for (const Piece& piece : pieces_)
    if (!is_whole(program_.parameter_buckets[piece.bucket]))
      two(Bytes{piece.elements * allocation.moment_bytes});
}

void ParameterBuffers::take(Bytes bytes, BlockPool::Addresses* blocks) {
  if (bytes.count() == 0) return;
  const BlockPool::Address address = pool_.take(bytes);
  if (blocks != nullptr) blocks->push_back(address);
}

}  // namespace sim
