// The result of a search as a table, CSV and Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "sim/report/numbers.hpp"
#include "sim/search/result.hpp"

namespace sim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string share(Duration part, Duration whole) {
  return fmt::format("{:.1f} %", 100 * to_seconds(part) / to_seconds(whole));
}

Rows ranking_rows(const SearchResult& result, const std::vector<RankedLayout>& layouts) {
  Rows rows{{"rank", "step time", "first faster", "regret", "tokens/s/GPU", "MFU", "memory",
             "headroom", "bubble", "exposed", "GPUs", "layout"},
            {"", "", "chance", "mean", "", "", "GiB", "GiB", "of step", "of step", "", ""}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const RankedLayout& one = layouts[i];
    const Duration step = one.evaluation.step_time;
    rows.push_back(
        {std::to_string(i + 1), precise(step),
         one.chance_behind ? fmt::format("{:.0f} %", 100 * *one.chance_behind) : std::string{},
         one.regret ? fmt::format("{:.1f} %", 100 * *one.regret) : std::string{},
         significant(one.tokens_per_second_per_gpu), fmt::format("{:.1f} %", 100 * one.mfu),
         fmt::format("{:.1f}{}", one.evaluation.memory.gib(),
                     one.evaluation.by_retries ? ", retries" : ""),
         fmt::format("{:.1f}", (result.capacity - one.evaluation.memory).gib()),
         share(one.breakdown.bubble, step), share(one.exposed(), step),
         grouped(one.layout.world_size()), describe(one, result.node_gpus)});
  }
  return rows;
}

Rows front_rows(const SearchResult& result, const std::vector<FrontLayout>& front) {
  Rows rows{{"step time", "memory", "GPUs", "GPU-hours", "layout"},
            {"", "GiB", "", "per step", ""}};
  if (result.price_per_gpu_hour) {
    rows[0].insert(rows[0].end() - 1, "cost");
    rows[1].insert(rows[1].end() - 1, "per step");
  }
  for (const FrontLayout& one : front) {
    rows.push_back({precise(one.evaluation.step_time),
                    fmt::format("{:.1f}{}", one.evaluation.memory.gib(),
                                one.evaluation.by_retries ? " (only with the allocator's retries)"
                                : one.leaves_margin       ? ""
                                                          : " (may not fit)"),
                    grouped(one.layout.world_size()), significant(one.gpu_hours_per_step),
                    describe(one, result.node_gpus)});
    if (result.price_per_gpu_hour)
      rows.back().insert(rows.back().end() - 1,
                         significant(one.gpu_hours_per_step * *result.price_per_gpu_hour));
  }
  return rows;
}

// Columns to the right of each other, the last one to the left.
std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line(1, ' ');
    for (std::size_t c = 0; c + 1 < row.size(); ++c)
      line += fmt::format(" {:>{}}", row[c], widths[c]);
    line += fmt::format("  {}", row.back());
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string counts_text(const SearchCounts& counts) {
  std::string text = fmt::format("{} valid layouts\n", grouped(counts.legal));
  const auto line = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("  {:>12}  {}\n", grouped(count), what);
  };
  line(counts.too_large_by_bound, "out of memory, by a lower bound");
  line(counts.too_large, "out of memory, planned exactly");
  line(counts.too_large_for_host, "out of memory of a node's host");
  line(counts.too_slow, "slower than the best found, by a lower bound");
  line(counts.simulated, "simulated");
  line(counts.open, "not looked at: stopped early");
  const auto refused = [](const auto& all) {
    std::uint64_t sum = 0;
    for (const std::uint64_t one : all)
      sum += one;
    return sum;
  };
  if (refused(counts.refused) == 0) return text;
  text += "Combinations refused, each with all that would follow from it\n";
  for (const auto& [why, what] : words_of(Refusal{}))
    line(counts.refused[static_cast<std::size_t>(why)], what);
  return text;
}

std::string wrapped_text(const std::string& text) {
  std::string made;
  for (const std::string& line : wrapped(text, 98))
    made += fmt::format("  {}\n", line);
  return made;
}

// The second row has the units, which Markdown has in the head.
std::string markdown(const Rows& rows) {
  std::string head, rule, body;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    const bool last = c + 1 == rows[0].size();
    head += rows[1][c].empty() ? fmt::format(" {} |", rows[0][c])
                               : fmt::format(" {} ({}) |", rows[0][c], rows[1][c]);
    rule += last ? "---|" : "---:|";
  }
  for (std::size_t r = 2; r < rows.size(); ++r) {
    body += '|';
    for (const std::string& cell : rows[r])
      body += fmt::format(" {} |", cell);
    body += '\n';
  }
  return fmt::format("|{}\n|{}\n{}", head, rule, body);
}

std::string margin_note(const SearchResult& result) {
  return result.margin.empty() ? "" : fmt::format(" with a memory margin: {}", result.margin);
}

// The title over layouts that fit within the margin.
std::string within_title(const SearchResult& result) {
  return fmt::format("{}: may not fit, less is left than {}",
                     result.best.empty() ? "Nothing leaves the memory margin" : "Faster",
                     result.margin);
}

struct Term {
  std::string_view word;  // of a layout in one line; ending in '-' or beginning with '/': a part
  std::string_view meaning;
};
constexpr std::array terms{
    Term{"tp", "tensor-parallel ranks"},
    Term{"cp", "context-parallel ranks"},
    Term{"ep", "ranks that share the experts"},
    Term{"etp", "ranks that share an expert"},
    Term{"pp", "pipeline stages"},
    Term{"v", "virtual stages (model chunks of a stage)"},
    Term{"dp", "data-parallel replicas"},
    Term{"mb", "sequences of a micro-batch"},
    Term{"sp", "sequence parallelism"},
    Term{"zero-", "stage of ZeRO; with /N, each N replicas hold a copy"},
    Term{"no-reshard", "weights stay gathered until the backward pass"},
    Term{"recompute", "layers run again; 1/N: every N-th layer"},
    Term{"pp-inner", "stages of a pipeline are neighbours on a node, replicas lie further apart"},
    Term{"/node", "GPUs used of each node"}};

bool is_meant(const Term& term, std::string_view word) {
  if (term.word.ends_with('-')) return word.starts_with(term.word);
  return term.word.starts_with('/') ? word.ends_with(term.word) : word == term.word;
}

// The words of the layouts that are shown: "tp tensor-parallel ranks; ...".
std::string legend_text(const SearchResult& result) {
  std::string text;
  const auto add = [&](const auto& layouts) {
    for (const auto& one : layouts)
      text += describe(one, result.node_gpus) + ' ';
  };
  add(result.best);
  add(result.within_margin);
  add(result.memory_front);
  add(result.gpus_front);
  add(result.cost_front);
  std::set<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find(' ', at);
    words.insert(std::string_view{text}.substr(at, end - at));
    at = end + 1;
  }
  std::string made;
  for (const Term& term : terms)
    if (std::ranges::any_of(words, [&](std::string_view word) { return is_meant(term, word); }))
      made += fmt::format("{}{}: {}", made.empty() ? "" : "; ", term.word, term.meaning);
  const auto weighed = [](const RankedLayout& one) { return one.regret.has_value(); };
  if (std::ranges::any_of(result.best, weighed) ||
      std::ranges::any_of(result.within_margin, weighed))
    made +=
        ". Rows are in the order of their mean time, with the error of the forecast. First faster: "
        "the chance that the first row is truly faster. Regret: what choosing the row costs on the "
        "average against the truly fastest of the list";
  return made + '.';
}

// The parts after the ranking, each with its title.
std::vector<std::pair<std::string, Rows>> fronts(const SearchResult& result) {
  std::vector<std::pair<std::string, Rows>> parts;
  if (!result.within_margin.empty())
    parts.emplace_back(within_title(result), ranking_rows(result, result.within_margin));
  if (result.memory_front.size() > 1)
    parts.emplace_back("Step time against memory, in eighths of the device",
                       front_rows(result, result.memory_front));
  if (!result.gpus_front.empty())
    parts.emplace_back("Step time against GPUs", front_rows(result, result.gpus_front));
  if (!result.cost_front.empty())
    parts.emplace_back(
        fmt::format("Step time against cost, at {} per GPU-hour", *result.price_per_gpu_hour),
        front_rows(result, result.cost_front));
  return parts;
}

// How much better what was not looked at could be.
std::string left_text(const SearchResult& result) {
  if (!result.could_be_faster) return "\n";
  return fmt::format("; what is left can be faster by {:.1f} % at most\n",
                     100 * *result.could_be_faster);
}

}  // namespace

std::string search_table(const SearchResult& result) {
  std::string text = fmt::format("{}: {}\n", result.title, result.device);
  if (!result.not_validated.empty()) text += unvalidated_line(result.not_validated) + '\n';
  text += counts_text(result.counts);
  if (!result.complete)
    text += result.favourite() ? "Stopped early: the best of what was simulated" + left_text(result)
                               : "Stopped early, before a layout that fits was found\n";
  if (!result.favourite()) return text;
  if (!result.best.empty())
    text += fmt::format("\nBest {}{}\n", result.best.size(), margin_note(result)) +
            aligned(ranking_rows(result, result.best));
  if (!result.comparison.empty()) text += "\nFirst and second\n" + wrapped_text(result.comparison);
  for (const auto& [title, rows] : fronts(result))
    text += fmt::format("\n{}\n", title) + aligned(rows);
  text += "\nWords\n" + wrapped_text(legend_text(result));
  text +=
      fmt::format("\nFrom {}, seed {}; stepcast {}\n", result.path, result.seed, STEPCAST_VERSION);
  return text;
}

std::string search_markdown(const SearchResult& result) {
  std::string text =
      fmt::format("# {}\n\n```\n{}```\n\n", result.title, counts_text(result.counts));
  if (!result.not_validated.empty()) text += unvalidated_line(result.not_validated) + "\n\n";
  if (!result.favourite()) return text;
  if (!result.best.empty()) text += markdown(ranking_rows(result, result.best));
  if (!result.comparison.empty()) text += fmt::format("\n{}\n", result.comparison);
  for (const auto& [title, rows] : fronts(result))
    text += fmt::format("\n## {}\n\n", title) + markdown(rows);
  return text + fmt::format("\n{}\n", legend_text(result));
}

std::string search_csv(const SearchResult& result) {
  std::string text =
      "rank,gpus,step_time_s,step_time_s_low,step_time_s_high,first_faster,regret,"
      "tokens_per_s_per_gpu,"
      "mfu,peak_mem_bytes,headroom_bytes,bubble_s,"
      "exposed_s,layout,memory_margin\n";
  const auto add = [&](const std::vector<RankedLayout>& layouts, std::string_view margin) {
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const RankedLayout& one = layouts[i];
      const double step = in_seconds(one.evaluation.step_time);
      text += fmt::format("{},{},{},{},{},{},{},", i + 1, one.layout.world_size(), step,
                          one.interval ? fmt::format("{}", step * one.interval->low) : "",
                          one.interval ? fmt::format("{}", step * one.interval->high) : "",
                          one.chance_behind ? fmt::format("{:.4f}", *one.chance_behind) : "",
                          one.regret ? fmt::format("{:.4f}", *one.regret) : "");
      text += fmt::format("{},{},{},{},{},{},{},{}\n", one.tokens_per_second_per_gpu, one.mfu,
                          one.evaluation.memory.count(),
                          (result.capacity - one.evaluation.memory).count(),
                          in_seconds(one.breakdown.bubble), in_seconds(one.exposed()),
                          csv_field(describe(one, result.node_gpus)), margin);
    }
  };
  add(result.best, "left");
  add(result.within_margin, "within");
  return text;
}

}  // namespace sim
