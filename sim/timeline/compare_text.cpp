// The forms of a comparison: table, JSON, CSV, Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/timeline/compare.hpp"

namespace sim {
namespace {

using Cells = std::vector<std::string>;
struct Table {
  std::string title;
  Cells head;
  std::vector<Cells> rows;
};

// Seconds as text with four digits in the unit that suits.
std::string duration_text(double seconds) {
  if (std::abs(seconds) < 5e-9) seconds = 0;  // no minus zero
  const double size = std::abs(seconds);
  const char* unit = size >= 1 ? "s" : size >= 1e-3 ? "ms" : "us";
  const double scaled = seconds * (size >= 1 ? 1 : size >= 1e-3 ? 1e3 : 1e6);
  const double digits = std::abs(scaled) >= 1000 ? 0 : std::abs(scaled) >= 100 ? 1 : 2;
  return fmt::format("{:.{}f} {}", scaled, static_cast<int>(digits), unit);
}
std::string ratio_text(const Both& both) {
  return both.a > 0 && both.b > 0 ? fmt::format("{:.3f}", both.ratio()) : "-";
}
std::string percent_text(double share) {
  return fmt::format("{:.1f}%", share * 100);
}
std::string count_text(double count) {
  return fmt::format("{:g}", std::round(count * 100) / 100);
}

Cells row_of(const std::string& name, const Both& both) {
  return {name, duration_text(both.a), duration_text(both.b), duration_text(both.difference()),
          ratio_text(both)};
}

Table table_of(const std::string& title, const std::vector<NamedBoth>& entries) {
  Table table{.title = title, .head = {"", "A", "B", "B - A", "B / A"}, .rows = {}};
  for (const NamedBoth& entry : entries)
    table.rows.push_back(row_of(entry.name, entry.time));
  return table;
}

Table operators_of(const Comparison& c) {
  Table table{.title = "Operators, mean per rank; what explains most of the difference first",
              .head = {"operator", "pass", "count A", "count B", "mean A", "mean B", "B / A",
                       "total B - A", "share"},
              .rows = {}};
  for (const OperatorRow& row : c.rows)
    table.rows.push_back({row.name, std::string{word(row.pass)}, count_text(row.count_a),
                          count_text(row.count_b), duration_text(row.mean.a),
                          duration_text(row.mean.b), ratio_text(row.mean),
                          duration_text(row.total.difference()), percent_text(row.share)});
  return table;
}

Table spread_of(const Comparison& c) {
  Table table{.title = "Over ranks",
              .head = {"", "least A", "mean A", "most A", "least B", "mean B", "most B"},
              .rows = {}};
  for (const RankSpread& row : c.spread)
    table.rows.push_back({row.of, duration_text(row.least.a), duration_text(row.mean.a),
                          duration_text(row.most.a), duration_text(row.least.b),
                          duration_text(row.mean.b), duration_text(row.most.b)});
  return table;
}

std::vector<Table> tables_of(const Comparison& c) {
  Table step = table_of("Step", c.parts);
  step.rows.insert(step.rows.begin(), row_of("step", c.step));
  return {std::move(step), table_of("Work per rank, hidden or not", c.work),
          table_of("Busy time per stream", c.streams), operators_of(c), spread_of(c)};
}

std::string verdict(const Comparison& c) {
  const Sameness& s = c.sameness;
  if (!s.same) return "NOT the same work: " + s.first_difference;
  return fmt::format(
      "The same work, exactly: {} operators in the same order on every stream, {} communication "
      "calls with {} bytes.",
      s.operators, s.communication_calls, s.communication_bytes.count());
}

// Width of text in characters: names may hold more than ASCII.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80;
  }));
}

void add_text(std::string& out, const Table& table, bool color) {
  std::vector<std::size_t> widths;
  for (const std::string& cell : table.head)
    widths.push_back(width_of(cell));
  for (const Cells& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  const auto add_row = [&](const Cells& row) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      line += (i == 0 ? " " : "  ") + (i == 0 ? row[i] + space : space + row[i]);
    }
    while (line.ends_with(' '))
      line.pop_back();
    out += line + '\n';
  };
  out += color ? fmt::format("\n\x1b[1m{}\x1b[0m\n", table.title) : '\n' + table.title + '\n';
  add_row(table.head);
  for (const Cells& row : table.rows)
    add_row(row);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? std::string{"\"\""} : std::string{c};
  return quoted + '"';
}

nlohmann::ordered_json json_of(const Both& both) {
  return {{"a_s", both.a}, {"b_s", both.b}};
}

nlohmann::ordered_json json_of(const std::vector<NamedBoth>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NamedBoth& entry : entries)
    list.push_back({{"name", entry.name}, {"a_s", entry.time.a}, {"b_s", entry.time.b}});
  return list;
}

}  // namespace

std::string comparison_table(const Comparison& c, bool color) {
  std::string text = fmt::format("A: {}   B: {}\n", c.name_a, c.name_b);
  if (c.scenario_a == c.scenario_b)
    text = c.scenario_a + '\n' + text;
  else
    text = fmt::format("{} (A), {} (B)\n", c.scenario_a, c.scenario_b) + text;
  for (const std::string& note : c.notes)
    text += note + '\n';
  text += verdict(c) + '\n';
  for (const Table& table : tables_of(c))
    add_text(text, table, color);
  return text;
}

std::string comparison_markdown(const Comparison& c) {
  std::string text =
      fmt::format("A: {} ({}), B: {} ({})\n\n", c.name_a, c.scenario_a, c.name_b, c.scenario_b);
  for (const std::string& note : c.notes)
    text += "- " + note + '\n';
  text += "- " + verdict(c) + '\n';
  for (const Table& table : tables_of(c)) {
    text += fmt::format("\n### {}\n\n|{}|\n|", table.title, fmt::join(table.head, "|"));
    for (std::size_t i = 0; i < table.head.size(); ++i)
      text += "---|";
    text += '\n';
    for (const Cells& row : table.rows)
      text += fmt::format("|{}|\n", fmt::join(row, "|"));
  }
  return text;
}

std::string comparison_csv(const Comparison& c) {
  std::string text = "section,name,pass,count_a,count_b,a_s,b_s\n";
  const auto add = [&](const char* section, const std::string& name, const Both& both) {
    text += fmt::format("{},{},,,,{},{}\n", section, csv_cell(name), both.a, both.b);
  };
  add("step", "step", c.step);
  for (const NamedBoth& entry : c.parts)
    add("step", entry.name, entry.time);
  for (const NamedBoth& entry : c.work)
    add("work", entry.name, entry.time);
  for (const NamedBoth& entry : c.streams)
    add("stream", entry.name, entry.time);
  for (const OperatorRow& row : c.rows)
    text += fmt::format("operator,{},{},{},{},{},{}\n", csv_cell(row.name), word(row.pass),
                        row.count_a, row.count_b, row.total.a, row.total.b);
  for (const RankSpread& row : c.spread) {
    add("ranks", row.of + ", least", row.least);
    add("ranks", row.of + ", mean", row.mean);
    add("ranks", row.of + ", most", row.most);
  }
  text += fmt::format("same_work,{},,,,{},\n", csv_cell(c.sameness.first_difference),
                      c.sameness.same ? 1 : 0);
  return text;
}

std::string comparison_json(const Comparison& c) {
  nlohmann::ordered_json json;
  json["a"] = {{"engine", c.name_a}, {"scenario", c.scenario_a}};
  json["b"] = {{"engine", c.name_b}, {"scenario", c.scenario_b}};
  json["notes"] = c.notes;
  json["step"] = json_of(c.step);
  json["parts"] = json_of(c.parts);
  json["work_per_rank"] = json_of(c.work);
  json["streams"] = json_of(c.streams);
  json["operators"] = nlohmann::ordered_json::array();
  for (const OperatorRow& row : c.rows)
    json["operators"].push_back({{"name", row.name},
                                 {"pass", word(row.pass)},
                                 {"kind", word(row.kind)},
                                 {"count_a", row.count_a},
                                 {"count_b", row.count_b},
                                 {"total_a_s", row.total.a},
                                 {"total_b_s", row.total.b},
                                 {"share_of_difference", row.share}});
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankSpread& row : c.spread)
    json["ranks"].push_back({{"of", row.of},
                             {"least", json_of(row.least)},
                             {"mean", json_of(row.mean)},
                             {"most", json_of(row.most)}});
  json["same_work"] = {{"same", c.sameness.same},
                       {"first_difference", c.sameness.first_difference},
                       {"operators", c.sameness.operators},
                       {"communication_calls", c.sameness.communication_calls},
                       {"communication_bytes", c.sameness.communication_bytes.count()}};
  return json.dump(2) + '\n';
}

}  // namespace sim
