#include "sim/topology/import/smi_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace sim {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

// How many characters a word of the legend takes at the start of `text`; 0: none is there.
std::size_t cell_length(std::string_view text) {
  for (const std::string_view word : {"NODE", "PIX", "PXB", "PHB", "SYS", "SOC", "X"})
    if (text.starts_with(word)) return word.size();
  if (!text.starts_with("NV")) return 0;
  std::size_t end = 2;
  while (end < text.size() && digit(text[end]))
    ++end;
  return end > 2 ? end : 0;
}

SmiToken part_of(const SmiToken& token, std::size_t begin, std::size_t length) {
  return {token.text.substr(begin, length), token.line, token.column + static_cast<int>(begin)};
}

// Characters of "[1,0]<stdout>:" at the start of a line.
std::size_t output_tag(std::string_view line) {
  if (!line.starts_with('[')) return 0;
  line = line.substr(0, std::min(line.find('\n'), line.size()));
  const std::size_t close = line.find("]<std");
  const std::size_t end = close == std::string_view::npos ? close : line.find(">:", close);
  return end == std::string_view::npos ? 0 : end + 2;
}

}  // namespace

std::vector<SmiLine> smi_lines(std::string_view text) {
  std::vector<SmiLine> lines(1);
  int column = 1;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i, ++column) {
    if (column == 1)
      if (const std::size_t tag = output_tag(text.substr(i)); tag > 0) {
        i += tag - 1;
        column += static_cast<int>(tag) - 1;
        continue;
      }
    const char c = text[i];
    if (c == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~') && text[i] != '\n')
        ++i;
      if (i >= text.size() || text[i] != '\n') continue;
      --i;  // an unfinished code ends with its line
    } else if (c == '\n') {
      lines.emplace_back();
      column = 0;
      in_word = false;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      in_word = false;
    } else {
      if (!in_word) lines.back().push_back({{}, static_cast<int>(lines.size()), column});
      lines.back().back().text += c;
      in_word = true;
    }
  }
  return lines;
}

bool is_gpu(std::string_view name) {
  return name.size() > 3 && name.starts_with("GPU") &&
         std::all_of(name.begin() + 3, name.end(), digit);
}

std::vector<SmiToken> split_names(const SmiToken& token) {
  std::vector<SmiToken> names;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < token.text.size(); ++i) {
    const std::string_view rest = std::string_view{token.text}.substr(i);
    const bool starts =
        rest.starts_with("GPU") || rest.starts_with("NIC") || rest.starts_with("mlx");
    if (!starts || !digit(token.text[i - 1])) continue;
    names.push_back(part_of(token, begin, i - begin));
    begin = i;
  }
  names.push_back(part_of(token, begin, token.text.size() - begin));
  return names;
}

bool is_cell(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = cell_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::vector<SmiToken> split_cells(const SmiToken& token) {
  std::vector<SmiToken> cells;
  std::size_t begin = 0;
  while (begin < token.text.size()) {
    const std::size_t length = cell_length(std::string_view{token.text}.substr(begin));
    if (length == 0) return {token};
    cells.push_back(part_of(token, begin, length));
    begin += length;
  }
  return cells;
}

std::optional<NumberRanges> number_ranges(std::string_view text) {
  NumberRanges ranges;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    int first = 0, last = 0;
    const char* const end = item.data() + item.size();
    const auto [middle, error] = std::from_chars(item.data(), end, first);
    if (error != std::errc{} || first < 0) return std::nullopt;
    last = first;
    if (middle != end) {
      if (*middle != '-') return std::nullopt;
      const auto [stop, failed] = std::from_chars(middle + 1, end, last);
      if (failed != std::errc{} || stop != end || last < first) return std::nullopt;
    }
    ranges.emplace_back(first, last);
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

bool share_number(const NumberRanges& a, const NumberRanges& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const auto& y) { return x.first <= y.second && y.first <= x.second; });
  });
}

}  // namespace sim
