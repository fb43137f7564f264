#include "ui/validate/cause_operators.hpp"

#include <algorithm>
#include <set>

#include "sim/explain/activity_class.hpp"
#include "sim/explain/step_account.hpp"

namespace ui {
namespace {

// The pair of the rank; nothing: it is not shown.
std::optional<std::size_t> pair_of(const Overlay& overlay, sim::RankId rank) {
  for (std::size_t pair = 0; pair < overlay.shown; ++pair)
    if (overlay.lanes.groups[2 * pair + 1].rank == rank) return pair;
  return std::nullopt;
}

// With its waiting.
std::int64_t length_of(const Overlay& overlay, const OverlayAt& at) {
  const sim::Span& span = overlay.span(at);
  return (span.end - span.begin).count();
}

// Measured less forecast; of what is on one side only, its own.
std::int64_t difference_of(const Overlay& overlay, const OverlayAt& at) {
  const std::optional<OverlayAt> other = overlay.other(at);
  const std::int64_t own = length_of(overlay, at);
  if (!other) return own;
  return std::abs(own - length_of(overlay, *other));
}

bool is_named(const sim::Program& program, std::uint32_t op, const std::string& kernel) {
  return sim::kernel_words(program.name(sim::OpId{op})) == kernel ||
         sim::operation_words(program, op) == kernel;
}

// Those of the run without a counterpart: kernels of the name, or all collectives.
std::vector<OverlayAt> extra_operators(const Overlay& overlay, std::size_t pair,
                                       sim::TroubleKind kind, const sim::WaterfallItem& item) {
  std::vector<OverlayAt> found;
  const sim::Program& program = overlay.program({pair, 1, 0});
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const OverlayAt at{pair, 1, op};
    if (overlay.other(at)) continue;
    if (kind == sim::TroubleKind::extra_kernels ? is_named(program, op, item.name)
                                                : program.kind[op] == sim::OpKind::collective)
      found.push_back(at);
  }
  return found;
}

std::vector<OverlayAt> item_operators(const Overlay& overlay, std::size_t pair,
                                      sim::TroubleKind kind, const sim::WaterfallItem& item) {
  const bool extra =
      kind == sim::TroubleKind::extra_kernels || kind == sim::TroubleKind::extra_collectives;
  std::vector<OverlayAt> found;
  if (extra) found = extra_operators(overlay, pair, kind, item);
  const std::size_t size = overlay.program({pair, 0, 0}).size();
  for (const std::uint32_t op : item.ops)
    if (op < size) found.push_back({pair, 0, op});
  if (kind >= sim::TroubleKind::host) return found;  // the latest is first
  std::stable_sort(found.begin(), found.end(), [&](const OverlayAt& a, const OverlayAt& b) {
    return difference_of(overlay, a) > difference_of(overlay, b);
  });
  return found;
}

}  // namespace

std::vector<OverlayAt> cause_operators(const Overlay& overlay, const sim::Waterfall& waterfall,
                                       const CauseAt& cause) {
  const std::optional<std::size_t> pair = pair_of(overlay, waterfall.rank);
  if (!pair || cause.part >= waterfall.parts.size()) return {};
  const sim::WaterfallPart& part = waterfall.parts[cause.part];
  std::vector<OverlayAt> all;
  std::set<std::pair<int, std::uint32_t>> known;
  for (std::size_t i = 0; i < part.items.size(); ++i) {
    if (cause.item && *cause.item != i) continue;
    for (const OverlayAt& at : item_operators(overlay, *pair, part.kind, part.items[i]))
      if (known.emplace(at.side, at.op).second) all.push_back(at);
  }
  return all;
}

std::optional<OverlayAt> longest_named(const Overlay& overlay, const std::string& kernel) {
  std::optional<OverlayAt> longest;
  for (std::size_t pair = 0; pair < overlay.shown; ++pair) {
    const sim::Program& program = overlay.program({pair, 1, 0});
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      const OverlayAt at{pair, 1, op};
      if (!is_named(program, op, kernel)) continue;
      if (!longest || length_of(overlay, at) > length_of(overlay, *longest)) longest = at;
    }
  }
  return longest;
}

}  // namespace ui
