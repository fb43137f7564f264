// stepcast import: files of other programs, shown as what Stepcast reads in them.
#include "sim/topology/import.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/quantity.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/model_text.hpp"
#include "sim/model/model.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

struct NodeRequest {
  std::string path;
  std::optional<Generation> generation;
  int nvlinks = 0;
  int pcie_generation = 0;  // 0: not said
  bool accept_uneven = false;
};

// What a node file says, and the lines of a cluster file that use it.
std::string node_text(const ImportedNode& imported, const NodeRequest& request) {
  std::string text = fmt::format("{}\nparts\n", request.path);
  std::map<PartKind, int> parts;
  for (const Part& part : imported.node.parts)
    ++parts[part.kind];
  for (const auto& [kind, count] : parts)
    text += fmt::format("  {:>3} {}\n", count, word(kind));
  text += "links, one direction each\n";
  for (const PartLink& link : imported.node.links)
    text += fmt::format("  {:<12} -> {:<12} {:<8} {:>10}{}\n", imported.node.parts[link.from].name,
                        imported.node.parts[link.to].name, word(link.link.kind),
                        to_text(link.link.capacity),
                        link.bundled > 1 ? fmt::format("  x{}", link.bundled) : "");
  for (std::size_t i = 0; i < imported.nics.size(); ++i)
    text += fmt::format("  nic {:<8} -> {:<12} {:<8} {:>10}\n", i, "network", "nic",
                        to_text(imported.nics[i].capacity));
  if (!imported.cpu_vendor.empty()) text += "CPUs: " + imported.cpu_vendor + '\n';
  for (const std::string& warning : imported.warnings)
    text += "WARNING: " + warning + '\n';
  for (const std::string& note : imported.notes)
    text += (note.find(" assumed") != std::string::npos ? "assumed: " : "note: ") + note + '\n';
  return text + fmt::format("\nIn a cluster file:\nnode: {{kind: imported, file: {}, {}...}}\n",
                            request.path,
                            imported.warnings.empty() ? "" : "nvlink: {uneven: true, ...}, ");
}

void add_node_import(CLI::App& command, ChosenCommand& action, const char* name, const char* what) {
  const auto request = std::make_shared<NodeRequest>();
  CLI::App* sub = command.add_subcommand(name, what);
  sub->add_option("FILE", request->path, "the file")->required();
  std::map<std::string, Generation> generations;
  for (const auto& entry : words_of(Generation{}))
    generations.emplace(entry.text, entry.value);
  sub->add_option("--generation", request->generation,
                  "of the GPUs, for the rate of an NVLink: volta, ampere, hopper, blackwell")
      ->transform(CLI::CheckedTransformer(generations))
      ->option_text("NAME");
  sub->add_option("--nvlinks", request->nvlinks, "NVLinks per GPU where the file does not say")
      ->check(CLI::Range(0, 256))
      ->option_text("N");
  sub->add_option("--pcie", request->pcie_generation,
                  "PCIe generation where the file does not say (nvidia-smi)")
      ->check(CLI::Range(1, 6))
      ->option_text("N");
  sub->add_flag("--accept-uneven", request->accept_uneven,
                "take GPUs whose NVLinks are missing or differ as they are");
  sub->callback([request, &action] {
    action = [request] {
      // Rates that such a file may leave out; what is used of them is told in the notes. 50 GB/s:
      // a 400 Gb/s NIC; latencies as in the shipped clusters (topologies/README.md).
      std::optional<int> pcie;
      if (request->pcie_generation > 0) pcie = request->pcie_generation;
      const ImportDefaults defaults{.generation = request->generation.value_or(Generation::hopper),
                                    .nvlinks = request->nvlinks,
                                    .nvlink_latency = std::chrono::nanoseconds{300},
                                    .nic = Bandwidth::bits_per_second(400e9),
                                    .nic_latency = std::chrono::nanoseconds{300},
                                    .pcie_generation = pcie,
                                    .pcie_latency = std::chrono::nanoseconds{500},
                                    .socket_bandwidth = Bandwidth::bytes_per_second(22e9),
                                    .generation_stated = request->generation.has_value(),
                                    .rates_stated = false,
                                    .uneven_nvlink = request->accept_uneven};
      print_result(node_text(import_node(request->path, defaults), *request));
      return ExitCode::done;
    };
  });
}

}  // namespace

void add_import(CLI::App& app, ChosenCommand& action) {
  CLI::App* command = app.add_subcommand("import", "files of other programs");
  command->require_subcommand(1);
  const auto path = std::make_shared<std::string>();
  CLI::App* hf = command->add_subcommand(
      "hf",
      "check a Hugging Face config.json and show the model in it; a scenario's 'model:' names "
      "such a file directly");
  hf->add_option("FILE", *path, "config.json")->required();
  hf->callback([path, &action] {
    action = [path] {
      print_result(model_text(load_model(*path)));
      return ExitCode::done;
    };
  });
  add_node_import(*command, action, "nccl-xml", "show the node in an NCCL topology XML");
  add_node_import(*command, action, "nvidia-smi",
                  "show the node in the text of nvidia-smi topo -m");
  add_job_imports(*command, action);
  command->footer("Example: stepcast import hf config.json");
}

}  // namespace sim
