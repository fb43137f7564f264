#include "sim/schedule/schedule.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/schedule/controllable_memory.hpp"
#include "sim/schedule/dual_pipe_v.hpp"

namespace sim {
namespace {

std::vector<Slot> gpipe(int micro_batches) {
  std::vector<Slot> slots;
  slots.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < micro_batches; ++i)
    slots.push_back({SlotKind::forward, 0, i});
  // The last micro-batch comes back first, as in GPipe's figure 2c: its activations are the newest.
  for (int i = micro_batches; i-- > 0;)
    slots.push_back({SlotKind::backward, 0, i});
  return slots;
}

// `lag` weight-gradient passes are held back, to fill the wait for the gradient of the next stage;
// split == false: there are none.
std::vector<Slot> one_f_one_b(int micro_batches, int warmup, bool split, int lag) {
  std::vector<Slot> slots;
  slots.reserve((split ? 3 : 2) * static_cast<std::size_t>(micro_batches));
  const int ahead = std::min(warmup, micro_batches);
  int weights = 0;
  const auto backward = [&](int i) {
    slots.push_back({SlotKind::backward, 0, i});
    if (split && i >= lag) slots.push_back({SlotKind::weight_backward, 0, weights++});
  };
  for (int i = 0; i < ahead; ++i)
    slots.push_back({SlotKind::forward, 0, i});
  for (int i = 0; i < micro_batches; ++i) {
    if (i + ahead < micro_batches) slots.push_back({SlotKind::forward, 0, i + ahead});
    backward(i);
  }
  while (split && weights < micro_batches) {
    slots.push_back({SlotKind::weight_backward, 0, weights++});
  }
  return slots;
}

// Megatron's order: groups of P micro-batches go through the chunks of a rank in turn.
Slot interleaved_slot(int k, int stages, int chunks, SlotKind kind) {
  const int round = stages * chunks;
  const int chunk = k % round / stages;
  return {kind, kind == SlotKind::forward ? chunk : chunks - 1 - chunk,
          k / round * stages + k % stages};
}

// `lag` weight-gradient passes are held back; split == false: there are none.
std::vector<Slot> interleaved(int micro_batches, int stages, int chunks, int warmup, bool split,
                              int lag) {
  const int total = micro_batches * chunks;
  std::vector<Slot> slots;
  slots.reserve((split ? 3 : 2) * static_cast<std::size_t>(total));
  const auto add = [&](int k, SlotKind kind) {
    slots.push_back(interleaved_slot(k, stages, chunks, kind));
  };
  for (int k = 0; k < warmup; ++k)
    add(k, SlotKind::forward);
  int weights = 0;
  for (int k = 0; k < total; ++k) {
    if (k + warmup < total) add(k + warmup, SlotKind::forward);
    add(k, SlotKind::backward);
    if (split && k >= lag) add(weights++, SlotKind::weight_backward);
  }
  while (split && weights < total)
    add(weights++, SlotKind::weight_backward);
  return slots;
}

// PyTorch's order, made for as many micro-batches as fill the pipeline; those that there are not
// are left out.
class ZeroBubbleV {
 public:
  ZeroBubbleV(int rank, int stages, int micro_batches)
      : rank_{rank}, stages_{stages}, micro_batches_{micro_batches} {}

  std::vector<Slot> order() {
    const int all = std::max(2 * stages_ - 1, micro_batches_);
    const int behind = stages_ - rank_;
    for (int i = 0; i < 2 * behind - 1; ++i)
      add(SlotKind::forward, 0);
    for (int i = 0; i < rank_; ++i) {
      add(SlotKind::forward, 1);
      add(SlotKind::forward, 0);
    }
    for (int i = 0; i < behind; ++i) {
      add(SlotKind::forward, 1);
      whole_backward(1);
    }
    while (forwards(1) < forwards(0) || forwards(0) < all) {
      if (forwards(0) < all) add(SlotKind::forward, 0);
      whole_backward(0);
      add(SlotKind::forward, 1);
      whole_backward(1);
    }
    for (int i = 0; i < rank_; ++i) {
      add(SlotKind::backward, 0);
      add(SlotKind::backward, 1);
    }
    for (int i = 0; i < behind; ++i) {
      add(SlotKind::backward, 0);
      add(SlotKind::weight_backward, 0);
    }
    for (const int chunk : {1, 0})
      while (count(SlotKind::weight_backward, chunk) < count(SlotKind::backward, chunk))
        add(SlotKind::weight_backward, chunk);
    return std::move(slots_);
  }

 private:
  int& count(SlotKind kind, int chunk) {
    return next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)];
  }
  int forwards(int chunk) { return count(SlotKind::forward, chunk); }
  void add(SlotKind kind, int chunk) {
    const int microbatch = count(kind, chunk)++;
    if (microbatch < micro_batches_) slots_.push_back({kind, chunk, microbatch});
  }
  void whole_backward(int chunk) {
    add(SlotKind::backward, chunk);
    add(SlotKind::weight_backward, chunk);
  }

  int rank_, stages_, micro_batches_;
  std::array<std::array<int, 2>, 3> next_{};
  std::vector<Slot> slots_;
};

std::vector<Slot> of_rank(const Layout& layout, int rank, int stages, int micro_batches) {
  switch (layout.schedule) {
    case Schedule::gpipe:
      return gpipe(micro_batches);
    case Schedule::one_f_one_b:
      return one_f_one_b(micro_batches, stages - rank - 1, false, 0);
    case Schedule::zb_h1:
      return one_f_one_b(micro_batches, stages - rank - 1, true, rank);
    case Schedule::interleaved:
    case Schedule::interleaved_zb:
      return interleaved(micro_batches, stages, layout.virtual_stages,
                         interleaved_warmup(layout, rank), splits_backward(layout.schedule), rank);
    case Schedule::zb_v:
      return ZeroBubbleV{rank, stages, micro_batches}.order();
    case Schedule::dual_pipe_v:
      return dual_pipe_v(rank, stages, micro_batches);
    case Schedule::v_half:
    case Schedule::v_min:
      break;  // of all ranks at once
  }
  SIM_CHECK(false, static_cast<int>(layout.schedule));
  return {};
}

std::vector<std::vector<Slot>> order_of_run(const Layout& layout) {
  if (layout.schedule == Schedule::v_half || layout.schedule == Schedule::v_min)
    return controllable_memory(layout);
  const int stages = layout.pipeline_parallel;
  const int micro_batches = static_cast<int>(layout.run_batches());
  std::vector<std::vector<Slot>> ranks;
  ranks.reserve(static_cast<std::size_t>(stages));
  for (int rank = 0; rank < stages; ++rank)
    ranks.push_back(of_rank(layout, rank, stages, micro_batches));
  return ranks;
}

// The order of a run becomes that of a step: each run has micro-batches of its own.
void repeat(const Layout& layout, std::vector<Slot>& order) {
  const std::size_t each = order.size();
  order.reserve(each * static_cast<std::size_t>(layout.pipeline_runs));
  for (int run = 1; run < layout.pipeline_runs; ++run) {
    const int first = run * static_cast<int>(layout.run_batches());
    for (std::size_t i = 0; i < each; ++i)
      order.push_back({order[i].kind, order[i].chunk, first + order[i].microbatch});
  }
}

}  // namespace

int interleaved_warmup(const Layout& layout, int stage) {
  const int stages = layout.pipeline_parallel;
  const int total = static_cast<int>(layout.run_batches()) * layout.virtual_stages;
  const int each = splits_backward(layout.schedule) ? 1 : 2;
  // Merged pairs are of micro-batches that do not wait for each other (Megatron-LM,
  // core/pipeline_parallel/schedules.py, get_pp_rank_microbatches).
  const int ahead = layout.overlap_expert_exchange ? 1 : 0;
  return std::min(each * (stages - stage - 1) + (layout.virtual_stages - 1) * stages + ahead,
                  total);
}

std::vector<std::vector<Slot>> schedule_of(const Layout& layout) {
  const ScheduleRules& rules = rules_of(layout.schedule);
  SIM_CHECK(
      layout.run_batches() >= std::int64_t{rules.batches_per_stage} * layout.pipeline_parallel &&
          layout.virtual_stages >= rules.least_chunks,
      layout.run_batches(), layout.virtual_stages);
  std::vector<std::vector<Slot>> ranks = order_of_run(layout);
  for (std::vector<Slot>& order : ranks)
    repeat(layout, order);
  return ranks;
}

}  // namespace sim
