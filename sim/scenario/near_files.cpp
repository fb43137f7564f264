#include "sim/scenario/near_files.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "sim/base/near_names.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_looked_at = 1000;

std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator{folder, ignored}) {
    if (names.size() == most_looked_at) break;
    if (entry.is_regular_file(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// near_shipped() looks among the names of shipped files.
std::string near_shipped(const fs::path& wanted, const std::string& kind) {
  if (kind.empty()) return {};
  const std::vector<std::string> shipped = data_files(kind);
  const std::vector<std::string_view> names{shipped.begin(), shipped.end()};
  if (near_names(wanted.filename().string(), names).empty()) return {};
  return "; of the shipped ones, " + choices_text(wanted.filename().string(), names);
}

}  // namespace

std::string near_files_text(const std::string& path, const std::string& kind) {
  const fs::path wanted{path};
  const fs::path shipped = fs::path{data_folder()} / kind / wanted.filename();
  std::error_code ignored;
  for (const char* ending : {"", ".yaml", "/config.json"})
    if (const fs::path file = shipped.string() + ending; fs::is_regular_file(file, ignored))
      return "; the shipped file is " + file.string();
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path{"."};
  if (!fs::is_directory(folder, ignored)) return "; there is no folder " + folder.string();
  const std::vector<std::string> names = files_of(folder);
  const std::vector<std::string_view> candidates{names.begin(), names.end()};
  if (near_names(wanted.filename().string(), candidates).empty()) return near_shipped(wanted, kind);
  return "; " + choices_text(wanted.filename().string(), candidates);
}

}  // namespace sim
