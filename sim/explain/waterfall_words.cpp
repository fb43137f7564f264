#include "sim/explain/waterfall_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"

namespace sim {
namespace {

constexpr std::size_t most_items = 3;
constexpr double least_item = 0.002;  // of the step: smaller ones are left out of the table

std::string_view title_of_kind(TroubleKind kind, bool slower) {
  switch (kind) {
    case TroubleKind::products:
      return slower ? "matrix products slower" : "matrix products faster";
    case TroubleKind::attention:
      return slower ? "attention slower" : "attention faster";
    case TroubleKind::memory_bound:
      return slower ? "memory-bound kernels slower" : "memory-bound kernels faster";
    case TroubleKind::optimizer:
      return slower ? "optimizer slower" : "optimizer faster";
    case TroubleKind::extra_kernels:
      return "kernels that the forecast does not have";
    case TroubleKind::missing_kernels:
      return "kernels of the forecast that the trace does not have";
    case TroubleKind::slower_collectives:
      return slower ? "collectives slower" : "collectives faster";
    case TroubleKind::overlap:
      return slower ? "overlap that did not happen" : "more overlap than forecast";
    case TroubleKind::extra_collectives:
      return "collectives that the forecast does not have";
    case TroubleKind::missing_collectives:
      return "collectives of the forecast that the trace does not have";
    case TroubleKind::stragglers:
      return slower ? "waiting for slower ranks" : "less waiting for slower ranks";
    case TroubleKind::pipeline:
      return slower ? "pipeline bubbles and messages" : "smaller pipeline bubbles";
    case TroubleKind::host:
      return slower ? "the host is late" : "the host is faster";
    case TroubleKind::synchronisation:
      return "the host waits for the GPU";
    case TroubleKind::data_loading:
      return "data loading";
    case TroubleKind::garbage:
      return "garbage collection";
    case TroubleKind::copies:
      return "copies";
  }
  return "";
}

double of_step(Duration time, Duration step) {
  return step.count() > 0 ? to_seconds(Duration{time}) / to_seconds(step) : 0;
}

bool has_rate(TroubleKind kind) {
  return kind <= TroubleKind::optimizer || kind == TroubleKind::slower_collectives;
}

// "at 71 % of the forecast's rate"; empty: there is none.
std::string rate_text(TroubleKind kind, const WaterfallItem& item) {
  const std::optional<double> rate = rate_of(kind, item);
  return rate ? fmt::format("at {:.0f} % of the forecast's rate", 100 * *rate) : std::string{};
}

std::string signed_text(Duration time) {
  return seconds_text(time.count() < 0 ? -to_seconds(Duration{-time}) : to_seconds(time));
}

TextSection tried_section(const Waterfall& w) {
  TextSection section{.title = "Simulated again with a part as slow as it was measured",
                      .head = {"part", "time over its forecast", "step", "of the difference"}};
  for (const TriedPart& one : w.tried) {
    const double share = to_seconds(one.step - w.forecast) / to_seconds(w.difference());
    section.rows.push_back({std::string{one.name},
                            one.factor == 1 ? "" : fmt::format("{:.2f}", one.factor),
                            precise(one.step), share_text(share)});
  }
  return section;
}

}  // namespace

std::string_view cause_words(const WaterfallPart& part) {
  return title_of_kind(part.kind, part.time >= Duration{});
}

std::optional<double> rate_of(TroubleKind kind, const WaterfallItem& item) {
  const bool told = has_rate(kind) && item.measured > Duration{} && item.forecast > Duration{};
  if (!told) return std::nullopt;
  return to_seconds(item.forecast) / to_seconds(item.measured);
}

std::string sentence_of(const WaterfallPart& part, Duration step) {
  std::string text = fmt::format("{}: {} of the step ({})", cause_words(part),
                                 share_text(of_step(part.time, step)), signed_text(part.time));
  if (part.items.empty() || part.kind >= TroubleKind::host) return text;
  const WaterfallItem& most = part.items.front();
  text += fmt::format("; most of it {}", most.name);
  const std::string rate = rate_text(part.kind, most);
  return rate.empty() ? text : text + ' ' + rate;
}

std::vector<std::string> largest_causes(const Waterfall& w) {
  std::vector<std::string> causes;
  for (const WaterfallPart& part : w.parts)
    if (causes.size() < most_items && of_step(part.time, w.measured) >= least_item)
      causes.push_back(part.sentence);
  return causes;
}

std::vector<TextSection> sections_of(const Waterfall& w) {
  TextSection head{.title = "Why it is not what it should be"};
  for (const std::string& difference : w.differences)
    head.sentences.push_back("NOT the same job: " + difference);
  head.sentences.push_back(fmt::format(
      "rank {}, {}: measured {}, forecast {}: {} ({:+.1f} %)", w.rank.value, w.step,
      precise(w.measured), precise(w.forecast), signed_text(w.difference()), 100 * w.slower()));
  head.sentences.push_back(
      fmt::format("{:.1f} % of the time of the step's kernels is of operators of the forecast",
                  w.matched * 100));
  if (!w.late.empty()) head.sentences.push_back(w.late);
  TextSection table{.title = "The difference in parts, which sum to it",
                    .head = {"cause", "time", "of the step", "rate"}};
  for (const WaterfallPart& part : w.parts) {
    table.rows.push_back({std::string{cause_words(part)}, signed_text(part.time),
                          share_text(of_step(part.time, w.measured)), ""});
    std::size_t shown = 0;
    for (const WaterfallItem& item : part.items) {
      if (part.kind >= TroubleKind::host || shown == most_items) break;
      if (std::abs(of_step(item.time, w.measured)) < least_item) break;
      table.rows.push_back({"  " + item.name, signed_text(item.time),
                            share_text(of_step(item.time, w.measured)),
                            rate_text(part.kind, item)});
      ++shown;
    }
  }
  table.rows.push_back({"measured less forecast", signed_text(w.difference()),
                        share_text(of_step(w.difference(), w.measured)), ""});
  TextSection causes{.title = "The largest causes"};
  for (const std::string& sentence : largest_causes(w))
    causes.sentences.push_back(fmt::format("{}. {}", causes.sentences.size() + 1, sentence));
  std::vector<TextSection> sections{std::move(head)};
  if (!causes.sentences.empty()) sections.push_back(std::move(causes));
  sections.push_back(std::move(table));
  if (!w.tried.empty()) sections.push_back(tried_section(w));
  return sections;
}

std::string waterfall_table(const Waterfall& waterfall, bool color) {
  return text_of(sections_of(waterfall), color);
}

}  // namespace sim
