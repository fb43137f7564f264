// stepcast import: files of other programs, shown as what Stepcast reads in them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/model_text.hpp"
#include "sim/model/model.hpp"

namespace sim {

void add_import(CLI::App& app, Action& action) {
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
  command->footer("Example: stepcast import hf config.json");
}

}  // namespace sim
