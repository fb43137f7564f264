#include "sim/config/input_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

// innermost is of this thread only: two computations side by side do not hear of each other's
// files.
thread_local InputLog* innermost = nullptr;

}  // namespace

// Fowler, Noll, Vo, Eastlake: The FNV Non-Cryptographic Hash Algorithm, section 5.
std::string digest_of(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : bytes)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("{:016x}", hash);
}

InputLog::InputLog(LoggedKeys keys) : outer_{innermost}, keys_{keys} {
  innermost = this;
}

InputLog::~InputLog() {
  innermost = outer_;
}

bool InputLog::wants_keys() {
  for (const InputLog* log = innermost; log; log = log->outer_)
    if (log->keys_ == LoggedKeys::asked) return true;
  return false;
}

void InputLog::note_keys(const std::vector<std::string>& paths) {
  for (InputLog* log = innermost; log; log = log->outer_)
    if (log->keys_ == LoggedKeys::asked) log->asked_.insert(paths.begin(), paths.end());
}

void InputLog::note(const std::string& path, std::string_view bytes) {
  if (!innermost) return;
  const InputFile file{path, digest_of(bytes)};
  for (InputLog* log = innermost; log; log = log->outer_)
    if (std::find(log->files_.begin(), log->files_.end(), file) == log->files_.end())
      log->files_.push_back(file);
}

void refuse_to_overwrite_input(const std::string& path) {
  std::error_code error;
  for (const InputLog* log = innermost; log; log = log->outer_)
    for (const InputFile& file : log->files())
      if (std::filesystem::is_regular_file(path, error) &&
          std::filesystem::equivalent(path, file.path, error))
        throw InputError(
            {path, 0, 0},
            fmt::format("would overwrite {}, which was read: choose another file", file.path));
}

}  // namespace sim
