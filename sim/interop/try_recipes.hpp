// A folder of other people's recipes, tried file by file: which are read, with which remarks, and
// what the others are refused for.
#pragma once

#include <string>
#include <vector>

#include "sim/interop/job_file.hpp"

namespace sim {

struct TriedRecipe {
  std::string file;    // below the folder
  std::string recipe;  // of a file of several
  JobKind kind{};
  bool read = false;
  bool with_options = false;  // read with `Fallback`, for what the file leaves open
  // As they are written, but for numbers and what stands in quotes: remarks, or why it is refused.
  std::vector<std::string> reasons;
};

// Fallback is given to files that leave something open: what stands for it, and where they run.
struct Fallback {
  std::string cluster = "dgx-h100";
  std::string model = "llama-3.1-8b";
  std::int64_t sequence_length = 4096;
};

// UnreadJob: a file that starts a training of a program that import does not read.
struct UnreadJob {
  std::string file;  // below the folder
  std::string kind;  // "a config of GPT-NeoX"
};

// Files that start no training are passed over. `files` counts all with a name of such a format.
struct TriedRecipes {
  int files = 0;
  std::vector<TriedRecipe> recipes;
  std::vector<UnreadJob> unread;
};
TriedRecipes try_recipes(const std::string& folder, const Fallback& fallback);

// The counts by framework, the jobs that are not read with their kinds, and the reasons with how
// many recipes have each, the most frequent `most` of them; with `list`, every recipe.
std::string tried_text(const TriedRecipes& tried, std::size_t most, bool list);

}  // namespace sim
