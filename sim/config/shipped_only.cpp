#include "sim/config/shipped_only.hpp"

#include <array>
#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"

namespace sim {
namespace {

thread_local int shipped_only_depth = 0;

constexpr std::array shipped_folders{"models", "topologies", "scenarios", "validation", "data"};

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::filesystem::path rest = path.lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

std::string choices_of(const std::string& kind, const std::string& name) {
  const std::vector<std::string> names =
      kind.empty() ? std::vector<std::string>{} : data_files(kind);
  return names.empty() ? "" : "; " + choices_text(name, {names.begin(), names.end()});
}

}  // namespace

ShippedOnly::ShippedOnly() {
  ++shipped_only_depth;
}

ShippedOnly::~ShippedOnly() {
  --shipped_only_depth;
}

void check_readable(const std::string& path, const std::string& kind) {
  if (shipped_only_depth == 0) return;
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path data = fs::weakly_canonical(data_folder(), ignored);
  // First without a look at the disk, then with its links followed.
  const fs::path named = fs::absolute(path, ignored).lexically_normal();
  for (const char* folder : shipped_folders)
    if (is_below(named, fs::path{data_folder()}.lexically_normal() / folder) ||
        is_below(named, data / folder)) {
      if (is_below(fs::weakly_canonical(named, ignored), data)) return;
      break;
    }
  throw InputError{SourcePosition{path, 0, 0},
                   "only shipped files are read here, by their names" + choices_of(kind, path)};
}

std::string only_shipped(const std::string& kind, const std::string& name) {
  return shipped_only_depth == 0 ? std::string{} : shipped_file(kind, name);
}

}  // namespace sim
