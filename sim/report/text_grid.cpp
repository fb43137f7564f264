#include "sim/report/text_grid.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

// Characters, not bytes, so that columns with a multiplication sign stay aligned.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

template <class Field>
std::string separated(const TextGrid& grid, std::string_view between, Field field) {
  std::string out;
  for (const auto& row : grid.rows) {
    SIM_CHECK(row.size() == grid.columns.size(), row.size(), grid.columns.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      out.append(i == 0 ? std::string_view{} : between).append(field(row[i]));
    out += '\n';
  }
  return out;
}

}  // namespace

std::string grid_table(const TextGrid& grid) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < grid.columns.size(); ++i) {
    std::size_t width = width_of(grid.columns[i].title);
    for (const auto& row : grid.rows)
      width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
  }
  const auto line = [&](auto text_of) {
    std::string out;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string& text = text_of(i);
      const std::string space(widths[i] - width_of(text), ' ');
      out.append(2, ' ');
      out += i == 0 ? text : space;
      out += i == 0 ? space : text;
    }
    return out + '\n';
  };
  std::string out =
      line([&](std::size_t i) -> const std::string& { return grid.columns[i].title; });
  for (const auto& row : grid.rows)
    out += line([&](std::size_t i) -> const std::string& { return row[i].text; });
  return out;
}

std::string grid_csv(const TextGrid& grid) {
  std::string head;
  for (const GridColumn& column : grid.columns)
    head.append(head.empty() ? "" : ",").append(csv_field(column.key));
  return head + '\n' +
         separated(grid, ",", [](const GridCell& cell) { return csv_field(cell.raw); });
}

std::string grid_markdown(const TextGrid& grid) {
  std::string head = "|";
  std::string rule = "|";
  for (const GridColumn& column : grid.columns) {
    head += fmt::format(" {} |", markdown_field(column.title));
    rule += rule.size() == 1 ? "---|" : "--:|";
  }
  std::string out = head + '\n' + rule + '\n';
  for (const auto& row : grid.rows) {
    out += '|';
    for (const GridCell& cell : row)
      out += fmt::format(" {} |", markdown_field(cell.text));
    out += '\n';
  }
  return out;
}

}  // namespace sim
