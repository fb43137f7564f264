#include "sim/scripts/launch/launch.hpp"

#include <algorithm>
#include <charconv>

#include "sim/config/input_log.hpp"
#include "sim/scripts/launch/launch_words.hpp"
#include "sim/scripts/launch/manifest.hpp"
#include "sim/scripts/script_parsers.hpp"
#include "sim/scripts/scripts.hpp"
#include "sim/scripts/shell/script_source.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_gpus = 1 << 20;

std::int64_t count_in(std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc{} && read.ptr == text.data() + text.size();
  return whole && value > 0 && value <= most_gpus ? value : 0;
}

// `at`: the text of a word by its number.
template <class Text>
LaunchSizes sizes_in(std::size_t count, Text at) {
  LaunchSizes sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view word = at(i);
    const std::size_t equals = word.find('=');
    const std::string_view value = equals != std::string_view::npos ? word.substr(equals + 1)
                                   : i + 1 < count                  ? at(i + 1)
                                                                    : std::string_view{};
    const std::string_view flag = launcher_flag(shell_flag_name(word));
    const std::int64_t number = count_in(value);
    if (number == 0 || flag.empty()) continue;
    (flag == "--nnodes"           ? sizes.nodes
     : flag == "--nproc-per-node" ? sizes.gpus_per_node
                                  : sizes.gpus) = number;
  }
  return sizes;
}

Launch unwrap(const Tree& tree, std::span<const Definition> definitions, const ShellFiles& files) {
  const ShellText source = source_of(tree);
  const Places places{tree.source()};
  ShellVariables variables;
  for (const Definition& definition : definitions)
    variables.define(definition.name, definition.value);
  std::vector<ShellText> slurm;
  UnwrappedJob job;
  try {
    slurm = words_for_slurm(source);
    set_slurm_variables(slurm, variables);
    job = is_manifest(tree.source()) ? unwrap_manifest(tree, variables, files)
                                     : UnwrappedJob{run_shell_script(source, variables, files)};
  } catch (const ShellProblem& problem) {
    tree.fail(places.of(problem.at), problem.what);
  }
  Launch launch;
  launch.job =
      sizes_in(slurm.size(), [&](std::size_t i) { return std::string_view{slurm[i].text}; });
  if (job.pods > 0) launch.job = {job.pods, job.gpus_per_pod, 0};
  for (const ShellCommand& command : job.outcome.commands) {
    LaunchedProgram program;
    for (const ShellText& word : command.words)
      program.words.push_back({variables.unknowns.shown(word.text),
                               !ShellUnknowns::has_mark(word.text),
                               tree.position(places.of(word.at(command.at)))});
    launch.programs.push_back(std::move(program));
  }
  for (const auto& [name, variable] : variables.all())
    if (variable.values.size() == 1 && !ShellUnknowns::has_mark(variable.values.front().text))
      launch.variables[name] = variable.values.front().text;
  return launch;
}

}  // namespace

Launch parse_launch(std::string_view text, const std::string& name,
                    std::span<const Definition> definitions) {
  return unwrap(Tree{text, name}, definitions, {});
}

Launch load_launch(const std::string& path, std::span<const Definition> definitions) {
  const std::string text = read_input(path);
  return unwrap(Tree{text, path}, definitions,
                [&path](std::string_view named) { return text_beside(path, named); });
}

LaunchSizes sizes_of(const Launch& launch, const LaunchedProgram& program, std::size_t end) {
  LaunchSizes sizes = sizes_in(std::min(end, program.words.size()), [&](std::size_t i) {
    return std::string_view{program.words[i].text};
  });
  if (sizes.gpus > 0) return sizes;
  if (sizes.gpus_per_node == 0) sizes.gpus_per_node = launch.job.gpus_per_node;
  if (sizes.nodes == 0) sizes.nodes = launch.job.nodes;
  if (sizes.gpus_per_node == 0) sizes.gpus = launch.job.gpus;
  return sizes;
}

}  // namespace sim
