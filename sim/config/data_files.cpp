#include "sim/config/data_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/shipped_only.hpp"

namespace sim {

namespace fs = std::filesystem;

std::vector<std::string> data_files(const std::string& kind) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator{fs::path{data_folder()} / kind, ignored}) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    if (fs::is_regular_file(entry.path() / "config.json", ignored))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> data_tables(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator{fs::path{data_folder()} / folder, ignored})
    if (entry.path().extension() == ".csv") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string shipped_file(const std::string& kind, const std::string& name) {
  if (kind.empty() || name.empty() || name.find('/') != std::string::npos) return {};
  const fs::path folder = fs::path{data_folder()} / kind;
  std::error_code ignored;
  for (const fs::path& candidate : {folder / (name + ".yaml"), folder / name / "config.json"})
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
  return {};
}

std::string referenced_file(const std::string& from, const std::string& reference,
                            const std::string& kind) {
  if (std::string alone = only_shipped(kind, reference); !alone.empty()) return alone;
  std::string path = resolve_path(from, reference);
  check_readable(path, kind);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::string shipped = shipped_file(kind, reference);
  return shipped.empty() ? path : shipped;
}

std::string find_data_file(const std::string& kind, const std::string& name) {
  if (std::string alone = only_shipped(kind, name); !alone.empty()) return alone;
  check_readable(name, kind);
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return name;
  // A folder as Hugging Face's tools write it.
  if (kind == "models" && fs::is_regular_file(fs::path{name} / "config.json", ignored))
    return (fs::path{name} / "config.json").string();
  if (std::string shipped = shipped_file(kind, name); !shipped.empty()) return shipped;
  const fs::path folder = fs::path{data_folder()} / kind;
  const std::vector<std::string> names = data_files(kind);
  throw InputError{
      SourcePosition{name, 0, 0},
      fmt::format("there is no such file, and none of that name in {}{}", folder.string(),
                  names.empty() ? "" : "; " + choices_text(name, {names.begin(), names.end()}))};
}

std::string scenario_file(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || fs::exists(path, ignored)) return path;
  if (path.starts_with("scenarios/")) {
    const fs::path shipped = fs::path{data_folder()} / path;
    if (fs::is_regular_file(shipped, ignored)) return shipped.string();
  }
  const std::string shipped = shipped_file("scenarios", path);
  return shipped.empty() ? path : shipped;
}

std::string find_suite(const std::string& name) {
  std::error_code ignored;
  return fs::is_regular_file(name, ignored) ? name : find_data_file("validation/real", name);
}

}  // namespace sim
