#include <fmt/format.h>

#include <map>

#include "sim/base/quantity.hpp"
#include "sim/topology/describe.hpp"

namespace sim {
namespace {

std::string parts_text(const NodeTemplate& node) {
  std::map<PartKind, int> parts;
  for (const Part& part : node.parts)
    ++parts[part.kind];
  std::string text = "parts\n";
  for (const auto& [kind, count] : parts)
    text += fmt::format("  {:>3} {}\n", count, word(kind));
  return text;
}

std::string links_text(const ImportedNode& imported) {
  std::string text = "links, one direction each\n";
  for (const PartLink& link : imported.node.links)
    text += fmt::format("  {:<12} -> {:<12} {:<8} {:>10}{}\n", imported.node.parts[link.from].name,
                        imported.node.parts[link.to].name, word(link.link.kind),
                        to_text(link.link.capacity),
                        link.bundled > 1 ? fmt::format("  x{}", link.bundled) : "");
  for (std::size_t i = 0; i < imported.nics.size(); ++i)
    text += fmt::format("  nic {:<8} -> {:<12} {:<8} {:>10}\n", i, "network", "nic",
                        to_text(imported.nics[i].capacity));
  return text;
}

}  // namespace

std::string describe(const Device& device) {
  std::string text = fmt::format("device: {}, {} SMs, {} at {}, {} reserved\n", device.name,
                                 device.sms, to_text(device.memory),
                                 to_text(device.memory_bandwidth), to_text(device.reserved));
  for (const auto& dtype : words_of(DType{}))
    if (const GemmModel* model = device.gemm_model(dtype.value))
      text += fmt::format("  {:<5} {} dense\n", dtype.text, to_text(model->peak));
  return text + fmt::format("  {}\n", device.origin);
}

std::string describe(const ImportedNode& imported, const std::string& path) {
  std::string text = path + '\n' + parts_text(imported.node) + links_text(imported);
  if (!imported.cpu_vendor.empty()) text += "CPUs: " + imported.cpu_vendor + '\n';
  for (const std::string& warning : imported.warnings)
    text += "WARNING: " + warning + '\n';
  for (const std::string& note : imported.notes)
    text += (note.find(" assumed") != std::string::npos ? "assumed: " : "note: ") + note + '\n';
  return text + fmt::format("\nIn a cluster file:\nnode: {{kind: imported, file: {}, {}...}}\n",
                            path, imported.warnings.empty() ? "" : "nvlink: {uneven: true, ...}, ");
}

}  // namespace sim
