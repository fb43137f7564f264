#include "sim/capacity/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/table_text.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

// The point with the least of `of`, among those that pass; none: the number of points.
template <class Passes, class Of>
std::size_t least(const CapacityPlan& plan, Passes passes, Of of) {
  std::size_t found = plan.points.size();
  for (std::size_t i = 0; i < plan.points.size(); ++i)
    if (passes(plan.points[i]) &&
        (found == plan.points.size() || of(plan.points[i]) < of(plan.points[found])))
      found = i;
  return found;
}

// Why fewer GPUs do not do: what the number below on the ladder of the same cluster lacks.
std::string below_text(const CapacityPlan& plan, const CapacityPoint& point) {
  const CapacityMiss* miss = nullptr;
  for (const CapacityMiss& one : plan.misses)
    if (one.cluster == point.cluster && one.gpus < point.gpus && (!miss || one.gpus > miss->gpus))
      miss = &one;
  const CapacityPoint* below = nullptr;
  for (const CapacityPoint& one : plan.points)
    if (one.cluster == point.cluster && one.gpus < point.gpus && (!below || one.gpus > below->gpus))
      below = &one;
  if (below && (!miss || below->gpus > miss->gpus) && below->run)
    return fmt::format("time: {} GPUs take {} days, in time with {:.0f} %", below->gpus,
                       significant(below->days()), 100 * below->chance);
  return miss ? fmt::format("memory: {} GPUs, {}", miss->gpus, miss->why) : std::string{};
}

// Where the best layout has something on the host: the fewest GPUs whose best has nothing there.
// Empty: nothing to say.
std::string without_offload(const CapacityPlan& plan, const CapacityPoint& point) {
  if (point.offloaded().empty()) return {};
  const CapacityPoint* without = nullptr;
  for (const CapacityPoint& one : plan.points)
    if (one.cluster == point.cluster && one.leaves_margin && one.offloaded().empty() &&
        (!without || one.gpus < without->gpus))
      without = &one;
  return without ? fmt::format("the best layout of {} GPUs does without {}", without->gpus,
                               point.offloaded())
                 : fmt::format("no number's best layout does without {}", point.offloaded());
}

struct NamedPart {
  const char* name;
  Duration Breakdown::*part;
};
constexpr std::array named_parts{
    NamedPart{"compute", &Breakdown::compute},
    NamedPart{"exposed tensor communication", &Breakdown::exposed_tensor},
    NamedPart{"exposed context communication", &Breakdown::exposed_context},
    NamedPart{"exposed expert communication", &Breakdown::exposed_expert},
    NamedPart{"exposed data communication", &Breakdown::exposed_data},
    NamedPart{"exposed pipeline communication", &Breakdown::exposed_pipeline},
    NamedPart{"the pipeline's bubble", &Breakdown::bubble},
    NamedPart{"the host", &Breakdown::host}};

// The part that takes most of the step; and the batch, where no larger number divides it.
std::string largest_part(const CapacityPlan& plan, const CapacityPoint& point) {
  const auto most = std::ranges::max_element(
      named_parts, {}, [&](const NamedPart& part) { return point.best.breakdown.*part.part; });
  const double share = to_seconds(point.best.breakdown.*most->part) /
                       std::max(1e-12, to_seconds(point.best.evaluation.step_time));
  std::string text = fmt::format("{}, {:.0f} % of the step", most->name, 100 * share);
  const auto split = std::ranges::find_if(plan.misses, [&](const CapacityMiss& miss) {
    return miss.cluster == point.cluster && miss.gpus > point.gpus;
  });
  if (split != plan.misses.end()) text += fmt::format("; on {} GPUs {}", split->gpus, split->why);
  return text;
}

void find_front(CapacityPlan& plan) {
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const CapacityPoint& one = plan.points[i];
    if (!one.run || one.days() <= 0) continue;
    const bool beaten = std::ranges::any_of(plan.points, [&](const CapacityPoint& other) {
      return other.run && other.days() > 0 && other.days() <= one.days() &&
             other.price() <= one.price() &&
             (other.days() < one.days() || other.price() < one.price());
    });
    if (!beaten) plan.front.push_back(i);
  }
  std::ranges::sort(plan.front, {}, [&](std::size_t i) { return plan.points[i].days(); });
}

std::string closest_text(const CapacityPlan& plan) {
  const CapacityWish& wish = plan.wish;
  if (plan.points.empty()) {
    std::string text = fmt::format("nothing fits on up to {} GPUs", grouped(wish.most_gpus));
    if (!plan.misses.empty())
      text += fmt::format("; closest: {} x {}: {}", plan.misses.back().gpus,
                          plan.misses.back().cluster, plan.misses.back().why);
    return text + (plan.wish.offload
                       ? "; raise --max-gpus"
                       : "; raise --max-gpus, or look at offloaded layouts (--offload)");
  }
  const auto has_margin = [](const CapacityPoint& point) { return point.leaves_margin; };
  if (std::ranges::none_of(plan.points, has_margin)) {
    const CapacityPoint& last = plan.points.back();
    return fmt::format(
        "no layout leaves the memory margin on up to {} GPUs; closest: {} x {}: {:.1f} of {:.1f} "
        "GiB; raise --max-gpus, or set layout.offload",
        grouped(wish.most_gpus), last.gpus, last.cluster, last.best.evaluation.memory.gib(),
        last.capacity.gib());
  }
  const std::size_t best =
      least(plan, has_margin, [](const CapacityPoint& point) { return -point.chance; });
  const CapacityPoint& point = plan.points[best];
  std::string text = fmt::format(
      "no number of GPUs keeps the wish with {:.0f} %; closest: {} x {}, {} days{}, "
      "with {:.0f} %",
      100 * wish.confidence, point.gpus, point.cluster, significant(point.days()),
      point.cost ? fmt::format(" and {} {}", significant(*point.cost), wish.prices.currency)
                 : std::string{},
      100 * point.chance);
  if (point.run && point.run->rented.ends()) {
    const double days = in_days(point.run->rented.quantile(wish.confidence));
    text += fmt::format("; {} days would be kept", significant(days));
  }
  return text;
}

// The interval of a point after a run of another that took as long as forecast.
TimeInterval interval_after(const TimeErrors& errors, const CapacityPoint& measured,
                            const CapacityPoint& point) {
  AnchorRun run{};
  run.traits = *measured.best.traits;
  run.measured = run.forecast = run.anchored = measured.best.evaluation.step_time;
  return errors.anchored({.device = point.device, .framework = run.traits.framework, .runs = {run}})
      .interval(*point.best.traits);
}

// How much surer the point's time would be after one run on at most a quarter of its GPUs: the run
// that says most, and of those that say almost as much the smallest. Empty: none narrows it by a
// tenth.
std::string measure_text(const CapacityPlan& plan, const CapacityPoint& point) {
  constexpr double least_gain = 0.9, almost = 0.98;
  const std::optional<TimeErrors>& errors = shipped_time_errors();
  if (!errors || !point.run || !point.best.traits || !point.best.interval) return {};
  const CapacityPoint* best = nullptr;
  const TimeInterval& before = *point.best.interval;
  const auto width = [](const TimeInterval& of) { return std::log(of.high / of.low); };
  TimeInterval after = before;
  for (const CapacityPoint& small : plan.points) {
    if (small.cluster != point.cluster || 4 * small.gpus > point.gpus || !small.best.traits)
      continue;
    const TimeInterval interval = interval_after(*errors, small, point);
    if (width(interval) >= width(best ? after : before) * (best ? almost : least_gain)) continue;
    best = &small;
    after = interval;
  }
  if (!best) return {};
  const double days = point.days();
  return fmt::format(
      "one measured run on {} x {} ({}) narrows {} to {} days to {} to {}, should it take as long "
      "as forecast: `stepcast anchor`",
      best->gpus, best->cluster, best->layout, significant(days * before.low),
      significant(days * before.high), significant(days * after.low),
      significant(days * after.high));
}

}  // namespace

bool keeps(const CapacityWish& wish, const CapacityPoint& point) {
  return point.leaves_margin && (!point.run || (point.run->fits && point.run->rented.ends() &&
                                                point.chance >= wish.confidence));
}

void answer(CapacityPlan& plan) {
  find_front(plan);
  const auto add = [&](CapacityGoal goal, std::size_t point, bool by_below) {
    if (point == plan.points.size()) return;
    const CapacityPoint& of = plan.points[point];
    std::string binds = by_below ? below_text(plan, of) : largest_part(plan, of);
    const std::string without =
        goal == CapacityGoal::fewest_that_fit ? without_offload(plan, of) : std::string{};
    if (!without.empty()) binds += (binds.empty() ? "" : "; ") + without;
    plan.answers.push_back({goal, point, binds});
  };
  const auto kept = [&](const CapacityPoint& point) { return keeps(plan.wish, point); };
  const auto gpus = [](const CapacityPoint& point) { return point.gpus; };
  const auto fits = [](const CapacityPoint& point) { return point.leaves_margin; };
  add(CapacityGoal::fewest_that_fit, least(plan, fits, gpus), true);
  if (plan.wish.tokens) {
    if (plan.wish.deadline || plan.wish.money)
      add(CapacityGoal::fewest, least(plan, kept, gpus), true);
    const auto priced = [&](const CapacityPoint& point) { return kept(point) && point.cost; };
    add(CapacityGoal::cheapest,
        least(plan, priced, [](const CapacityPoint& point) { return *point.cost; }), false);
    add(CapacityGoal::fastest,
        least(plan, kept, [](const CapacityPoint& point) { return point.days(); }), false);
    add(CapacityGoal::least_energy,
        least(plan, kept, [](const CapacityPoint& point) { return point.kwh; }), false);
  }
  if (plan.points.empty() || std::ranges::none_of(plan.points, kept))
    plan.closest = closest_text(plan);
  else if (plan.answers.size() > 1)
    plan.measure = measure_text(plan, plan.points[plan.answers[1].point]);
}

std::string_view goal_words(CapacityGoal goal, bool with_deadline) {
  switch (goal) {
    case CapacityGoal::fewest_that_fit:
      return "fewest GPUs that fit";
    case CapacityGoal::fewest:
      return with_deadline ? "fewest GPUs in time" : "fewest GPUs within the money";
    case CapacityGoal::cheapest:
      return "cheapest";
    case CapacityGoal::fastest:
      return "fastest";
    case CapacityGoal::least_energy:
      return "least energy";
  }
  return "";
}

}  // namespace sim
