#include "sim/schedule/schedule.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

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

std::vector<Slot> interleaved(int micro_batches, int stages, int chunks, int warmup) {
  const int total = micro_batches * chunks;
  std::vector<Slot> slots;
  slots.reserve(2 * static_cast<std::size_t>(total));
  for (int k = 0; k < warmup; ++k) {
    slots.push_back(interleaved_slot(k, stages, chunks, SlotKind::forward));
  }
  for (int k = 0; k < total; ++k) {
    if (k + warmup < total) {
      slots.push_back(interleaved_slot(k + warmup, stages, chunks, SlotKind::forward));
    }
    slots.push_back(interleaved_slot(k, stages, chunks, SlotKind::backward));
  }
  return slots;
}

}  // namespace

int interleaved_warmup(const Layout& layout, int stage) {
  const int stages = layout.pipeline_parallel;
  const int total = static_cast<int>(layout.micro_batches()) * layout.virtual_stages;
  return std::min(2 * (stages - stage - 1) + (layout.virtual_stages - 1) * stages, total);
}

std::vector<Slot> schedule_of(const Layout& layout, int stage) {
  const int stages = layout.pipeline_parallel;
  const int micro_batches = static_cast<int>(layout.micro_batches());
  SIM_CHECK(stage >= 0 && stage < stages, stage, stages);
  switch (layout.schedule) {
    case Schedule::gpipe:
      return gpipe(micro_batches);
    case Schedule::one_f_one_b:
      return one_f_one_b(micro_batches, stages - stage - 1, false, 0);
    case Schedule::zb_h1:
      return one_f_one_b(micro_batches, stages - stage - 1, true, stage);
    case Schedule::interleaved:
      return interleaved(micro_batches, stages, layout.virtual_stages,
                         interleaved_warmup(layout, stage));
  }
  SIM_CHECK(false, static_cast<int>(layout.schedule));
  return {};
}

}  // namespace sim
