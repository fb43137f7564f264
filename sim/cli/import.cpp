// stepcast import: files of other programs, shown as what Stepcast reads in them.
#include "sim/topology/import.hpp"

#include <fmt/format.h>

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

Options node_options(NodeRequest& request) {
  return {{.name = "FILE", .into = &request.path, .help = "the file", .required = true},
          {.name = "--generation",
           .into = word_value<Generation>(request.generation),
           .form = "NAME",
           .help = "of the GPUs, for the rate of an NVLink: volta, ampere, hopper, blackwell"},
          {.name = "--nvlinks",
           .into = &request.nvlinks,
           .form = "N",
           .help = "NVLinks per GPU where the file does not say",
           .check = CountFrom{0, 256}},
          {.name = "--pcie",
           .into = &request.pcie_generation,
           .form = "N",
           .help = "PCIe generation where the file does not say (nvidia-smi)",
           .check = CountFrom{1, 6}},
          {.name = "--accept-uneven",
           .into = &request.accept_uneven,
           .help = "take GPUs whose NVLinks are missing or differ as they are"}};
}

// Rates that such a file may leave out; what is used of them is told in the notes. 50 GB/s: a
// 400 Gb/s NIC; latencies as in the shipped clusters (topologies/README.md).
ImportDefaults defaults_of(const NodeRequest& request) {
  std::optional<int> pcie;
  if (request.pcie_generation > 0) pcie = request.pcie_generation;
  return {.generation = request.generation.value_or(Generation::hopper),
          .nvlinks = request.nvlinks,
          .nvlink_latency = std::chrono::nanoseconds{300},
          .nic = Bandwidth::bits_per_second(400e9),
          .nic_latency = std::chrono::nanoseconds{300},
          .pcie_generation = pcie,
          .pcie_latency = std::chrono::nanoseconds{500},
          .socket_bandwidth = Bandwidth::bytes_per_second(22e9),
          .generation_stated = request.generation.has_value(),
          .rates_stated = false,
          .uneven_nvlink = request.accept_uneven};
}

Command node_command(const char* name, const char* help) {
  const auto request = std::make_shared<NodeRequest>();
  return {.name = name, .help = help, .options = node_options(*request), .run = [request] {
            print_result(node_text(import_node(request->path, defaults_of(*request)), *request));
            return ExitCode::done;
          }};
}

Command hugging_face_command() {
  const auto path = std::make_shared<std::string>();
  return {
      .name = "hf",
      .help =
          "check a Hugging Face config.json and show the model in it; a scenario's 'model:' names "
          "such a file directly",
      .options = {{.name = "FILE", .into = path.get(), .help = "config.json", .required = true}},
      .run = [path] {
        print_result(model_text(load_model(*path)));
        return ExitCode::done;
      }};
}

}  // namespace

Command import_command() {
  std::vector<Command> commands{
      hugging_face_command(), node_command("nccl-xml", "show the node in an NCCL topology XML"),
      node_command("nvidia-smi", "show the node in the text of nvidia-smi topo -m")};
  for (Command& job : job_imports())
    commands.push_back(std::move(job));
  return {.name = "import",
          .help = "files of other programs",
          .commands = std::move(commands),
          .footer = "Example: stepcast import hf config.json"};
}

}  // namespace sim
