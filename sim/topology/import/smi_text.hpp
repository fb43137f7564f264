// The text around and in the matrix of `nvidia-smi topo -m`: words, labels of launchers before each
// line, columns that have grown together, lists of numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sim {

struct SmiToken {
  std::string text{};
  int line = 0, column = 0;
};
using SmiLine = std::vector<SmiToken>;

// Words by line, without the terminal's colour and underline codes ("ESC [ ... letter"), which
// nvidia-smi writes even into a file, and without mpirun's "[1,0]<stdout>:".
std::vector<SmiLine> smi_lines(std::string_view text);

bool is_gpu(std::string_view name);  // GPU12

// "NIC11NIC12" as NIC11, NIC12; a name that has not grown together as itself.
std::vector<SmiToken> split_names(const SmiToken& token);
// Whether it is a cell of the legend, or several that have grown together.
bool is_cell(std::string_view text);
// "NODESYS" as NODE, SYS; a cell that is none of the legend's as itself.
std::vector<SmiToken> split_cells(const SmiToken& token);

// "0,3-9,11-17" as closed ranges, ascending; nothing: no such list.
using NumberRanges = std::vector<std::pair<int, int>>;
std::optional<NumberRanges> number_ranges(std::string_view text);
bool share_number(const NumberRanges& a, const NumberRanges& b);

}  // namespace sim
