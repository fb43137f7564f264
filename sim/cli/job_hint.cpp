#include "sim/cli/job_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "sim/cli/command.hpp"
#include "sim/config/file_kind.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/interop/job_kind.hpp"

namespace sim {
namespace {

bool is_called(const Command& command, const std::string& name) {
  return command.name == name || std::ranges::find(command.aliases, name) != command.aliases.end();
}

// `stepcast import` with the command for that kind.
bool imports(const std::vector<std::string>& arguments, JobKind kind) {
  const std::vector<Command> commands = job_imports();
  return arguments.size() > 1 && arguments.front() == "import" &&
         std::ranges::any_of(commands, [&](const Command& command) {
           return command.name == word(kind) && is_called(command, arguments[1]);
         });
}

// Files of ours and config.json, where the command takes none of them.
std::string own_kind(const std::vector<std::string>& arguments, const std::string& file,
                     const std::string& text) {
  const bool measures = std::ranges::any_of(
      arguments, [](const std::string& argument) { return argument.starts_with("--from-"); });
  const bool converts = (arguments.front() == "calibrate" && measures) ||  // else of scenarios
                        arguments.front() == "import";
  if (!converts || (arguments.size() > 1 && arguments[1] == "hf")) return {};
  try {
    const bool json = text.find_first_not_of(" \t\r\n") == text.find('{');
    const std::optional<FileKind> kind =
        kind_of(Document::parse(text, file, json ? Syntax::json : Syntax::yaml));
    return kind ? fmt::format("{}: this is {}", file, kind_text(*kind)) : "";
  } catch (const InputError&) {
    return {};
  }
}

// `failed`: the failure may be this file's.
std::optional<FileHint> hint_of(const std::vector<std::string>& arguments, const std::string& file,
                                bool failed) {
  const std::string text = head_of_file(file);
  if (const ForeignFormat* format = foreign_format_of(text)) {
    if (reads_format(*format, arguments)) return FileHint{};
    return FileHint{.text = foreign_text(*format, file, text), .explains = failed};
  }
  if (const std::optional<JobKind> kind = job_kind_of(file, text)) {
    if (imports(arguments, *kind)) return FileHint{};
    return FileHint{.text = fmt::format("{} looks like a training job for: stepcast import {} {} "
                                        "--cluster dgx-h100",
                                        file, word(*kind), file)};
  }
  if (const ForeignFormat* launch = foreign_format_of(text, true))
    return FileHint{.text = foreign_text(*launch, file, text)};
  std::string own = failed ? own_kind(arguments, file, text) : "";
  if (own.empty()) return std::nullopt;
  return FileHint{.text = std::move(own), .explains = true};
}

std::vector<std::string> regular(std::vector<std::string> files) {
  std::erase_if(files, [](const std::string& file) {
    std::error_code ignored;
    return !std::filesystem::is_regular_file(file, ignored);
  });
  return files;
}

}  // namespace

FileHint file_hint(const std::vector<std::string>& arguments, const Failure& failure) {
  if (failure.code != ExitCode::invalid_input || arguments.empty()) return {};
  const std::vector<std::string> failed = regular(failure.files);
  std::vector<std::string> files = failed;
  for (const std::string& file : regular({arguments.begin() + 1, arguments.end()}))
    files.push_back(file);
  for (const std::string& file : files) {
    // One in no file, such as in --set, may come from any that is named.
    const bool of_it = failed.empty() || std::ranges::count(failed, file) > 0;
    if (std::optional<FileHint> hint = hint_of(arguments, file, of_it)) return *std::move(hint);
  }
  return {};
}

}  // namespace sim
