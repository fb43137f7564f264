// An explanation as text and as Markdown.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"
#include "sim/explain/explanation_sections.hpp"
#include "sim/explain/waterfall_words.hpp"

namespace sim {
namespace {

constexpr std::size_t most_rows = 12;       // of kernels, products, collectives
constexpr std::size_t most_step_rows = 24;  // above: ranks in the mean alone

std::string ranks_text(const Explanation& e) {
  if (e.world_size > 0)
    return fmt::format("{} of {} ranks", e.ranks.size(),
                       std::max<int>(e.world_size, static_cast<int>(e.ranks.size())));
  return fmt::format("{} rank{}", e.ranks.size(), e.ranks.size() == 1 ? "" : "s");
}

TextSection head_of(const Explanation& e) {
  TextSection head;
  const std::size_t steps = e.variation.steps + e.first_steps;
  std::string line = fmt::format("{}{}{}: {}, {} step{}", e.maker.empty() ? "trace" : e.maker,
                                 e.device.empty() ? "" : ", ", e.device, ranks_text(e), steps,
                                 steps == 1 ? "" : "s");
  if (e.by == StepsBy::recurrence) line += " by kernels that recur";
  head.sentences.push_back(line);
  std::string step = "step " + precise(e.variation.median);
  if (e.variation.steps > 1)
    step += fmt::format(" (median; p10 {}, p90 {})", precise(e.variation.least_tenth),
                        precise(e.variation.most_tenth));
  head.sentences.push_back(step);
  if (e.first_steps > 0)
    head.sentences.push_back(
        fmt::format("the first {} took up to {:.1f} times the median and {} left out of the means",
                    e.first_steps == 1 ? "step" : fmt::format("{} steps", e.first_steps),
                    e.first_factor, e.first_steps == 1 ? "is" : "are"));
  for (const std::string& note : e.notes)
    head.sentences.push_back("note: " + note);
  return head;
}

TextSection parts_of(const Explanation& e) {
  TextSection section{.title = "Where the time of a step goes (mean over ranks and steps)",
                      .head = {"", "time", "of the step"}};
  const auto add = [&](const std::string& name, double seconds, bool always) {
    const double share = e.mean.step > 0 ? seconds / e.mean.step : 0;
    if (always || share >= least_seen)
      section.rows.push_back({name, seconds_text(seconds), share_text(share)});
  };
  add("compute", e.mean[StepState::compute], true);
  add("exposed communication", e.mean.exposed_communication(), true);
  for (const auto& [group, seconds] : e.mean.exposed)
    if (e.mean.exposed.size() > 1 || group != "group not told") add("  " + group, seconds, false);
  add("  of it waiting for other ranks", e.mean[StepState::peer], e.arrivals_told);
  add("copies", e.mean[StepState::copy], false);
  add("idle", e.mean.idle(), true);
  for (const auto& state : words_of(StepState{}))
    if (is_idle(state.value))
      add("  " + std::string{words_of_state(state.value, e.on_host)}, e.mean[state.value], false);
  add("step", e.mean.step, true);
  // Waiting at the end of a step is exposed, and no communication.
  const double hidden = std::max(0.0, e.mean.communication - e.mean.exposed_communication());
  if (e.mean.communication > 0)
    section.rows.push_back({"communication in all", seconds_text(e.mean.communication),
                            fmt::format("{:.0f} % hidden", 100 * hidden / e.mean.communication)});
  return section;
}

TextSection steps_section(const Explanation& e) {
  TextSection section{
      .title = "Steps",
      .head = {"step", "rank", "time", "compute", "communication", "exposed", "waiting", "idle"}};
  for (const RankStep& step : e.steps) {
    if (section.rows.size() >= most_step_rows) break;
    section.rows.push_back({step.window.name + (step.first ? " (first)" : ""),
                            std::to_string(e.ranks[step.rank].value), precise(step.window.time()),
                            seconds_text(to_seconds(step.parts[StepState::compute])),
                            seconds_text(to_seconds(step.communication)),
                            seconds_text(to_seconds(step.parts.exposed())),
                            seconds_text(to_seconds(step.parts[StepState::peer])),
                            seconds_text(to_seconds(step.parts.idle()))});
  }
  if (section.rows.size() < e.steps.size())
    section.sentences.push_back(
        fmt::format("the first {} of {}; the JSON has all", section.rows.size(), e.steps.size()));
  return section;
}

// CPUs do thousandths of a TFLOP/s.
std::string rate_text(double teraflops) {
  return teraflops < 10 ? fmt::format("{:.2g}", teraflops) : fmt::format("{:.0f}", teraflops);
}

TextSection kernels_of(const Explanation& e, const std::vector<KernelRow>& rows,
                       const std::string& title, const std::string& first) {
  TextSection section{.title = title,
                      .head = {first, "count", "time", "of the step", "TFLOP/s", "of the peak"}};
  for (const KernelRow& row : rows) {
    if (section.rows.size() >= most_rows || row.share < least_seen) break;
    section.rows.push_back({row.name, fmt::format("{:g}", std::round(row.count * 10) / 10),
                            seconds_text(row.seconds), share_text(row.share),
                            row.flops > 0 ? rate_text(row.flop_rate() / 1e12) : "-",
                            row.flops > 0 && row.of_peak > 0 ? share_text(row.of_peak) : "-"});
  }
  if (e.peak.in_flops_per_second() > 0 && first == "product m x n x k")
    section.sentences.push_back(
        fmt::format("the peak is the data sheet's of 16-bit products: {:.0f} TFLOP/s; what costs "
                    "most time below it comes first",
                    e.peak.in_flops_per_second() / 1e12));
  return section;
}

TextSection collectives_of(const Explanation& e) {
  TextSection section{.title = "Communication, hidden or not",
                      .head = {"", "group", "size", "count", "time of a step", "waiting",
                               "median transfer", "bus bandwidth"}};
  for (const CollectiveRow& row : e.collectives) {
    if (section.rows.size() >= most_rows) break;
    const double bus = row.bus.in_bytes_per_second();
    section.rows.push_back(
        {row.kind, row.group,
         row.bytes.count() > 0
             ? fmt::format("{:.4g} MB", static_cast<double>(row.bytes.count()) / 1e6)
             : "not told",
         fmt::format("{:g}", std::round(row.count * 10) / 10), seconds_text(row.seconds),
         seconds_text(row.waiting_seconds), seconds_text(to_seconds(row.median)),
         bus > 0 ? fmt::format("{:.1f} GB/s", bus / 1e9) : "-"});
  }
  return section;
}

TextSection late_of(const Explanation& e) {
  TextSection section{.title = "Ranks that others wait for (exposed waiting, in sum over them)",
                      .head = {"rank", "time of a step", "ranks that wait", "it takes longer for"}};
  for (const LateRank& late : e.late) {
    if (section.rows.size() >= most_rows || late.seconds < e.mean.step * least_seen) break;
    section.rows.push_back({std::to_string(late.rank.value), seconds_text(late.seconds),
                            std::to_string(late.ranks), longer_text(late, e.on_host)});
  }
  return section;
}

}  // namespace

std::string_view words_of_state(StepState state, bool on_host) {
  switch (state) {
    case StepState::compute:
      return "compute";
    case StepState::transfer:
      return "exposed communication";
    case StepState::peer:
      return "waiting for other ranks";
    case StepState::copy:
      return "copies";
    case StepState::garbage:
      return "host collects garbage";
    case StepState::data_loading:
      return "host loads data";
    case StepState::synchronisation:
      return "host waited for the GPU, then issued";
    case StepState::host:
      return on_host ? "no operator runs: Python, or the rank sleeps"
                     : "host too slow: it had not issued the next kernel";
    case StepState::between_kernels:
      return "between kernels: issued, but not begun";
    case StepState::untold:
      return "cause not told: the trace has no launch of the next kernel";
  }
  return "";
}

std::vector<TextSection> sections_of(const Explanation& e) {
  std::vector<TextSection> sections{head_of(e)};
  if (e.waterfall)
    for (TextSection& section : sections_of(*e.waterfall))
      sections.push_back(std::move(section));
  sections.push_back(parts_of(e));
  sections.push_back(steps_section(e));
  const auto add = [&](TextSection section) {
    if (!section.rows.empty()) sections.push_back(std::move(section));
  };
  add(kernels_of(e, e.kernels.categories,
                 e.on_host ? "Operators by category" : "Kernels by category", "category"));
  add(kernels_of(e, e.kernels.names, e.on_host ? "Operators by name" : "Kernels by name",
                 e.on_host ? "operator" : "kernel"));
  add(kernels_of(e, e.kernels.products, "Matrix products by shape", "product m x n x k"));
  add(collectives_of(e));
  add(late_of(e));
  return sections;
}

std::string explanation_table(const Explanation& explanation, bool color) {
  return text_of(sections_of(explanation), color);
}

std::string explanation_markdown(const Explanation& explanation) {
  return markdown_of(sections_of(explanation));
}

}  // namespace sim
