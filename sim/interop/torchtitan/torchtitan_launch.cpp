// Sources: pytorch/torchtitan v0.2.2, run_train.sh (CONFIG_FILE, NGPU) and config/manager.py (tyro:
// "--a.b value", "--a.b=value", "--a.b" and "--a.no-b" of a boolean).
#include "sim/interop/torchtitan/torchtitan_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace sim {
namespace {

std::string variable_of(const Launch& launch, const std::string& name) {
  const auto found = launch.variables.find(name);
  return found == launch.variables.end() ? "" : found->second;
}

std::vector<Change> changes_of(const LaunchLine& line) {
  std::vector<Change> changes;
  for (const LineFlag& flag : line.flags) {
    std::string name = flag.name;
    std::ranges::replace(name, '-', '_');
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || name == "job.config_file") continue;
    const bool off = name.compare(dot + 1, 3, "no_") == 0 && flag.values.empty();
    if (off) name.erase(dot + 1, 3);
    std::string value = off ? "false" : flag.text();
    if (value == "True" || value == "False") value = value == "True" ? "true" : "false";
    changes.push_back({std::move(name), std::move(value)});
  }
  return changes;
}

}  // namespace

TitanLaunch torchtitan_launch(const Launch& launch, const std::string& path) {
  for (const LaunchedProgram& program : launch.programs) {
    auto at = word_at(program, {"run_train.sh", "torchtitan.train", "train.py"});
    if (!at) continue;
    const LaunchLine line = read_line(program, *at + 1);
    const LineFlag* config = line.find({"job.config_file"});
    const std::string named = config != nullptr && !config->values.empty()
                                  ? config->values.front().text
                                  : variable_of(launch, "CONFIG_FILE");
    const bool registry = line.find({"config"}) != nullptr && line.find({"module"}) != nullptr;
    if (named.empty() && registry)
      throw InputError{program.words[*at].where,
                       fmt::format("this line takes a configuration in Python: give the file, as "
                                   "stepcast import torchtitan torchtitan/models/{}/"
                                   "config_registry.py --recipe {} --cluster dgx-h100",
                                   line.find({"module"})->text(), line.find({"config"})->text())};
    if (named.empty()) continue;
    TitanLaunch made;
    made.file = file_of_launch(path, named);
    if (made.file.empty())
      throw InputError{program.words[*at].where,
                       fmt::format("{}: this file is neither beside {} nor in a folder above it",
                                   named, std::filesystem::path{path}.filename().string())};
    made.changes = changes_of(line);
    LaunchSizes sizes = sizes_of(launch, program, *at);
    if (sizes.all() == 0) sizes.gpus = std::atoi(variable_of(launch, "NGPU").c_str());
    made.gpus = std::max<std::int64_t>(0, sizes.all());
    return made;
  }
  throw InputError{{path, 0, 0},
                   "no line of this script starts torchtitan (run_train.sh or -m torchtitan.train "
                   "with --job.config_file FILE.toml, or CONFIG_FILE)"};
}

}  // namespace sim
