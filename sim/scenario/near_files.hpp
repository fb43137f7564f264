// Suggestions for a path that leads nowhere: existing files that may have been meant.
#pragma once

#include <string>

namespace sim {

// "; the shipped file is /data/models/gpt2.yaml" for "gpt2" of kind "models", or "; did you mean
// 'gpt2.yaml'?" and the like for what lies in the same folder; empty: nothing to say.
std::string near_files_text(const std::string& path, const std::string& kind);

}  // namespace sim
