#include "sim/memory/flat_units.hpp"

#include <algorithm>

#include "sim/memory/root_unit.hpp"

namespace sim {
namespace {

constexpr std::uint32_t no_unit = UINT32_MAX;
constexpr std::uint32_t root = 0;
constexpr int compute_stream = 0, gather_stream = 1, reduction_stream = 2,
              cast_stream = 3;  // streams
constexpr std::int64_t fp32_bytes = 4;
// _FreeEventQueue, _max_num_inflight_all_gathers.
constexpr std::size_t most_freed = 2;

}  // namespace

FlatUnits::FlatUnits(const Program& program, BlockPool& pool) : program_{program}, pool_{pool} {
  active_ = program.allocation.flat_parameters && !program.parameter_buckets.empty();
  if (!active_) return;
  unit_of_weight_.assign(program.buffers.size(), no_unit);
  unit_of_gradient_.assign(program.buffers.size(), no_unit);
  left_out_.resize(program.buffers.size());
  find_units();
  find_gradients();
}

// A unit per layer; what else there is, is the root's.
void FlatUnits::find_units() {
  const auto& buckets = program_.parameter_buckets;
  const std::vector<bool> in_root = in_root_unit(program_);
  units_.resize(1);
  unit_of_bucket_.resize(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (!in_root[i]) units_.emplace_back();
    const std::uint32_t index = in_root[i] ? root : static_cast<std::uint32_t>(units_.size() - 1);
    Unit& unit = units_[index];
    unit_of_bucket_[i] = index;
    unit.elements += buckets[i].elements;
    unit.padded += buckets[i].padded;
    unit.shards = buckets[i].shards;
    unit.whole += program_.buffers[buckets[i].weight.value].size;
    ++unit.buckets;
    unit_of_weight_[buckets[i].weight.value] = index;
    left_out_[buckets[i].weight.value] = true;
    if (buckets[i].gradient_shard.value != no_unit)  // of what is trained
      left_out_[buckets[i].gradient_shard.value] = true;
    // Without masters the shard is the parameter itself.
    left_out_[buckets[i].weight_shard.value] = program_.allocation.master_weights;
  }
  for (const Site& site : program_.sites) {
    if (program_.owns_parameters(site))
      units_[unit_of_bucket_[site.bucket]].parameters.push_back(site.elements);
  }
}

// FlatParamHandle, _init_flat_param and shard, of modules made on the device (Composer's
// _param_init_fn): what this leaves free around the shards is where later tensors go.
void FlatUnits::make_masters() {
  if (!has_masters()) return;
  for (std::size_t i = 1; i <= units_.size(); ++i) {
    Unit& unit = units_[units_.size() - i];  // of the first layer first
    Blocks parameters;
    for (const std::int64_t elements : unit.parameters) {
      const Blocks made = take(Bytes{elements * fp32_bytes}, compute_stream);
      parameters.append(made);
    }
    Blocks whole = take(Bytes{unit.elements * fp32_bytes}, compute_stream);
    pool_.give(parameters);
    unit.master = take(Bytes{unit.padded / unit.shards * fp32_bytes}, compute_stream);
    pool_.give(whole);
  }
}

// Whole gradients, and what carries them to their reduction and behind it.
void FlatUnits::find_gradients() {
  for (std::uint32_t i = 0; i < program_.size(); ++i) {
    const OpId op{i};
    const std::uint32_t subject = program_.subject[i];
    for (const BufferUse& use : program_.buffer_uses(op)) {
      const Buffer& buffer = program_.buffers[use.buffer.value];
      if (buffer.persistent) continue;
      if (use.role == Role::weight_gradient && use.access == Access::write) {
        const std::uint32_t bucket = program_.sites[subject].bucket;
        if (bucket >= unit_of_bucket_.size()) continue;
        Unit& unit = units_[unit_of_bucket_[bucket]];
        unit_of_gradient_[use.buffer.value] = unit_of_bucket_[bucket];
        unit.gradient_element =
            buffer.size.count() /
            std::max<std::int64_t>(1, program_.parameter_buckets[bucket].padded);
        left_out_[use.buffer.value] = true;
      }
      const Action action = program_.action[i];
      if (action >= Action::cast_out && action <= Action::cast_in)
        left_out_[use.buffer.value] = true;
    }
  }
}

void FlatUnits::leave_out(std::vector<bool>& buffers) const {
  for (std::size_t i = 0; i < left_out_.size(); ++i)
    buffers[i] = buffers[i] || left_out_[i];
}

void FlatUnits::begin(OpId op) {
  if (!active_) return;
  const Pass pass = program_.pass[op.value];
  if (pass == Pass::forward || pass == Pass::backward) backward_ = pass == Pass::backward;
  for (const BufferUse& use : program_.buffer_uses(op)) {
    const std::uint32_t unit = unit_of_weight_[use.buffer.value];
    if (unit != no_unit && use.role == Role::weight) gather(units_[unit]);
  }
}

void FlatUnits::gather(Unit& unit) {
  if (!unit.gathered.empty()) return;
  if (freed_.size() >= most_freed) {
    seen(freed_.front().second);
    pool_.give(freed_.front().first);
    freed_.pop_front();
  }
  // Parameters that are not in the format of the masters are cast shard by shard.
  const bool cast = unit.whole.count() < unit.padded * fp32_bytes;
  const Bytes shard{unit.whole.count() / unit.shards};
  Blocks copy = cast ? take(shard, cast_stream) : Blocks{};
  unit.gathered = take(unit.whole, gather_stream);
  give_later(std::move(copy), uses_);
}

bool FlatUnits::release(BufferId buffer) {
  if (!active_ || unit_of_weight_[buffer.value] == no_unit) return false;
  Unit& unit = units_[unit_of_weight_[buffer.value]];
  // The root stays from its first use to the end of its backward pass.
  if (&unit == &units_[root] && !(backward_ && ++unit.released >= unit.buckets)) return true;
  reshard(unit);
  return true;
}

void FlatUnits::reshard(Unit& unit) {
  unit.released = 0;
  if (unit.gathered.empty()) return;
  freed_.emplace_back(std::move(unit.gathered), ++uses_);
  unit.gathered.clear();
}

bool FlatUnits::write_gradient(OpId op, BufferId buffer) {
  if (!active_ || unit_of_gradient_[buffer.value] == no_unit) return false;
  Unit& unit = units_[unit_of_gradient_[buffer.value]];
  const Site& site = program_.sites[program_.subject[op.value]];
  Blocks made = take(Bytes{site.elements * unit.gradient_element}, compute_stream);
  const auto same = std::find_if(unit.parts.begin(), unit.parts.end(),
                                 [&](const Part& part) { return part.first == site.first; });
  // A table's second gradient is added to the first; weight and bias are one site.
  if (same != unit.parts.end()) {
    pool_.give(made);
  } else {
    unit.parts.push_back({site.first, std::move(made)});
  }
  return true;
}

void FlatUnits::end(OpId op) {
  if (!active_) return;
  const Action action = program_.action[op.value];
  if (action == Action::reduce) {
    Unit& unit = units_[unit_of_bucket_[program_.subject[op.value]]];
    if (++unit.reduced < unit.buckets) return;
    unit.reduced = 0;
    reduce(unit, op);
  }
  if (action != Action::adam || program_.allocation.moment_bytes < 8) return;
  // Adam goes from one flat parameter to the next: a root of the second moment, and its quotient
  // (Composer, composer/optim/decoupled_weight_decay.py, DecoupledAdamW.adamw).
  std::int64_t most = 0;
  for (const Unit& unit : units_)
    most = std::max(most, unit.padded / unit.shards);
  Blocks root_of = take(Bytes{most * fp32_bytes}, compute_stream);
  Blocks quotient = take(Bytes{most * fp32_bytes}, compute_stream);
  pool_.give(root_of);
  pool_.give(quotient);
}

void FlatUnits::reduce(Unit& unit, OpId op) {
  const std::int64_t wire = bytes_of(program_.collectives[program_.work[op.value]].dtype);
  const std::int64_t shard = unit.padded / unit.shards;
  Blocks whole = take(Bytes{unit.elements * unit.gradient_element}, compute_stream);
  for (Part& part : unit.parts)
    pool_.give(part.blocks);
  unit.parts.clear();
  const bool cast = wire != unit.gradient_element;
  Blocks sent;
  if (cast || unit.padded > unit.elements) sent = take(Bytes{unit.padded * wire}, reduction_stream);
  Blocks reduced = take(Bytes{shard * wire}, reduction_stream);
  // It begins when the gathered unit is out of use.
  const int behind = unit.gathered.empty() ? uses_ : uses_ + 1;
  give_later(std::move(whole), behind);
  give_later(std::move(sent), behind);
  if (wire != fp32_bytes) {
    Blocks exact = take(Bytes{shard * fp32_bytes}, reduction_stream);
    give_later(std::move(reduced), behind);
    reduced = std::move(exact);
  }
  if (unit.shard_gradient.empty()) {
    unit.shard_gradient = std::move(reduced);
  } else {
    give_later(std::move(reduced), behind);
  }
}

FlatUnits::Blocks FlatUnits::take(Bytes bytes, int stream) {
  Blocks blocks;
  if (bytes.count() > 0) blocks.push_back(pool_.take(bytes, stream));
  return blocks;
}

void FlatUnits::give_later(Blocks blocks, int behind) {
  if (!blocks.empty()) waiting_.push_back({std::move(blocks), behind});
}

// Compute is done with that use of a gathered unit, and other streams with what they began before.
void FlatUnits::seen(int use) {
  for (Waiting& item : waiting_) {
    if (item.behind < use) pool_.give(item.blocks);
  }
  std::erase_if(waiting_, [](const Waiting& item) { return item.blocks.empty(); });
}

void FlatUnits::wait() {
  for (auto& [blocks, use] : freed_)
    pool_.give(blocks);
  freed_.clear();
  for (Waiting& item : waiting_)
    pool_.give(item.blocks);
  waiting_.clear();
}

// The loss is logged, and gradients are freed before the next forward pass (zero_grad).
void FlatUnits::end_step() {
  if (!active_) return;
  for (Unit& unit : units_) {
    reshard(unit);
    pool_.give(unit.shard_gradient);
  }
  wait();
}

}  // namespace sim
