// A plan of capacity as text, Markdown and CSV.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"
#include "sim/capacity/capacity_words.hpp"

namespace sim {
namespace {

// "512 x dgx-h100: 8.01 s a step, 27.3 days (24.1 to 31.2), in time with 93 %, 8.4 million USD".
std::string answer_text(const CapacityPlan& plan, const CapacityPoint& point) {
  const std::string offloaded = point.offloaded();
  std::string text = fmt::format("{} x {}{}: {} a step", grouped(point.gpus), point.cluster,
                                 offloaded.empty() ? "" : " with " + offloaded,
                                 precise(point.best.evaluation.step_time));
  if (point.run) text += fmt::format(", {} days", days_text(point));
  if (plan.wish.deadline || plan.wish.money)
    text += fmt::format(", kept with {:.0f} %", 100 * point.chance);
  if (point.cost) text += ", " + money_text(plan, point);
  if (point.kwh > 0) text += ", " + energy_text(point);
  return text;
}

using CapacityRows = std::vector<std::vector<std::string>>;

CapacityRows rows_of(const CapacityPlan& plan) {
  CapacityRows rows{
      {"cluster", "GPUs", "step", "days (95 %)", "kept", "cost", "energy", "memory", "layout"}};
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const CapacityPoint& point = plan.points[i];
    const bool front = std::ranges::find(plan.front, i) != plan.front.end();
    rows.push_back({point.cluster, grouped(point.gpus) + (front ? " *" : ""),
                    precise(point.best.evaluation.step_time), days_text(point),
                    point.run ? fmt::format("{:.0f} %", 100 * point.chance) : "-",
                    money_text(plan, point), energy_text(point), memory_text(point), point.layout});
  }
  return rows;
}

std::string columns_text(const CapacityRows& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    text += " ";
    for (std::size_t c = 0; c < row.size(); ++c)
      text += c + 1 == row.size() || c == 0 ? fmt::format(" {:<{}}", row[c], c == 0 ? widths[c] : 0)
                                            : fmt::format("  {:>{}}", row[c], widths[c]);
    text += '\n';
  }
  return text;
}

std::string lines_of(const CapacityPlan& plan, const char* indent, const char* bold) {
  std::string text;
  for (const CapacityAnswer& answer : plan.answers) {
    const CapacityPoint& point = plan.points[answer.point];
    text += fmt::format("{0}{1}{2}{1}: {3}\n", indent, bold,
                        goal_words(answer.goal, plan.wish.deadline.has_value()),
                        answer_text(plan, point));
    const std::string deeper = std::string{indent} + "  ";
    text += fmt::format("{}layout: {}\n", deeper, point.layout);
    if (!point.runner_up.empty()) text += fmt::format("{}runner-up: {}\n", deeper, point.runner_up);
    if (!answer.binds.empty()) text += fmt::format("{}binds: {}\n", deeper, answer.binds);
    if (point.run && point.run->rented.ends())
      text += fmt::format("{}goodput: {}\n", deeper, goodput_text(point));
  }
  return text;
}

std::string notes_of(const CapacityPlan& plan) {
  std::string text;
  if (!plan.closest.empty()) text += "\nNo: " + plan.closest + "\n";
  if (!plan.measure.empty()) text += "\nTo be surer: " + plan.measure + "\n";
  return text;
}

}  // namespace

std::string capacity_table(const CapacityPlan& plan) {
  std::string text = wish_text(plan) + "\n\n" + lines_of(plan, "  ", "") + notes_of(plan);
  if (!plan.points.empty())
    text += "\nBest layout by GPUs   *: neither slower nor dearer than another\n" +
            columns_text(rows_of(plan));
  if (!plan.misses.empty()) text += "\nDoes not fit\n";
  for (const CapacityMiss& miss : plan.misses)
    text += fmt::format("  {} x {}: {}\n", grouped(miss.gpus), miss.cluster, miss.why);
  return text;
}

std::string capacity_markdown(const CapacityPlan& plan) {
  std::string text = "# " + wish_text(plan) + "\n\n";
  for (const CapacityAnswer& answer : plan.answers) {
    const CapacityPoint& point = plan.points[answer.point];
    text += fmt::format("- **{}**: {}; `{}`{}\n",
                        goal_words(answer.goal, plan.wish.deadline.has_value()),
                        answer_text(plan, point), point.layout,
                        answer.binds.empty() ? "" : "; binds: " + answer.binds);
  }
  text += notes_of(plan);
  if (plan.points.empty()) return text;
  text += "\n## Best layout by GPUs\n\n";
  const CapacityRows rows = rows_of(plan);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += '|';
    for (const std::string& cell : rows[r])
      text += ' ' + cell + " |";
    text += '\n';
    if (r == 0) text += "|---|---:|---:|---:|---:|---:|---:|---:|---|\n";
  }
  return text + "\n\\*: neither slower nor dearer than another.\n";
}

std::string capacity_csv(const CapacityPlan& plan) {
  std::string text =
      "cluster,gpus,step_time_s,days,days_low,days_high,chance,cost,cost_at_most,energy_kwh,"
      "peak_mem_bytes,leaves_margin,front,layout\n";
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const CapacityPoint& point = plan.points[i];
    const bool runs = point.run && point.run->rented.ends();
    const auto quantile = [&](double p) {
      return runs ? fmt::format("{}", in_days(point.run->rented.quantile(p))) : "";
    };
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(point.cluster), point.gpus,
        to_seconds(point.best.evaluation.step_time), runs ? fmt::format("{}", point.days()) : "",
        quantile(0.025), quantile(0.975), point.run ? fmt::format("{}", point.chance) : "",
        point.cost ? fmt::format("{}", *point.cost) : "",
        point.cost_at_most ? fmt::format("{}", *point.cost_at_most) : "",
        runs ? fmt::format("{}", point.kwh) : "", point.best.evaluation.memory.count(),
        point.leaves_margin, std::ranges::find(plan.front, i) != plan.front.end(),
        csv_field(point.layout));
  }
  return text;
}

}  // namespace sim
