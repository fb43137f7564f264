// stepcast import: files of other programs, shown as what Stepcast reads in them.
#include "sim/topology/import/import.hpp"

#include <memory>
#include <optional>

#include "sim/cli/command.hpp"
#include "sim/config/data_files.hpp"
#include "sim/model/describe.hpp"
#include "sim/topology/describe.hpp"
#include "sim/topology/survey/survey.hpp"

namespace sim {
namespace {

struct NodeRequest {
  std::string path;
  std::optional<Generation> generation;
  ImportDefaults defaults = example_defaults();
};

Options node_options(NodeRequest& request) {
  return {{.name = "FILE", .into = &request.path, .help = "the file", .required = true},
          {.name = "--generation",
           .into = word_value<Generation>(request.generation),
           .form = "NAME",
           .help = "of the GPUs, for the rate of an NVLink: volta, ampere, hopper, blackwell"},
          {.name = "--nvlinks",
           .into = &request.defaults.nvlinks,
           .form = "N",
           .help = "NVLinks per GPU where the file does not say",
           .check = CountFrom{0, 256}},
          {.name = "--pcie",
           .into = &request.defaults.pcie_generation,
           .form = "N",
           .help = "PCIe generation where the file does not say (nvidia-smi)",
           .check = CountFrom{1, 6}},
          {.name = "--accept-uneven",
           .into = &request.defaults.uneven_nvlink,
           .help = "take GPUs whose NVLinks are missing or differ as they are"}};
}

ExitCode show_node(const NodeRequest& request) {
  ImportDefaults defaults = request.defaults;
  defaults.generation_stated = request.generation.has_value();
  if (request.generation) defaults.generation = *request.generation;
  print_result(describe(import_node(request.path, defaults), request.path));
  return ExitCode::done;
}

Command node_command(const char* name, const char* help) {
  const auto request = std::make_shared<NodeRequest>();
  return {.name = name, .help = help, .options = node_options(*request), .run = [request] {
            return show_node(*request);
          }};
}

Command fabric_command() {
  const auto path = std::make_shared<std::string>();
  return {.name = "fabric",
          .help =
              "show the fabric in the output of ibnetdiscover, or in Slurm's topology.conf or "
              "topology.yaml",
          .options = {{.name = "FILE", .into = path.get(), .help = "the file", .required = true}},
          .run = [path] {
            for (const FabricSurvey& survey : survey_fabric_file(*path))
              print_result(describe(survey));
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
      .options = {{.name = "FILE",
                   .into = path.get(),
                   .help = "config.json, or a name as 'models list' has it",
                   .required = true}},
      .run = [path] {
        print_result(describe(load_model(find_data_file("models", *path))));
        return ExitCode::done;
      }};
}

}  // namespace

Command import_command() {
  std::vector<Command> commands{
      hugging_face_command(), node_command("nccl-xml", "show the node in an NCCL topology XML"),
      node_command("nvidia-smi", "show the node in the text of nvidia-smi topo -m"),
      fabric_command()};
  for (Command& job : job_imports())
    commands.push_back(std::move(job));
  return {.name = "import",
          .help = "files of other programs",
          .commands = std::move(commands),
          .footer = "Example: stepcast import hf config.json"};
}

}  // namespace sim
