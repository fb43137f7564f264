// Lists of nodes as Slurm writes them: what is read is written as a list of the same names.
#include "sim/topology/node_list.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/topology/cluster.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const std::vector<std::string> names = sim::expand_node_list(text);
    require(!names.empty() && names.size() <= static_cast<std::size_t>(sim::most_nodes));
    require(sim::expand_node_list(sim::node_list_of(names)) == names);
  } catch (const std::invalid_argument& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
