#include "sim/chakra/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr int most_et_ranks = 65'536;
constexpr std::size_t largest_group_file = std::size_t{1} << 28;

[[noreturn]] void fail_in(const std::string& file, const std::string& what) {
  throw InputError{SourcePosition{file, 0, 0}, what};
}

// "all_gather.12.et" is rank 12 of "all_gather".
struct EtName {
  std::string prefix;
  int rank = 0;
};
std::optional<EtName> et_name(const std::string& file) {
  std::string stem = file;
  for (const std::string_view ending : {".gz", ".et"})
    if (stem.ends_with(ending))
      stem.resize(stem.size() - ending.size());
    else if (ending == ".et")
      return std::nullopt;
  const std::size_t dot = stem.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  EtName name{stem.substr(0, dot), 0};
  const char* const end = stem.data() + stem.size();
  const auto [stop, error] = std::from_chars(stem.data() + dot + 1, end, name.rank);
  if (error != std::errc{} || stop != end || name.rank < 0) return std::nullopt;
  return name;
}

std::map<int, std::string> files_of(const std::string& folder, std::string& prefix) {
  std::error_code error;
  std::map<int, std::string> files;
  std::optional<std::string> first;
  for (const fs::directory_entry& entry : fs::directory_iterator{folder, error}) {
    const std::optional<EtName> name = et_name(entry.path().filename().string());
    if (!name) continue;
    if (first && *first != name->prefix)
      fail_in(folder, fmt::format("it has traces of two jobs: {}.0.et and {}.0.et; give a folder "
                                  "with those of one",
                                  std::min(*first, name->prefix), std::max(*first, name->prefix)));
    first = name->prefix;
    files[name->rank] = entry.path().string();
  }
  if (error) fail_in(folder, fmt::format("cannot be read: {}", error.message()));
  if (!first) fail_in(folder, "there is no NAME.RANK.et: expected one file of each rank, from 0");
  prefix = *first;
  return files;
}

class GroupTable {
 public:
  explicit GroupTable(EtRun& run) : run_{run} {}

  // {"1": [0, 1], "2": [2, 3]}
  void read_file(const std::string& path) {
    const nlohmann::json groups = parsed(load_text(path, largest_group_file), path);
    if (!groups.is_object()) fail_in(path, "expected an object: the ranks of each group by name");
    for (const auto& [name, ranks] : groups.items())
      add(name, ranks, path);
  }

  // A list of {"pg_name": "1", "ranks": [0, 1]}, as PyTorch records it: within [" and "].
  void read_node(const std::string& values, const std::string& path) {
    const std::size_t begin = values.find("[{");
    const std::size_t end = values.rfind("}]");
    if (begin == std::string::npos || end == std::string::npos || end < begin) return;
    const nlohmann::json groups = parsed(values.substr(begin, end + 2 - begin), path);
    for (const nlohmann::json& group : groups) {
      if (!group.is_object() || !group.contains("pg_name") || !group.contains("ranks")) continue;
      const nlohmann::json& name = group["pg_name"];
      add(name.is_string() ? name.get<std::string>() : name.dump(), group["ranks"], path);
    }
  }

 private:
  static nlohmann::json parsed(const std::string& text, const std::string& path) {
    nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
    if (read.is_discarded()) fail_in(path, "its process groups are no JSON");
    return read;
  }

  void add(const std::string& name, const nlohmann::json& list, const std::string& path) {
    std::vector<RankId> ranks;
    if (!list.is_array()) fail_in(path, fmt::format("group {}: expected a list of ranks", name));
    for (const nlohmann::json& rank : list) {
      if (!rank.is_number_integer() || rank.get<std::int64_t>() < 0 ||
          rank.get<std::int64_t>() >= run_.world_size())
        fail_in(path, fmt::format("group {}: {} is no rank; allowed: 0 to {}", name, rank.dump(),
                                  run_.world_size() - 1));
      ranks.push_back({rank.get<std::uint32_t>()});
    }
    // An empty list is all ranks, as PyTorch records its first group.
    for (std::uint32_t r = 0; list.empty() && r < run_.ranks.size(); ++r)
      ranks.push_back({r});
    std::sort(ranks.begin(), ranks.end());
    if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
      fail_in(path, fmt::format("group {}: a rank stands twice", name));
    const auto [known, added] = run_.groups.emplace(name, ranks);
    if (!added && known->second != ranks)
      fail_in(path, fmt::format("group {} has other ranks here than in another file: number each "
                                "group of the job once",
                                name));
  }

  EtRun& run_;
};

}  // namespace

EtRun read_et_folder(const std::string& folder) {
  EtRun run;
  const std::map<int, std::string> files = files_of(folder, run.name);
  const int last = files.rbegin()->first;
  if (last >= most_et_ranks)
    fail_in(folder, fmt::format("rank {}: at most {} ranks are read", last, most_et_ranks));
  for (int rank = 0; rank <= last; ++rank)
    if (files.count(rank) == 0)
      fail_in(folder, fmt::format("{}.{}.et is missing: ranks go to {}", run.name, rank, last));
  for (const auto& [rank, path] : files)
    run.ranks.push_back(read_et(path));
  GroupTable groups{run};
  const std::string table = (fs::path{folder} / "comm_groups.json").string();
  if (fs::exists(table)) groups.read_file(table);
  for (const EtFile& file : run.ranks)
    for (const EtNode& node : file.nodes)
      if (node.type == EtType::metadata && !node.values.empty())
        groups.read_node(node.values, file.path);
  return run;
}

}  // namespace sim
