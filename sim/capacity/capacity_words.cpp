#include "sim/capacity/capacity_words.hpp"

#include <fmt/format.h>

#include "sim/base/table_text.hpp"

namespace sim {

std::string days_text(const CapacityPoint& point) {
  if (!point.run || !point.run->rented.ends()) return "-";
  const RunForecast& rented = point.run->rented;
  return fmt::format("{} ({} to {})", significant(point.days()),
                     significant(in_days(rented.quantile(0.025))),
                     significant(in_days(rented.quantile(0.975))));
}

std::string money_text(const CapacityPlan& plan, const CapacityPoint& point) {
  if (!point.cost) return "-";
  return fmt::format("{} {}", significant(*point.cost), plan.wish.prices.currency);
}

std::string energy_text(const CapacityPoint& point) {
  return point.kwh > 0 ? fmt::format("{} MWh", significant(point.kwh / 1000)) : "-";
}

std::string memory_text(const CapacityPoint& point) {
  return fmt::format("{:.1f} of {:.1f} GiB{}", point.best.evaluation.memory.gib(),
                     point.capacity.gib(), point.leaves_margin ? "" : ": may not fit");
}

std::string wish_text(const CapacityPlan& plan) {
  const CapacityWish& wish = plan.wish;
  std::string text = plan.model;
  if (wish.tokens) text += fmt::format(", {} tokens", significant(*wish.tokens));
  if (wish.deadline) text += fmt::format(" within {} days", significant(in_days(*wish.deadline)));
  if (wish.money)
    text += fmt::format(" for at most {} {}", significant(*wish.money), wish.prices.currency);
  if (wish.deadline || wish.money)
    text += fmt::format(", with a chance of {:.0f} %", 100 * wish.confidence);
  return text;
}

std::string goodput_text(const CapacityPoint& point) {
  std::string text = fmt::format("{:.1f} %", 100 * point.run->rented.expected_goodput());
  constexpr double least_gain = 0.002;
  if (point.helps.empty()) return text;
  const Help& most = point.helps.front();
  if (most.goodput < point.run->rented.expected_goodput() + least_gain) return text;
  return text + fmt::format("; {}: {:.1f} %, {:.1f} % of the GPU-hours", most.what,
                            100 * most.goodput, 100 * most.gpu_hours);
}

}  // namespace sim
