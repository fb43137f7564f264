#include "sim/cli/outputs.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace sim {
namespace {

namespace fs = std::filesystem;

// The values of an option that may name files.
struct NamedTexts {
  std::vector<std::string> operator()(std::string* text) const { return {*text}; }
  std::vector<std::string> operator()(std::optional<std::string>* text) const {
    return *text ? std::vector{**text} : std::vector<std::string>{};
  }
  std::vector<std::string> operator()(std::vector<std::string>* texts) const { return *texts; }
  template <class Other>
  std::vector<std::string> operator()(const Other&) const {
    return {};
  }
};

// By device and inode, and by name where there is no file yet.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;  // /dev/null
  return fs::equivalent(a, b, error) || fs::weakly_canonical(fs::absolute(a, error), error) ==
                                            fs::weakly_canonical(fs::absolute(b, error), error);
}

// "FILE" and "KEY=FILE".
bool names_file(const std::string& value, const std::string& file) {
  if (value.empty()) return false;
  const std::string behind = value.substr(value.find('=') + 1);
  return is_same_file(file, value) || (!behind.empty() && is_same_file(file, behind));
}

}  // namespace

std::string output_problem(const Command& command,
                           const std::function<bool(const Option& option)>& given) {
  for (const Option& output : command.options) {
    if (output.writes == Output::none || !given(output)) continue;
    const std::string name = option_name(output);
    for (const std::string& file : std::visit(NamedTexts{}, output.into)) {
      if (file.empty())
        return fmt::format("{} is empty: the name of a {} is wanted", name,
                           output.writes == Output::file ? "file" : "folder");
      if (output.writes == Output::folder) continue;
      for (const Option& other : command.options) {
        if (&other == &output || !given(other)) continue;
        for (const std::string& value : std::visit(NamedTexts{}, other.into))
          if (names_file(value, file))
            return fmt::format("{} would overwrite '{}', which {} names, too: choose another file",
                               name, value, option_name(other));
      }
    }
  }
  return {};
}

}  // namespace sim
