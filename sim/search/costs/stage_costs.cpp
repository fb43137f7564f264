#include "sim/search/costs/stage_costs.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

// The blocks of a chunk in forward order, with how each is recomputed.
struct ChunkBlock {
  const BlockCosts* costs = nullptr;
  bool again = false;
};

void add_block(const ChunkBlock& block, ChunkCosts& chunk) {
  const BlockCosts& costs = *block.costs;
  chunk.forward += costs.forward;
  chunk.backward += costs.recompute + costs.backward;
  chunk.weight += costs.weight;
  chunk.kernels += costs.kernels;
  chunk.persistent += costs.persistent;
  chunk.launches += costs.launches;
  chunk.parts += costs.parts;
  chunk.held += costs.forward_left;
  chunk.held_for_weights += costs.weight_freed;
  chunk.parameters += costs.parameters;
  chunk.expert_parameters += costs.expert_parameters;
  chunk.frozen_bytes += costs.frozen_bytes;
}

// Takes from a chunk what its layer at `index` of `layers` has on the host between its passes. What
// the first one sends may be more, with the input that came, or less, where another block holds it.
void send_layer(const Layout& layout, int index, int layers, const BlockCosts& costs,
                ChunkCosts& chunk) {
  if (!layout.offloads_activations()) return;
  if (index >= (layout.offload_layers > 0 ? layout.offload_layers : layers - 1)) return;
  chunk.held -= costs.sent;
  if (index > 0) chunk.sending += costs.sending;
}

// Backward from the last block on: what is alive beside what the forward passes left behind.
void find_most_in_backward(const std::vector<ChunkBlock>& blocks, std::int64_t gradient,
                           ChunkCosts& chunk) {
  std::int64_t now = gradient;
  chunk.most_in_backward = chunk.most_gathered = gradient;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    const BlockCosts& costs = *blocks[i].costs;
    const std::int64_t backward = now + costs.recompute_left;
    chunk.most_in_backward = std::max(
        {chunk.most_in_backward, now + costs.recompute_most, backward + costs.backward_most});
    chunk.most_gathered = std::max({chunk.most_gathered, now + costs.recompute_most_gathered,
                                    backward + costs.backward_most_gathered});
    now = backward + costs.backward_left;
  }
}

std::int64_t passes_of(const ChunkCosts& chunk) {
  return chunk.forward + chunk.backward + chunk.weight;
}

}  // namespace

std::vector<ChunkCosts> chunk_costs(const Layout& layout, const ModelCosts& plain,
                                    const ModelCosts& checkpointed, bool tied) {
  const std::vector<int> split = layers_of_chunks(layout, plain.of_layer.size());
  std::vector<ChunkCosts> chunks(split.size());
  std::vector<ChunkBlock> blocks;
  int layer = 0;
  for (std::size_t c = 0; c < split.size(); ++c) {
    const bool first = c == 0, last = c + 1 == split.size();
    blocks.clear();
    if (first) blocks.push_back({&plain.input});
    ChunkCosts& chunk = chunks[c];
    for (int i = 0; i < split[c]; ++i, ++layer) {
      const bool again = layout.recomputes_layer(i);
      blocks.push_back({&(again ? checkpointed : plain).layer(layer), again});
      send_layer(layout, i, split[c], *blocks.back().costs, chunk);
    }
    if (last) blocks.push_back({&plain.output});
    for (const ChunkBlock& block : blocks)
      add_block(block, chunk);
    if (!first && !layout.offloads_activations()) chunk.held += plain.boundary;
    if (!last) chunk.held -= plain.largest_boundary;
    chunk.held = std::max<std::int64_t>(0, chunk.held);
    chunk.held_for_weights = std::min(chunk.held, chunk.held_for_weights);
    find_most_in_backward(blocks, last ? 0 : plain.boundary, chunk);
    if (blocks.empty()) continue;
    const BlockCosts& begins = *blocks.back().costs;
    chunk.after_gradient = chunk.backward - begins.recompute - begins.backward_head;
    chunk.tail = blocks.front().costs->backward_tail;
    const bool elsewhere = !Placement{layout}.ends_where_it_begins();
    if (last && elsewhere && tied) chunk.parameters += plain.output.shared;
  }
  return chunks;
}

namespace {

// A backward pass of the chunk beside what is held.
ActivationBytes beside(std::int64_t held, const ChunkCosts& chunk) {
  return {held + chunk.most_in_backward, held + chunk.most_gathered};
}

// The loop schedules, in closed form: at the first backward pass.
ActivationBytes bytes_in_loop(const Layout& layout, std::span<const ChunkCosts> chunks, int stage) {
  const auto stages = static_cast<std::int64_t>(layout.pipeline_parallel);
  const auto at = [&](std::int64_t local) -> const ChunkCosts& {
    return chunks[static_cast<std::size_t>(local * stages + stage)];
  };
  const std::int64_t micro_batches = layout.run_batches();
  if (layout.schedule != Schedule::interleaved) {
    const std::int64_t alive = layout.schedule == Schedule::gpipe
                                   ? micro_batches
                                   : std::min<std::int64_t>(stages - stage, micro_batches);
    return beside(alive * at(0).held, at(0));
  }
  // Warm-up and one more: groups of `stages` micro-batches go through the chunks in turn.
  const std::int64_t repeats = layout.virtual_stages;
  const std::int64_t passes =
      std::min<std::int64_t>(interleaved_warmup(layout, stage) + 1, micro_batches * repeats);
  const std::int64_t round = stages * repeats;
  std::int64_t bytes = 0;
  for (std::int64_t local = 0; local < repeats; ++local) {
    const std::int64_t in_last_round =
        std::clamp<std::int64_t>(passes % round - local * stages, 0, stages);
    bytes += (passes / round * stages + in_last_round) * at(local).held;
  }
  return beside(bytes, at(repeats - 1));
}

ActivationBytes bytes_in_order(const std::vector<Slot>& order, const Placement& placement,
                               std::span<const ChunkCosts> chunks, int stage) {
  std::int64_t held = 0;
  ActivationBytes most;
  for (const Slot& slot : order) {
    const ChunkCosts& chunk =
        chunks[static_cast<std::size_t>(placement.chunk_of(stage, slot.chunk))];
    if (slot.kind == SlotKind::forward) held += chunk.held;
    if (slot.kind == SlotKind::weight_backward) held -= chunk.held_for_weights;
    if (slot.kind != SlotKind::backward) continue;
    const ActivationBytes here = beside(held, chunk);
    most = {std::max(most.plain, here.plain), std::max(most.gathered, here.gathered)};
    held -= chunk.held - chunk.held_for_weights;
  }
  return most;
}

}  // namespace

namespace {

// begin_of() cuts a ZB-H1 run to as many micro-batches as it takes until the first stage's weight
// gradients keep up with the rest: more micro-batches hold no more.
Layout begin_of(Layout layout) {
  if (layout.schedule != Schedule::zb_h1) return layout;
  const std::int64_t some =
      std::min<std::int64_t>(layout.run_batches(), std::int64_t{3} * layout.pipeline_parallel);
  layout.pipeline_runs = 1;
  layout.replica_batches.clear();
  layout.global_batch = some * layout.micro_batch * layout.data_parallel;
  return layout;
}

}  // namespace

std::vector<ActivationBytes> activation_bytes(const Layout& layout,
                                              std::span<const ChunkCosts> chunks) {
  std::vector<ActivationBytes> bytes;
  if (!splits_backward(layout.schedule)) {
    for (int stage = 0; stage < layout.pipeline_parallel; ++stage)
      bytes.push_back(bytes_in_loop(layout, chunks, stage));
    return bytes;
  }
  int stage = 0;
  for (const std::vector<Slot>& order : schedule_of(begin_of(layout)))
    bytes.push_back(bytes_in_order(order, Placement{layout}, chunks, stage++));
  return bytes;
}

std::int64_t least_step(const Layout& layout, std::span<const ChunkCosts> chunks) {
  const auto stages = static_cast<std::size_t>(layout.pipeline_parallel);
  const bool split = splits_backward(layout.schedule);
  const std::int64_t micro_batches = layout.micro_batches();
  const Placement placement{layout};
  std::vector<std::int64_t> busy_of(stages, 0);
  for (std::size_t c = 0; c < chunks.size(); ++c)
    busy_of[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))] +=
        passes_of(chunks[c]) * micro_batches;
  std::int64_t arrival = 0, departure = 0, least = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const std::int64_t busy = busy_of[s];
    // A stage's last pass is the backward pass of its first chunk; the stages before it follow.
    const std::int64_t after = split ? 0 : departure - (s > 0 ? chunks[s].tail : 0);
    least = std::max(least, arrival + busy + std::max<std::int64_t>(0, after));
    arrival += chunks[s].forward;
    departure += chunks[s].after_gradient - (s > 0 ? chunks[s].tail : 0);
  }
  return least;
}

namespace {

// The schedule at the grain of passes: each begins when its stage is free and its input is there.
class PassReplay {
 public:
  PassReplay(const Layout& layout, std::span<const ChunkCosts> chunks,
             std::span<const MessageTimes> messages)
      : layout_{layout},
        placement_{layout},
        chunks_{chunks},
        messages_{messages},
        stages_{static_cast<std::size_t>(layout.pipeline_parallel)},
        micro_batches_{static_cast<std::size_t>(layout.micro_batches())},
        waits_for_send_{!layout.overlap_pipeline && layout.schedule != Schedule::interleaved &&
                        layout.pipeline_parallel > 1},
        forward_(chunks.size() * micro_batches_, not_yet),
        backward_(chunks.size() * micro_batches_, not_yet),
        order_(schedule_of(layout)),
        done_(stages_, 0),
        times_(stages_) {}

  std::vector<StageTimes> run() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t s = 0; s < stages_; ++s)
        while (done_[s] < order_[s].size() && pass(s))
          any = true;
    }
    for (std::size_t s = 0; s < stages_; ++s)
      SIM_CHECK(done_[s] == order_[s].size(), s, done_[s]);
    return std::move(times_);
  }

 private:
  static constexpr std::int64_t not_yet = -1;

  static std::int64_t arrives_after(const MessageTimes& message) {
    return message.transfer + message.gather;
  }

  // Over the boundary between chunk - 1 and `chunk`.
  std::int64_t arrives_over(std::size_t chunk) const {
    const int from = static_cast<int>(chunk) - 1;
    const int step = placement_.step_behind(from);
    if (step == 0) return 0;
    const int link = placement_.rank_of(step > 0 ? from : from + 1);
    return arrives_after(messages_[static_cast<std::size_t>(link)]);
  }

  // The next pass of a stage; false: it waits for another stage.
  bool pass(std::size_t s) {
    const Slot& slot = order_[s][done_[s]];
    const auto c = static_cast<std::size_t>(placement_.chunk_of(static_cast<int>(s), slot.chunk));
    const auto batch = static_cast<std::size_t>(slot.microbatch);
    const std::int64_t start = times_[s].end;
    if (slot.kind == SlotKind::forward) {
      if (!forward(s, c, batch)) return false;
    } else if (slot.kind == SlotKind::backward) {
      if (!backward(s, c, batch)) return false;
    } else {
      times_[s].end = start + chunks_[c].weight;
    }
    if (completes(slot)) times_[s].last_start = start;
    ++done_[s];
    return true;
  }

  bool forward(std::size_t s, std::size_t c, std::size_t batch) {
    std::int64_t arrived = 0;
    if (c > 0) {
      arrived = forward_[(c - 1) * micro_batches_ + batch];
      if (arrived == not_yet) return false;
      arrived += arrives_over(c);
    }
    std::int64_t& end = times_[s].end;
    end = std::max(end, arrived) + chunks_[c].forward;
    forward_[c * micro_batches_ + batch] = end;
    if (waits_for_send_ && c + 1 < chunks_.size()) end += messages_[s].transfer;
    return true;
  }

  bool backward(std::size_t s, std::size_t c, std::size_t batch) {
    std::int64_t arrived = 0;
    if (c + 1 < chunks_.size()) {
      arrived = backward_[(c + 1) * micro_batches_ + batch];
      if (arrived == not_yet) return false;
      arrived += arrives_over(c + 1);
    }
    const ChunkCosts& chunk = chunks_[c];
    std::int64_t& end = times_[s].end;
    end = std::max(end + chunk.backward, arrived + chunk.after_gradient);
    backward_[c * micro_batches_ + batch] = end - chunk.tail;
    if (waits_for_send_ && c > 0) end = std::max(end, end - chunk.tail + messages_[s - 1].transfer);
    return true;
  }

  // The pass after which the weights of its chunk have all their gradients. GPipe goes back from
  // the last micro-batch to the first.
  bool completes(const Slot& slot) const {
    const std::size_t last = layout_.schedule == Schedule::gpipe ? 0 : micro_batches_ - 1;
    return slot.kind == (splits_backward(layout_.schedule) ? SlotKind::weight_backward
                                                           : SlotKind::backward) &&
           static_cast<std::size_t>(slot.microbatch) == last &&
           slot.chunk + 1 == layout_.virtual_stages;
  }

  const Layout& layout_;
  Placement placement_;
  std::span<const ChunkCosts> chunks_;
  std::span<const MessageTimes> messages_;  // from each stage to the next
  std::size_t stages_, micro_batches_;
  bool waits_for_send_;
  std::vector<std::int64_t> forward_, backward_;  // when a chunk's output, its gradient, are there
  std::vector<std::vector<Slot>> order_;
  std::vector<std::size_t> done_;
  std::vector<StageTimes> times_;
};

}  // namespace

std::vector<StageTimes> busy_times(const Layout& layout, std::span<const ChunkCosts> chunks) {
  std::vector<StageTimes> times(static_cast<std::size_t>(layout.pipeline_parallel));
  const Placement placement{layout};
  for (std::size_t c = 0; c < chunks.size(); ++c)
    times[static_cast<std::size_t>(placement.rank_of(static_cast<int>(c)))].end +=
        passes_of(chunks[c]) * layout.micro_batches();
  std::int64_t arrival = 0;
  for (std::size_t s = 0; s < times.size(); ++s) {
    times[s].end += arrival;
    arrival += chunks[s].forward;
  }
  return times;
}

std::vector<StageTimes> schedule_times(const Layout& layout, std::span<const ChunkCosts> chunks,
                                       std::span<const MessageTimes> messages) {
  return PassReplay{layout, chunks, messages}.run();
}

}  // namespace sim
