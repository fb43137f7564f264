#include "sim/explain/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/printable.hpp"
#include "sim/base/table_text.hpp"

namespace sim {
namespace {

// Characters, not bytes: names may hold more than ASCII.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80;
  }));
}

void add_table(std::string& text, const TextSection& section) {
  std::vector<std::size_t> widths;
  for (const std::string& cell : section.head)
    widths.push_back(characters(cell));
  for (const auto& row : section.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(printable(row[i])));
  const auto add_row = [&](const std::vector<std::string>& row) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = printable(row[i]);
      const std::string space(widths[i] - characters(cell), ' ');
      line += (i == 0 ? " " : "  ") + (i == 0 ? cell + space : space + cell);
    }
    while (line.ends_with(' '))
      line.pop_back();
    text += line + '\n';
  };
  add_row(section.head);
  for (const auto& row : section.rows)
    add_row(row);
}

}  // namespace

std::string text_of(const std::vector<TextSection>& sections, bool color) {
  constexpr std::size_t width = 110;
  std::string text;
  for (const TextSection& section : sections) {
    if (!text.empty()) text += '\n';
    if (!section.title.empty())
      text += color ? fmt::format("\x1b[1m{}\x1b[0m\n", section.title) : section.title + '\n';
    for (const std::string& sentence : section.sentences)
      for (const std::string& line : wrapped(printable(sentence), width))
        text += line + '\n';
    if (!section.head.empty()) add_table(text, section);
  }
  return text;
}

std::string markdown_of(const std::vector<TextSection>& sections) {
  std::string text;
  for (const TextSection& section : sections) {
    if (!section.title.empty()) text += fmt::format("\n### {}\n\n", section.title);
    for (const std::string& sentence : section.sentences)
      text += fmt::format("- {}\n", markdown_field(sentence));
    if (section.head.empty()) continue;
    if (!section.sentences.empty()) text += '\n';
    text += fmt::format("|{}|\n|", fmt::join(section.head, "|"));
    for (std::size_t i = 0; i < section.head.size(); ++i)
      text += i == 0 ? "---|" : "--:|";
    text += '\n';
    for (const auto& row : section.rows) {
      text += '|';
      for (const std::string& cell : row)
        text += markdown_field(cell) + '|';
      text += '\n';
    }
  }
  return text;
}

std::string seconds_text(double seconds) {
  if (std::abs(seconds) < 0.5e-12) return "0";
  const std::string size = precise(duration_from_seconds(std::abs(seconds)));
  return seconds < 0 ? "-" + size : size;
}

std::string share_text(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

}  // namespace sim
