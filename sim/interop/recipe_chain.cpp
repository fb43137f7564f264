#include "sim/interop/recipe_chain.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr int deepest = 16;
constexpr int most_steps = 1000;
constexpr std::size_t most_modules = 64;
constexpr std::size_t none = static_cast<std::size_t>(-1);

// Known without being read (bridge_recipe.cpp).
constexpr std::array<std::string_view, 3> commons{"_pretrain_common", "_sft_common",
                                                  "_peft_common"};

// The file of a module, in the folder of `from` or one above it: "a.b" is a/b.py or
// a/b/__init__.py.
std::string module_file(const std::string& from, std::string module) {
  fs::path folder = fs::absolute(from).parent_path();
  if (module.starts_with('.')) {
    module.erase(0, 1);
    for (; module.starts_with('.'); module.erase(0, 1))
      folder = folder.parent_path();
  }
  std::ranges::replace(module, '.', '/');
  std::error_code error;
  for (int up = 0; up < 16; ++up, folder = folder.parent_path()) {
    for (const fs::path& file : {folder / (module + ".py"), folder / module / "__init__.py"})
      if (fs::is_regular_file(file, error)) return file.string();
    if (folder == folder.parent_path()) break;
  }
  return {};
}

}  // namespace

RecipeChain::RecipeChain(const Document& file, const std::string& name, const std::string& path) {
  modules_.push_back({path, nullptr, &file});
  static_cast<void>(add(0, name, 0));
}

bool RecipeChain::add(std::size_t module, const std::string& name, int depth) {
  if (depth > deepest || ++steps_ > most_steps) return false;
  const ObjectReader all = modules_[module].document->root_object();
  all.ignore_unknown();
  if (const auto found = all.find(name); found && found->is_object()) {
    const ObjectReader recipe = found->object();
    recipe.ignore_unknown();  // told by who reads it
    if (!recipe.has("_base")) return false;
    layers_.push_back(recipe);
    base_ = recipe.text("_base");
    if (std::ranges::find(commons, base_) == commons.end())
      static_cast<void>(add(module, base_, depth + 1));
    return true;
  }
  for (const char* section : {"_aliases", "_imports"}) {
    const auto found = all.find(section);
    if (!found || !found->is_object()) continue;
    const ObjectReader names = found->object();
    names.ignore_unknown();
    if (!names.has(name)) continue;
    const std::string what = names.text(name);
    const std::size_t colon = what.find(':');
    if (colon == std::string::npos) return what != name && add(module, what, depth + 1);
    return follow(module, what.substr(0, colon), what.substr(colon + 1), depth);
  }
  if (!all.has("_stars")) return false;
  for (const ValueReader& star : all.list("_stars"))
    if (follow(module, star.text(), name, depth)) return true;
  return false;
}

bool RecipeChain::follow(std::size_t module, const std::string& import, const std::string& name,
                         int depth) {
  const std::size_t next = load(modules_[module].path, import);
  return next != none && add(next, name, depth + 1);
}

std::size_t RecipeChain::load(const std::string& from, const std::string& module) {
  if (from.empty() || modules_.size() >= most_modules) return none;
  const std::string path = module_file(from, module);
  if (path.empty()) return none;
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if (modules_[i].path == path) return i;
  try {
    auto document = std::make_unique<Document>(Document::load(path, Syntax::python));
    const Document* const read = document.get();
    modules_.push_back({path, std::move(document), read});
  } catch (const InputError&) {
    return none;
  }
  return modules_.size() - 1;
}

void RecipeChain::finish() const {
  for (const Module& module : modules_)
    if (module.own) module.own->finish();
}

}  // namespace sim
