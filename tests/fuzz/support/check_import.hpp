// Checks of the importers' fuzz targets: any text is an InputError or a node with GPUs, whose links
// join its parts.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/topology/import/import.hpp"
#include "tests/fuzz/support/require.hpp"

namespace fuzz {

// REQUIRES: `import` is one of the importers of sim/topology/import/import.hpp.
template <class Import>
void check_import(const std::uint8_t* data, std::size_t size, Import import) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  sim::ImportDefaults defaults;
  defaults.nic = sim::Bandwidth::bits_per_second(400e9);
  defaults.socket_bandwidth = sim::Bandwidth::bytes_per_second(22e9);
  try {
    const sim::ImportedNode imported = import(text, "fuzzed", defaults);
    require(!imported.node.gpus.empty() && imported.nics.size() == imported.node.nics.size());
    for (const sim::PartLink& link : imported.node.links) {
      require(link.from < imported.node.parts.size() && link.to < imported.node.parts.size());
      require(link.link.capacity > sim::Bandwidth{});
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
}

}  // namespace fuzz
