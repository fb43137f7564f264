// The programs that a file starts for a job: the words of each, with those of its launchers in
// front, as a shell or a container would hand them on. Files: shell scripts (Slurm's among them,
// scripts that they write or name), jobs of Kubernetes (manifest.hpp). Nothing runs.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/scripts/definition.hpp"

namespace sim {

struct LaunchWord {
  std::string text;  // what is not known stands in it as "$NAME"
  bool known = true;
  SourcePosition where;
};

struct LaunchedProgram {
  std::vector<LaunchWord> words;
};

// How many GPUs there are, as launchers, Slurm or pods say it; 0: not said, or not known.
struct LaunchSizes {
  std::int64_t nodes = 0, gpus_per_node = 0, gpus = 0;
  std::int64_t all() const {
    return gpus > 0 ? gpus : std::max<std::int64_t>(nodes, 1) * gpus_per_node;
  }
};

struct Launch {
  std::vector<LaunchedProgram> programs;         // in order
  std::map<std::string, std::string> variables;  // that are known in the end
  LaunchSizes job;                               // of Slurm or the pods
};

// Throws InputError for what is neither.
Launch parse_launch(std::string_view text, const std::string& name,
                    std::span<const Definition> definitions);
// Scripts that it names are read where they lie beside it.
Launch load_launch(const std::string& path, std::span<const Definition> definitions);

// The sizes that the words of a program's launchers say, else those of the job. `end`: behind the
// last word of the launchers.
LaunchSizes sizes_of(const Launch& launch, const LaunchedProgram& program, std::size_t end);

}  // namespace sim
