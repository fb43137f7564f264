// A command that starts a trainer of Hugging Face's world: accelerate launch, trl, torchrun,
// axolotl, llamafactory-cli, with a file of arguments, with flags, or both.
#pragma once

#include <optional>
#include <string>

#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/launch_line.hpp"

namespace sim {

struct TrainerLaunch {
  Document arguments;                  // of the trainer, with the flags on top
  std::optional<Document> accelerate;  // as `accelerate config` writes it, with the flags on top
  std::string folder;                  // of the file of arguments
  int gpus = 0;                        // as launchers say it; 0: not said
  std::vector<Note> notes;
};

// The trainer that the file at `path` starts; nothing: it starts none that is known. Throws
// InputError where there are several, where a file that the line names is not found, and for what
// trains with another loss (trl grpo).
std::optional<TrainerLaunch> trainer_launch(const Launch& launch, const std::string& path);

}  // namespace sim
