#include "sim/interop/launch_line.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "sim/scripts/launch/manifest.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> script_endings{".sh", ".bash", ".slurm", ".sbatch",
                                                         ".cmd"};

bool begins_flag(std::string_view text) {
  if (text.size() < 2 || text.front() != '-') return false;
  return text[1] == '-' ? text.size() > 2 : std::isalpha(static_cast<unsigned char>(text[1])) != 0;
}

std::string_view without_dashes(std::string_view text) {
  text.remove_prefix(text.starts_with("--") ? 2 : 1);
  return text;
}

// "a.b=c", "+a.b=c", "++a=c": where its '=' stands; 0: it is none.
std::size_t override_at(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return 0;
  const std::string_view key = text.substr(0, equals);
  const std::size_t begin = key.find_first_not_of('+');
  if (begin == std::string_view::npos) return 0;
  const bool name = std::ranges::all_of(key.substr(begin), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/';
  });
  return name && std::isdigit(static_cast<unsigned char>(key[begin])) == 0 ? equals : 0;
}

LaunchWord behind(const LaunchWord& word, std::size_t begin) {
  LaunchWord rest = word;
  rest.text.erase(0, begin);
  return rest;
}

}  // namespace

std::string underscored(std::string_view text) {
  std::string name{text};
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string LineFlag::text() const {
  if (values.empty()) return "true";
  std::string all;
  for (const LaunchWord& value : values)
    all += (all.empty() ? "" : " ") + value.text;
  return all;
}

const LineFlag* LaunchLine::find(std::initializer_list<std::string_view> names) const {
  // The last one counts.
  const LineFlag* found = nullptr;
  for (const LineFlag& flag : flags)
    if (std::ranges::find(names, underscored(flag.name)) != names.end()) found = &flag;
  return found;
}

LaunchLine read_line(const LaunchedProgram& program, std::size_t begin, std::size_t end) {
  LaunchLine line;
  bool open = false;  // the last flag takes values
  end = std::min(end, program.words.size());
  for (std::size_t i = begin; i < end; ++i) {
    const LaunchWord& word = program.words[i];
    const std::size_t equals = word.text.find('=');
    if (begins_flag(word.text)) {
      LineFlag flag{std::string{without_dashes(std::string_view{word.text}.substr(0, equals))},
                    {},
                    word.where};
      open = equals == std::string::npos;
      if (!open) flag.values.push_back(behind(word, equals + 1));
      line.flags.push_back(std::move(flag));
    } else if (const std::size_t at = override_at(word.text); at > 0) {
      std::string key = word.text.substr(0, at);
      key.erase(0, key.find_first_not_of('+'));
      line.overrides.push_back({std::move(key), {behind(word, at + 1)}, word.where});
      open = false;
    } else if (open) {
      line.flags.back().values.push_back(word);
    } else {
      line.words.push_back(word);
    }
  }
  return line;
}

std::optional<std::size_t> word_at(const LaunchedProgram& program,
                                   std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < program.words.size(); ++i) {
    const std::string_view text = program.words[i].text;
    for (const std::string_view name : names)
      if (text == name || (text.ends_with(name) && text[text.size() - name.size() - 1] == '/'))
        return i;
  }
  return std::nullopt;
}

bool is_launch_file(const std::string& path, std::string_view text) {
  const bool named = std::ranges::any_of(
      script_endings, [&](std::string_view ending) { return path.ends_with(ending); });
  return named || text.starts_with("#!") || is_manifest(text);
}

std::string file_of_launch(const std::string& path, const std::string& named) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path).parent_path();
  if (fs::is_regular_file(folder / named, ignored)) return (folder / named).string();
  const fs::path beside = folder / fs::path{named}.filename();
  if (fs::is_regular_file(beside, ignored)) return beside.string();
  for (int i = 0; i < 6 && folder != folder.parent_path(); ++i) {
    folder = folder.parent_path();
    if (fs::is_regular_file(folder / named, ignored)) return (folder / named).string();
  }
  return {};
}

}  // namespace sim
