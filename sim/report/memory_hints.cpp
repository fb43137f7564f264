#include "sim/report/memory_hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "sim/report/report.hpp"

namespace sim {
namespace {

struct LayoutChange {
  std::string text;  // as the key of the scenario
  Layout layout;
};

// The same GPUs, one choice different.
std::vector<LayoutChange> changes_of(const Layout& base) {
  std::vector<LayoutChange> changes;
  const auto add = [&](std::string text, const std::function<void(Layout&)>& edit) {
    LayoutChange change{std::move(text), base};
    edit(change.layout);
    changes.push_back(std::move(change));
  };
  if (base.micro_batch > 1) add("micro_batch: 1", [](Layout& l) { l.micro_batch = 1; });
  if (base.recompute == Recompute::none && !is_flash(base.attention))
    add("recompute: selective", [](Layout& l) { l.recompute = Recompute::selective; });
  if (base.recompute != Recompute::full || base.recompute_every > 1)
    add("recompute: full", [](Layout& l) {
      l.recompute = Recompute::full;
      l.recompute_every = 1;
      l.recompute_modules.clear();
    });
  if (base.tensor_parallel > 1 && !base.sequence_parallel)
    add("sequence_parallel: true", [](Layout& l) { l.sequence_parallel = true; });
  if (!is_flash(base.attention))
    add("attention: flash", [](Layout& l) { l.attention = AttentionKernel::flash; });
  if (base.data_parallel > 1)
    for (int stage = base.zero_stage + 1; stage <= 3; ++stage)
      add(fmt::format("zero_stage: {}", stage), [stage](Layout& l) { l.zero_stage = stage; });
  if (base.data_parallel % 2 == 0) {
    add(fmt::format("tensor_parallel: {}, data_parallel: {}", base.tensor_parallel * 2,
                    base.data_parallel / 2),
        [](Layout& l) {
          l.tensor_parallel *= 2;
          l.data_parallel /= 2;
        });
    add(fmt::format("pipeline_parallel: {}, data_parallel: {}", base.pipeline_parallel * 2,
                    base.data_parallel / 2),
        [](Layout& l) {
          l.pipeline_parallel *= 2;
          l.data_parallel /= 2;
          l.layers_per_chunk.clear();
        });
  }
  return changes;
}

}  // namespace

std::vector<std::string> memory_hints(const Model& model, const Layout& given,
                                      const Cluster& cluster) {
  constexpr std::size_t most = 4;
  struct Outcome {
    std::string text;
    Bytes total;
    Bytes capacity;
  };
  std::vector<Outcome> outcomes;
  const auto worst = [&](const Layout& layout) {
    Bytes total{};
    for (const StageMemory& stage : stage_memory(make_plan(model, layout), cluster))
      total = std::max(total, stage.total);
    return total;
  };
  const Bytes now = worst(given);
  for (const LayoutChange& change : changes_of(given)) {
    if (!layout_problems(change.layout, model).empty()) continue;
    const Bytes total = worst(change.layout);
    if (total < now) outcomes.push_back({change.text, total, cluster.device().memory});
  }
  // Changes that suffice come first, the mildest of them (most memory kept in use) before others.
  std::stable_sort(outcomes.begin(), outcomes.end(), [](const Outcome& a, const Outcome& b) {
    const bool a_fits = a.total <= a.capacity;
    const bool b_fits = b.total <= b.capacity;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a.total > b.total : a.total < b.total;
  });
  std::vector<std::string> hints;
  for (const Outcome& outcome : outcomes) {
    if (hints.size() == most) break;
    hints.push_back(fmt::format("{} -> {:.1f} GiB{}", outcome.text, outcome.total.gib(),
                                outcome.total <= outcome.capacity ? ", fits" : ""));
  }
  if (hints.empty()) hints.emplace_back("no single change of the layout lowers it: use more GPUs");
  return hints;
}

}  // namespace sim
