// Files: opening, choosing the parser, the end of reading.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "sim/config/input_log.hpp"
#include "sim/config/parsers.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/config/tree.hpp"

namespace sim {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string read_file(const std::string& path) {
  const auto cannot_read = [&](int reason) {
    return InputError({path, 0, 0}, fmt::format("cannot read the file: {}", std::strerror(reason)));
  };
  if (path.empty()) throw InputError({"''", 0, 0}, "no file is named");
  check_readable(path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw InputError({path, 0, 0}, "this is a directory, not a file");
  const std::unique_ptr<std::FILE, CloseFile> file{std::fopen(path.c_str(), "rb")};
  if (!file) throw cannot_read(errno);
  std::string text;
  std::array<char, std::size_t{1} << 16> block{};
  // One block more than allowed is enough for Tree to refuse it.
  while (text.size() <= Tree::max_bytes + 3) {
    const std::size_t got = std::fread(block.data(), 1, block.size(), file.get());
    text.append(block.data(), got);
    if (got < block.size()) break;
  }
  if (std::ferror(file.get()) != 0) throw cannot_read(errno);
  return text;
}

bool has_json_name(std::string_view path) {
  constexpr std::string_view suffix = ".json";
  if (path.size() < suffix.size()) return false;
  std::string end{path.substr(path.size() - suffix.size())};
  for (char& c : end)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return end == suffix;
}

}  // namespace

std::string read_input(const std::string& path) {
  std::string text = read_file(path);
  if (text.size() > Tree::max_bytes)
    throw InputError({path, 0, 0},
                     fmt::format("the file is larger than {} MiB", Tree::max_bytes >> 20));
  InputLog::note(path, text);
  return text;
}

Document::Document(std::unique_ptr<Tree> tree, std::vector<Remark> remarks)
    : tree_{std::move(tree)}, remarks_{std::move(remarks)} {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Document Document::load(const std::string& path) {
  const std::string text = read_file(path);
  InputLog::note(path, text);
  return has_json_name(path) ? parse_json(text, path) : parse_yaml(text, path);
}

Document Document::load(const std::string& path, Syntax syntax) {
  const std::string text = read_file(path);
  InputLog::note(path, text);
  return parse(text, path, syntax);
}

Document Document::parse(std::string_view text, std::string name, Syntax syntax) {
  auto tree = std::make_unique<Tree>(text, std::move(name));
  switch (syntax) {
    case Syntax::yaml:
      parse_yaml_into(*tree);
      break;
    case Syntax::json:
      parse_json_into(*tree);
      break;
    case Syntax::toml:
      parse_toml_into(*tree);
      break;
  }
  return Document{std::move(tree)};
}

Document Document::parse_yaml(std::string_view text, std::string name) {
  return parse(text, std::move(name), Syntax::yaml);
}

Document Document::parse_json(std::string_view text, std::string name) {
  return parse(text, std::move(name), Syntax::json);
}

void Document::change(std::span<const Change> changes) {
  for (const Change& change : changes)
    tree_->change(change);
}

ObjectReader Document::root_object() const {
  const ValueReader root{tree_.get(), tree_->root()};
  const ObjectReader object = root.object();
  if (!root.is_object()) tree_->throw_problems();
  return object;
}

bool Document::root_has(std::string_view key) const {
  return tree_->find(tree_->root(), key) != nullptr;
}

const std::string& Document::name() const {
  return tree_->name();
}

void Document::finish() const {
  if (InputLog::wants_keys()) InputLog::note_keys(tree_->asked_paths());
  tree_->report_unknown_keys();
  tree_->throw_problems();
}

std::vector<Problem> Document::problems(const Document* related) const {
  if (InputLog::wants_keys()) InputLog::note_keys(tree_->asked_paths());
  tree_->report_unknown_keys(related ? related->tree_.get() : nullptr);
  return tree_->problems();
}

std::string resolve_path(const std::string& from, const std::string& reference) {
  const std::filesystem::path path{reference};
  if (path.is_absolute()) return path.lexically_normal().string();
  return (std::filesystem::path{from}.parent_path() / path).lexically_normal().string();
}

}  // namespace sim
