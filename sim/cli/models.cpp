// stepcast models: the architectures that are shipped, and what a model file says.
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/model/describe.hpp"

namespace sim {
namespace {

ExitCode list_models() {
  std::vector<NamedModel> models;
  std::string problems;  // a file that is wrong hides no other
  for (const std::string& name : data_files("models")) {
    try {
      models.push_back({name, load_model(find_data_file("models", name))});
    } catch (const InputError& error) {
      problems += error.what() + std::string{"\n"};
    }
  }
  print_result(model_table(models));
  if (!problems.empty()) print_note(problems);
  return problems.empty() ? ExitCode::done : ExitCode::invalid_input;
}

Command show_model_command() {
  const auto name = std::make_shared<std::string>();
  return {.name = "show",
          .help = "what a model file says, operator by operator",
          .options = {{.name = "MODEL",
                       .into = name.get(),
                       .help = "name as listed, or a file",
                       .required = true}},
          .run = [name] {
            print_result(describe(load_model(find_data_file("models", *name))));
            return ExitCode::done;
          }};
}

}  // namespace

Command models_command() {
  return {.name = "models",
          .help = "the architectures that are shipped",
          .commands = {{.name = "list",
                        .help = "all shipped models with their parameter counts",
                        .run = list_models},
                       show_model_command()},
          .footer = "Example: stepcast models show llama-3.1-8b"};
}

}  // namespace sim
