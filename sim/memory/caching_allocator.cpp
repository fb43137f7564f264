#include "sim/memory/caching_allocator.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "sim/base/work.hpp"
#include "sim/memory/flat_units.hpp"
#include "sim/memory/gathered_units.hpp"
#include "sim/memory/parameter_buffers.hpp"

namespace sim {
namespace {

constexpr int steps = 3;
constexpr int compute = 0, exchanges = 1;  // streams

std::int64_t max_split_size(const Allocation& allocation) {
  const std::int64_t size = allocation.max_split_size.count();
  return size > 0 ? size : BlockPool::any_size;
}

class Replay {
 public:
  Replay(const Program& program, Bytes capacity)
      : program_{program},
        pool_{capacity,
              program.allocation.expandable ? SegmentForm::expandable : SegmentForm::fixed,
              max_split_size(program.allocation), [this] { wait_for_device(); }},
        has_units_{program.allocation.copies_gathered},
        has_flat_{program.allocation.flat_parameters},
        units_{program, pool_},
        flat_{program, pool_},
        parameters_{program, pool_},
        blocks_(program.buffers.size()),
        moments_(program.buffers.size()),
        gradient_(program.sites.size()),
        left_out_(program.buffers.size()),
        recorded_(program.buffers.size()) {
    if (program.allocation.separate_gradients) {
      for (const ParameterBucket& bucket : program.parameter_buckets)
        leave_out(bucket.gradient);
    }
    units_.leave_out(left_out_);
    flat_.leave_out(left_out_);
    parameters_.leave_out(left_out_);
    for (const auto& [op, scratch] : program.scratch_of_op)
      leave_out_scratch_of(op);
  }

  CachedMemory run() {
    for (int step = 0; step < steps; ++step) {
      begin(step);
      const std::int64_t changes = pool_.changes();
      const bool none_held = held_.empty();
      host_wait_ = program_.host_waits.begin();
      auto scratch = program_.scratch_of_op.begin();
      for (std::uint32_t i = 0; i < program_.size(); ++i) {
        const bool has = scratch != program_.scratch_of_op.end() && scratch->first.value == i;
        replay(OpId{i}, has ? &program_.scratches[scratch->second] : nullptr);
        if (has) ++scratch;
      }
      count_work(Work::operators_replayed, program_.size());
      for (Blocks& gradient : gradient_)
        pool_.give(gradient);
      pool_.give(waiting_);
      units_.end_step();
      flat_.end_step();
      // All that was taken is back: every later step is this one again.
      if (step > 0 && none_held && held_.empty() && pool_.changes() == changes) break;
    }
    return pool_.most();
  }

 private:
  using Blocks = BlockPool::Addresses;

  void leave_out(BufferId buffer) {
    if (buffer.value < left_out_.size()) left_out_[buffer.value] = true;
  }

  // Buffers that an operator takes and frees itself stand for what its scratch says in full.
  void leave_out_scratch_of(OpId op) {
    const auto uses = program_.buffer_uses(op);
    for (const BufferUse& taken : uses) {
      if (taken.access != Access::write) continue;
      const bool freed = std::any_of(uses.begin(), uses.end(), [&](const BufferUse& use) {
        return use.access == Access::free && use.buffer == taken.buffer;
      });
      if (freed) leave_out(taken.buffer);
    }
  }

  // Weights and what else persists, from the start; of Adam's state the masters do, the moments
  // come at the end of the first step.
  void begin(int step) {
    pool_.count_retries_anew();
    const auto buffers = static_cast<std::uint32_t>(program_.buffers.size());
    if (step == 0) {
      parameters_.make();
      Blocks originals = make_originals();
      flat_.make_masters();
      for (std::uint32_t i = 0; i < buffers; ++i)
        allocate(blocks_[i], first_size(i), 1);
      pool_.give(originals);
    }
    // An optimizer goes through the parameters in the order of the model, buckets lie the other
    // way.
    if (step == 1) {
      parameters_.make_moments();
      for (std::uint32_t i = buffers; i-- > 0;)
        allocate(moments_[i], moments_size(i), 2);
    }
  }

  // Parameters as the model's modules made them: what they leave behind is used again by what fits.
  Blocks make_originals() {
    Blocks originals;
    const Allocation& allocation = program_.allocation;
    if (!allocation.moved_parameters || allocation.parameter_buffers) return originals;
    for (const Site& site : program_.sites) {
      if (!program_.owns_parameters(site)) continue;
      const BufferId weights = program_.parameter_buckets[site.bucket].weight;
      Blocks one;
      allocate(one, part_of(program_.buffers[weights.value], site), 1);
      originals.append(one);
    }
    return originals;
  }

  // The bytes of a site in a buffer of its whole bucket.
  Bytes part_of(const Buffer& whole, const Site& site) const {
    const std::int64_t padded = program_.parameter_buckets[site.bucket].padded;
    return padded == 0 ? Bytes{} : Bytes{whole.size.count() / padded * site.elements};
  }

  Bytes persistent_size(std::uint32_t index) const {
    const Buffer& buffer = program_.buffers[index];
    // User buffers are the driver's (Transformer Engine, userbuffers-host.cpp,
    // register_user_buffer_collective: cudaMalloc or cuMemCreate).
    const bool drivers = buffer.category == BufferCategory::communication;
    return buffer.persistent && !left_out_[index] && !drivers ? buffer.size : Bytes{};
  }

  Bytes first_size(std::uint32_t index) const {
    const bool state = program_.buffers[index].category == BufferCategory::optimizer;
    return state && flat_.has_masters() ? Bytes{} : persistent_size(index) - moments_size(index);
  }

  Bytes moments_size(std::uint32_t index) const {
    const bool state = program_.buffers[index].category == BufferCategory::optimizer;
    return state ? program_.allocation.moments_of(persistent_size(index)) : Bytes{};
  }

  void replay(OpId op, const Scratch* scratch) {
    if (recorded() != RecordedStreams::none) note_streams(op);
    if (has_flat_) flat_.begin(op);
    replay_tensors(op, scratch);
    if (has_flat_) flat_.end(op);
  }

  void replay_tensors(OpId op, const Scratch* scratch) {
    if (scratch == nullptr) {
      write_results(op);
      free_operands(op);
      return;
    }
    std::array<Blocks, 8> taken;
    for (const ScratchStep& step : *scratch) {
      switch (step.moment) {
        case ScratchMoment::take:
          allocate(taken.at(step.tensor), step.bytes, 1);
          break;
        case ScratchMoment::give:
          pool_.give(taken.at(step.tensor));
          break;
        case ScratchMoment::write_results:
          write_results(op);
          break;
        case ScratchMoment::free_operands:
          free_operands(op);
          break;
      }
    }
  }

  void write_results(OpId op) {
    if (has_units_ && units_.replay(op)) return;
    for (const BufferUse& use : program_.buffer_uses(op)) {
      if (use.access == Access::write) write(op, use.buffer.value);
    }
  }

  void free_operands(OpId op) {
    for (const BufferUse& use : program_.buffer_uses(op)) {
      if (use.access != Access::free) continue;
      if ((has_units_ && units_.release(use.buffer)) || (has_flat_ && flat_.release(use.buffer)))
        continue;
      if (ends_logits(op, use)) {
        held_.push_back(std::move(blocks_[use.buffer.value]));
        blocks_[use.buffer.value].clear();
      } else if (recorded_[use.buffer.value]) {
        Blocks& blocks = blocks_[use.buffer.value];
        waiting_.append(blocks);
        blocks.clear();
      } else {
        pool_.give(blocks_[use.buffer.value]);
      }
      recorded_[use.buffer.value] = false;
    }
    if (program_.kind[op.value] != OpKind::cross_entropy || is_backward(op)) return;
    const auto most = static_cast<std::size_t>(std::max(1, program_.allocation.held_logits));
    while (held_.size() >= most) {
      pool_.give(held_.front());
      held_.pop_front();
    }
  }

  RecordedStreams recorded() const { return program_.allocation.recorded; }

  bool is_exchange(OpId op) const {
    return program_.stream[op.value] == Stream::context_comm &&
           program_.action[op.value] == Action::exchange_tokens;
  }

  // A block that another stream uses is free when the device has done it (ProcessGroupNCCL.cpp,
  // recordStream; CUDACachingAllocator.cpp, process_events). The host does not wait for that: it is
  // layers ahead, until it waits for the device (Program::host_waits). Only collectives within
  // layers or exchanges count: the reduction of gradients is followed by the norm, which is asked
  // for, and messages stay referenced.
  void note_streams(OpId op) {
    for (; host_wait_ != program_.host_waits.end() && host_wait_->before == op; ++host_wait_)
      pool_.give(waiting_);
    const bool of_tensors = recorded() == RecordedStreams::tensor;
    if (of_tensors ? program_.stream[op.value] != Stream::tensor_comm : !is_exchange(op)) return;
    if (program_.host_waits.empty()) return;  // nobody knows how far ahead it is
    for (const BufferUse& use : program_.buffer_uses(op)) {
      if (!program_.buffers[use.buffer.value].persistent) recorded_[use.buffer.value] = true;
    }
  }

  bool is_backward(OpId op) const { return program_.pass[op.value] == Pass::backward; }

  // The logits that the loss has read stay referenced (Execution::held_logits), until the next
  // micro-batch has logits if metrics are taken of them (Composer, composer/trainer/trainer.py,
  // state.outputs).
  bool ends_logits(OpId op, const BufferUse& use) const {
    const Allocation& allocation = program_.allocation;
    const bool held = allocation.held_logits > 1 || allocation.loss_metrics > 0;
    return held && use.role == Role::input && is_backward(op) &&
           program_.kind[op.value] == OpKind::cross_entropy;
  }

  // Whole gradients that persist through a step: each parameter's come when they are written first.
  void write(OpId op, std::uint32_t index) {
    const Buffer& buffer = program_.buffers[index];
    if (has_flat_ && flat_.write_gradient(op, BufferId{index})) return;
    if (has_units_ && units_.write_gradient(op, BufferId{index})) return;
    if (!buffer.persistent) {
      if (!left_out_[index] && !stands_for_held(op, index))
        allocate(blocks_[index], buffer.size, buffer.tensors, stream_of(op));
      return;
    }
    if (!left_out_[index] || !program_.allocation.separate_gradients) return;
    const Action action = program_.action[op.value];
    if (action != Action::weight_gradient && action != Action::backward) return;
    const std::uint32_t site = program_.subject[op.value];
    allocate(gradient_[site], part_of(buffer, program_.sites[site]), 1);
  }

  // The logits of earlier micro-batches are those held here.
  bool stands_for_held(OpId op, std::uint32_t index) const {
    if (program_.allocation.held_logits < 2 || is_backward(op)) return false;
    if (program_.kind[op.value] != OpKind::cross_entropy) return false;
    const auto uses = program_.buffer_uses(op);
    return std::any_of(uses.begin(), uses.end(), [&](const BufferUse& use) {
      return use.buffer.value == index && use.role == Role::output;
    });
  }

  // Megatron-LM's nodes of merged passes make their tensors in their own stream.
  int stream_of(OpId op) const {
    return recorded() == RecordedStreams::exchange && is_exchange(op) ? exchanges : compute;
  }

  void allocate(Blocks& blocks, Bytes size, int tensors, int stream = compute) {
    if (!blocks.empty() || size.count() == 0) return;
    if (tensors == 1) return blocks.push_back(pool_.take(size, stream));
    for (int i = 0; i < tensors; ++i) {
      const Bytes each{size.count() / tensors};
      blocks.push_back(pool_.take(each, stream));
    }
  }

  void wait_for_device() {
    pool_.give(waiting_);
    flat_.wait();
  }

  const Program& program_;
  BlockPool pool_;
  bool has_units_, has_flat_;  // else they have nothing to say
  GatheredUnits units_;
  FlatUnits flat_;
  ParameterBuffers parameters_;
  std::vector<Blocks> blocks_;    // of the buffers that live
  std::vector<Blocks> moments_;   // of Adam
  std::vector<Blocks> gradient_;  // of the parameters of each site
  std::deque<Blocks> held_;       // logits
  std::vector<bool> left_out_;    // buffers that something else stands for
  std::vector<bool> recorded_;    // buffers that a stream of collectives has used
  std::vector<HostWait>::const_iterator host_wait_;  // the next one
  Blocks waiting_;  // given back, and still in use by such a stream
};

}  // namespace

CachedMemory cached_memory(const Program& program, Bytes capacity) {
  return Replay{program, capacity}.run();
}

}  // namespace sim
