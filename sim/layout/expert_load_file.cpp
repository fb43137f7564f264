// The file of ExpertLoad.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/input_log.hpp"
#include "sim/layout/expert_load.hpp"

namespace sim {
namespace {

constexpr std::size_t most_load_rows = 1'000'000;

struct Cell {
  std::string_view text;
  int column = 1;  // of the line
};

std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view text = line.substr(begin, end - begin);
    const std::size_t first = std::min(text.find_first_not_of(" \t\""), text.size());
    const std::size_t last = text.find_last_not_of(" \t\"");
    cells.push_back(
        {last == std::string_view::npos ? std::string_view{} : text.substr(first, last - first + 1),
         static_cast<int>(begin + first) + 1});
    begin = end + 1;
  }
  return cells;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_{path} {}

  ExpertLoad read() {
    std::istringstream lines{read_input(path_)};
    std::string line;
    while (std::getline(lines, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const std::size_t first = line.find_first_not_of(" \t");
      if (first == std::string::npos || line[first] == '#') continue;
      take(line);
    }
    if (rows_.empty())
      throw InputError{{path_, 0, 0},
                       "has no row; expected are lines of the tokens of each expert"};
    return ExpertLoad{std::move(rows_), path_};
  }

 private:
  void take(const std::string& line) {
    const std::vector<Cell> cells = cells_of(line);
    if (skipped_.empty()) {
      const bool header = !number_in(cells.front().text);
      for (const Cell& cell : cells)
        skipped_.push_back(header && is_label(cell.text));
      if (header) return;
    }
    if (cells.size() != skipped_.size())
      fail(line, cells.back().column,
           fmt::format("the line has {} columns, and those before have {}", cells.size(),
                       skipped_.size()));
    if (rows_.size() == most_load_rows)
      fail(line, 1, fmt::format("at most {} rows are read", most_load_rows));
    std::vector<double> row;
    double sum = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (skipped_[i]) continue;
      const std::optional<double> tokens = number_in(cells[i].text);
      if (!tokens || *tokens < 0)
        fail(line, cells[i].column,
             fmt::format("'{}' is no number of tokens; allowed: 0 or more", cells[i].text));
      row.push_back(*tokens);
      sum += *tokens;
    }
    if (!(sum > 0) || !std::isfinite(sum))
      fail(line, 1, "no expert has a token in this line; allowed: at least one above 0");
    rows_.push_back(std::move(row));
  }

  static bool is_label(std::string_view name) {
    return name == "layer" || name == "step" || name == "micro_batch";
  }

  [[noreturn]] void fail(const std::string& line, int column, std::string what) const {
    throw InputError{{Problem{{path_, number_, column}, std::move(what), line}}};
  }

  const std::string& path_;
  int number_ = 0;
  std::vector<bool> skipped_;  // of the columns
  ExpertLoad::Rows rows_;
};

}  // namespace

ExpertLoad read_expert_load(const std::string& path) {
  return Reader{path}.read();
}

}  // namespace sim
