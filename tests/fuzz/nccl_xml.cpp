// NCCL topology XML. Beside not crashing: a node that is read has GPUs, and its links join its
// parts.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/topology/import.hpp"

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  sim::ImportDefaults defaults;
  defaults.nic = sim::Bandwidth::bits_per_second(400e9);
  defaults.socket_bandwidth = sim::Bandwidth::bytes_per_second(22e9);
  try {
    const sim::ImportedNode imported = sim::import_nccl_xml(text, "fuzzed", defaults);
    require(!imported.node.gpus.empty() && imported.nics.size() == imported.node.nics.size());
    for (const sim::PartLink& link : imported.node.links) {
      require(link.from < imported.node.parts.size() && link.to < imported.node.parts.size());
      require(link.link.capacity > sim::Bandwidth{});
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
