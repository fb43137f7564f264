// stepcast validate: forecasts beside measurements.
#include "sim/cli/validate/validate.hpp"

#include <memory>

#include "sim/cli/train/engine.hpp"

namespace sim {
Command validate_command() {
  const auto published = std::make_shared<PublishedRequest>();
  std::vector<Command> commands = published_commands();
  for (Command& command : table_commands())
    commands.push_back(std::move(command));
  commands.push_back(round_command());
  commands.push_back(validate_real_command());
  return {.name = "validate",
          .help = "forecasts beside measurements, with their errors; without a command: published",
          .options = published_options(*published),
          .commands = std::move(commands),
          .footer =
              "Exit code 5: an error exceeds its bound in validation/bounds.yaml.\n"
              "Examples: stepcast validate --set sc21_table1\n"
              "          stepcast validate rows runs.csv --picture runs.svg\n"
              "          stepcast validate emit rows/ --set torchtitan\n"
              "          stepcast validate curves curves.csv curves_index.csv",
          .run = [published] { return show_published(*published); }};
}

}  // namespace sim
