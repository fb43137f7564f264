// Arguments of trainers that no step depends on.
#pragma once

#include <string_view>

namespace sim {

// Data, evaluation, checkpoints, logs, learning rates, tokenizers, launchers.
bool is_harmless_trainer_key(std::string_view key);

}  // namespace sim
