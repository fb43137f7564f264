// stepcast validate: forecasts beside measurements. Its commands, and the options that they
// replace.
#include "sim/cli/validate.hpp"

#include <fmt/format.h>

#include <memory>

#include "sim/cli/engine.hpp"

namespace sim {
namespace {

// Options of `validate` itself before it had commands.
struct OldOptions {
  PublishedRequest published;
  TableRequest table;
  bool ablate = false, peers = false, favourites = false, memory_error = false;
};

Option hidden(Option option) {
  option.hidden = true;
  return option;
}

Options old_options(OldOptions& old) {
  const std::vector<std::string> tables{"--rows", "--curves"};
  return {
      hidden(
          {.name = "--rows", .into = &old.table.rows, .form = "FILE.csv", .excludes = {"--set"}}),
      hidden({.name = "--curves",
              .into = &old.table.curves,
              .needs = {"--index"},
              .excludes = {"--set", "--rows", "--picture"}}),
      hidden({.name = "--index", .into = &old.table.index, .needs = {"--curves"}}),
      hidden({.name = "--ablate", .into = &old.ablate, .excludes = tables}),
      hidden({.name = "--peers",
              .into = &old.peers,
              .excludes = {"--set", "--rows", "--curves", "--ablate"}}),
      hidden({.name = "--favourites",
              .into = &old.favourites,
              .excludes = {"--rows", "--curves", "--ablate", "--peers"}}),
      hidden({.name = "--memory-error",
              .into = &old.memory_error,
              .excludes = {"--set", "--rows", "--curves", "--ablate", "--peers", "--favourites"}}),
      hidden({.name = "--emit",
              .into = &old.table.folder,
              .excludes = {"--curves", "--ablate", "--peers", "--favourites", "--memory-error",
                           "--picture"}})};
}

ExitCode as(const char* command, const std::function<ExitCode()>& run) {
  print_note(fmt::format(
      "note: this is now `stepcast validate {}`; the old option goes in the next release",
      command));
  return run();
}

ExitCode validate_old(OldOptions& old) {
  PublishedRequest& published = old.published;
  TableRequest& table = old.table;
  table.output = published.output;
  table.picture = published.picture;
  table.sets = published.sets;
  if (!table.folder.empty()) return as("emit DIR", [&] { return emit_scenarios(table); });
  if (old.ablate) return as("ablation", [&] { return show_ablation(published); });
  if (old.favourites) return as("ranking", [&] { return show_ranking(published); });
  if (old.memory_error) return as("memory-error", [&] { return show_memory_error(published); });
  if (old.peers) return as("peers", [&] { return show_peers(published); });
  if (!table.curves.empty()) return as("curves CURVES INDEX", [&] { return show_curves(table); });
  if (!table.rows.empty()) return as("rows FILE.csv", [&] { return show_rows(table); });
  return show_published(published);
}

}  // namespace

Command validate_command() {
  const auto old = std::make_shared<OldOptions>();
  std::vector<Command> commands = published_commands();
  for (Command& command : table_commands())
    commands.push_back(std::move(command));
  commands.push_back(validate_real_command());
  return {.name = "validate",
          .help = "forecasts beside measurements, with their errors; without a command: published",
          .options = joined({published_options(old->published), old_options(*old)}),
          .commands = std::move(commands),
          .footer =
              "Exit code 5: an error exceeds its bound in validation/bounds.yaml.\n"
              "Examples: stepcast validate --set sc21_table1\n"
              "          stepcast validate rows runs.csv --picture runs.svg\n"
              "          stepcast validate emit rows/ --set torchtitan\n"
              "          stepcast validate curves curves.csv curves_index.csv",
          .run = [old] { return validate_old(*old); }};
}

}  // namespace sim
