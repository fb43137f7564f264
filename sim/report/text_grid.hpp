// Rows and columns as a table for people, as CSV and as Markdown.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct GridColumn {
  std::string title;  // for people: "step time"
  std::string key;    // of CSV, with the unit: "step_time_s"
};

struct GridCell {
  std::string text;                                                 // for people: "5.888 s"
  std::string raw;                                                  // for programs: "5.888"
  GridCell(std::string both) : text{both}, raw{std::move(both)} {}  // NOLINT: a cell is a text
  GridCell(std::string for_people, std::string for_programs)
      : text{std::move(for_people)}, raw{std::move(for_programs)} {}
};

struct TextGrid {
  std::vector<GridColumn> columns;
  std::vector<std::vector<GridCell>> rows;  // as many cells as columns
};

std::string grid_table(const TextGrid& grid);     // columns aligned by spaces
std::string grid_csv(const TextGrid& grid);       // RFC 4180
std::string grid_markdown(const TextGrid& grid);  // GitHub's tables

}  // namespace sim
