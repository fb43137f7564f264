// Lists of nodes as Slurm writes them: "gpu[001-016,020],login1".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

// The names of a list, in its order. Numbers in brackets have the width of the first of their
// range, with leading zeros; a name may have several brackets, of which the last runs fastest
// (Slurm, `scontrol show hostnames`). At most most_nodes names. Throws std::invalid_argument with
// the column.
std::vector<std::string> expand_node_list(std::string_view text);

// A list that expand_node_list() takes to these names: names that differ by 1 in the number at
// their end share brackets.
std::string node_list_of(std::span<const std::string> names);

}  // namespace sim
