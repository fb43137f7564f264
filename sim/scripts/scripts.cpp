#include "sim/scripts/scripts.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "sim/config/input_log.hpp"
#include "sim/scripts/script_parsers.hpp"

namespace sim {
namespace {

constexpr std::size_t most_sourced_bytes = std::size_t{1} << 20;

ShellFiles files_beside(const std::string& path) {
  return [path](std::string_view named) { return text_beside(path, named); };
}

using ParseScript = void (*)(Tree&, std::span<const Definition>, const ShellFiles&,
                             std::vector<Remark>&);

Document parse_script(ParseScript parse, std::string_view text, std::string name,
                      std::span<const Definition> definitions, const ShellFiles& files) {
  auto tree = std::make_unique<Tree>(text, std::move(name));
  std::vector<Remark> remarks;
  parse(*tree, definitions, files, remarks);
  return Document{std::move(tree), std::move(remarks)};
}

}  // namespace

Document load_flags(const std::string& path, std::span<const Definition> definitions) {
  return parse_script(parse_flags_into, read_input(path), path, definitions, files_beside(path));
}

Document parse_flags(std::string_view text, std::string name,
                     std::span<const Definition> definitions) {
  return parse_script(parse_flags_into, text, std::move(name), definitions, {});
}

Document load_variables(const std::string& path, std::span<const Definition> definitions) {
  return parse_script(parse_variables_into, read_input(path), path, definitions,
                      files_beside(path));
}

Document parse_variables(std::string_view text, std::string name) {
  return parse_script(parse_variables_into, text, std::move(name), {}, {});
}

Document load_python(const std::string& path) {
  return parse_python(read_input(path), path);
}

Document parse_python(std::string_view text, std::string name) {
  auto tree = std::make_unique<Tree>(text, std::move(name));
  parse_python_into(*tree);
  return Document{std::move(tree)};
}

std::optional<std::string> text_beside(const std::string& path, std::string_view named) {
  namespace fs = std::filesystem;
  const fs::path asked{named};
  const fs::path folder = fs::path{path}.parent_path();
  std::error_code error;
  fs::path file = folder / (asked.is_absolute() ? asked.filename() : asked);
  // MLPerf's submitters copy the files of a job together before it starts.
  for (const char* near : {"..", "configs"})
    if (!fs::is_regular_file(file, error)) file = folder / near / asked.filename();
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > most_sourced_bytes)
    return std::nullopt;
  std::string text = read_input(file.string());
  std::erase(text, '\r');
  const auto is_control = [](char c) { return c >= 0 && c < ' ' && c != '\t' && c != '\n'; };
  return std::ranges::any_of(text, is_control) ? std::nullopt : std::optional{std::move(text)};
}

}  // namespace sim
