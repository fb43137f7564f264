// A command that starts torchtitan: torchrun -m torchtitan.train --job.config_file FILE.toml with
// "--section.key value" beside it, or run_train.sh with the file in CONFIG_FILE.
#pragma once

#include <string>
#include <vector>

#include "sim/config/change.hpp"
#include "sim/interop/launch_line.hpp"

namespace sim {

struct TitanLaunch {
  std::string file;             // the TOML
  std::int64_t gpus = 0;        // 0: not said
  std::vector<Change> changes;  // of the TOML
};

// Throws InputError where no line starts it, or its file is not found.
TitanLaunch torchtitan_launch(const Launch& launch, const std::string& path);

}  // namespace sim
