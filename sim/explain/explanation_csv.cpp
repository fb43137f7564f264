#include <fmt/format.h>

#include "sim/base/table_text.hpp"
#include "sim/explain/explanation.hpp"

namespace sim {

std::string explanation_csv(const Explanation& e) {
  std::string text = "section,name,group,count,time_s,waiting_s,share\n";
  const double step = e.mean.step > 0 ? e.mean.step : 1;
  const auto add = [&](const char* section, const std::string& name, const std::string& group,
                       double count, double seconds, double waiting) {
    text += fmt::format("{},{},{},{},{},{},{}\n", section, csv_field(name), csv_field(group), count,
                        seconds, waiting, seconds / step);
  };
  add("step", "step", "", 1, e.mean.step, 0);
  for (const auto& state : words_of(StepState{}))
    add("state", std::string{state.text}, "", 1, e.mean[state.value], 0);
  for (const auto& [group, seconds] : e.mean.exposed)
    add("exposed", "communication", group, 1, seconds, 0);
  for (const RankStep& of : e.steps)
    add("rank_step", of.window.name, fmt::format("rank {}", e.ranks[of.rank].value), 1,
        to_seconds(of.window.time()), to_seconds(of.parts[StepState::peer]));
  for (const KernelRow& row : e.kernels.categories)
    add("category", row.name, row.category, row.count, row.seconds, 0);
  for (const KernelRow& row : e.kernels.names)
    add("kernel", row.name, row.category, row.count, row.seconds, 0);
  for (const KernelRow& row : e.kernels.products)
    add("product", row.name, row.category, row.count, row.seconds, 0);
  for (const CollectiveRow& row : e.collectives)
    add("collective", fmt::format("{} {} B", row.kind, row.bytes.count()), row.group, row.count,
        row.seconds, row.waiting_seconds);
  for (const LateRank& row : e.late)
    add("late_rank", fmt::format("rank {}", row.rank.value), "", static_cast<double>(row.ranks),
        row.seconds, 0);
  if (!e.waterfall) return text;
  add("waterfall", "measured", "", 1, to_seconds(e.waterfall->measured), 0);
  add("waterfall", "forecast", "", 1, to_seconds(e.waterfall->forecast), 0);
  for (const WaterfallPart& part : e.waterfall->parts)
    for (const WaterfallItem& item : part.items)
      add("waterfall", item.name, std::string{word(part.kind)}, 1, to_seconds(item.time), 0);
  for (const std::string& difference : e.waterfall->differences)
    add("not_the_same_job", difference, "", 1, 0, 0);
  return text;
}

}  // namespace sim
