#include "sim/interop/bridge/module_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/config/yaml_text.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_patterns = 1000;
constexpr std::string_view recipe_class = "megatron.core.quantization.quant_config.RecipeConfig";
constexpr std::string_view matcher_class = "megatron.core.quantization.quant_config.GlobMatcher";

struct Bracket {
  bool fits = false;
  std::size_t end = 0;  // behind it; 0: it is not closed, and '[' stands for itself
};

// `at`: of the character behind '['.
Bracket bracket(std::string_view pattern, std::size_t at, char c) {
  const bool negated = at < pattern.size() && pattern[at] == '!';
  const std::size_t first = at + (negated ? 1 : 0);
  const std::size_t close = pattern.find(']', first + 1);
  if (first >= pattern.size() || close == std::string_view::npos) return {};
  bool found = false;
  for (std::size_t i = first; i < close; ++i) {
    const bool range = i + 2 < close && pattern[i + 1] == '-';
    found = found || (range ? pattern[i] <= c && c <= pattern[i + 2] : pattern[i] == c);
    if (range) i += 2;
  }
  return {found != negated, close + 1};
}

// One character of the text against what stands at `at`, which moves behind it.
bool fits_one(std::string_view pattern, std::size_t& at, char c) {
  const char expected = pattern[at++];
  if (expected == '?') return true;
  if (expected != '[') return expected == c;
  const Bracket set = bracket(pattern, at, c);
  if (set.end == 0) return c == '[';
  at = set.end;
  return set.fits;
}

class ModulesReader {
 public:
  explicit ModulesReader(const ObjectReader& from) : from_{from} {}

  ModuleRecipe read() {
    static_cast<void>(from_.has("_target_"));
    const char* const formats = from_.has("config_dict") ? "config_dict" : "configs";
    if (from_.has(formats)) {
      const ObjectReader all = from_.object(formats);
      for (const std::string& name : all.keys())
        format(name, all.object(name));
    }
    if (const std::optional<ValueReader> matchers = from_.find("matchers"))
      matchers->is_list() ? listed(matchers->list()) : named(matchers->object());
    return std::move(recipe_);
  }

 private:
  void format(const std::string& name, const ObjectReader& config) {
    ModuleRecipe::Format made{.name = name};
    const std::string type = config.text_or("transformer_engine_config_type", "");
    if (type != "TEQuantizationParams")
      config.problem(
          fmt::format("the format {} is no TEQuantizationParams of Transformer Engine, "
                      "and is not modelled",
                      name));
    // No step of training does what evaluation does.
    if (const auto evaluation = config.find("evaluation_recipe"))
      if (evaluation->is_object()) evaluation->object().ignore_unknown();
    const std::optional<ValueReader> training = config.find("training_recipe");
    if (!training) return config.problem("the format has no training_recipe");
    if (training->is_object()) products(training->object(), made);
    recipe_.formats.push_back(std::move(made));
  }

  static void products(const ObjectReader& from, ModuleRecipe::Format& made) {
    constexpr std::array eight_bits{"tensorwise", "blockwise", "mxfp8"};
    if (from.has("fp8_quantization_recipe")) {
      made.eight_bit = from.text("fp8_quantization_recipe");
      if (std::ranges::find(eight_bits, made.eight_bit) == eight_bits.end()) {
        from.problem("fp8_quantization_recipe",
                     fmt::format("is '{}'; modelled: tensorwise, blockwise, mxfp8",
                                 made.eight_bit.substr(0, 80)));
        made.eight_bit = "mxfp8";
      }
    }
    if (from.has("fp4_quantization_recipe")) {
      made.four_bit = true;
      const std::string recipe = from.text("fp4_quantization_recipe");
      if (recipe != "nvfp4")
        from.problem("fp4_quantization_recipe",
                     fmt::format("is '{}'; modelled: nvfp4", recipe.substr(0, 80)));
      if (!made.eight_bit.empty())
        from.problem("fp4_quantization_recipe", "excludes fp8_quantization_recipe");
    }
    made.over_quantized = flag(from, "override_quantized_autocast", true);
    made.over_plain = flag(from, "override_nonquantized_autocast", false);
    const bool four = flag(from, "fp4_param", false);
    made.own_parameters = flag(from, "fp8_param", false) || four;
    // Which 8 bits, and how far maxima are shared: both cost the same.
    static_cast<void>(from.has("fp8_format"));
    static_cast<void>(from.has("tp_only_amax_red"));
    static_cast<void>(from.has("custom_recipe_factory"));
  }

  static bool flag(const ObjectReader& from, const char* key, bool fallback) {
    Flag read;
    read_setting(from, key, read);
    return read.value_or(fallback);
  }

  void named(const ObjectReader& all) {
    for (const std::string& name : all.keys()) {
      const ObjectReader one = all.object(name);
      const std::string type = one.text_or("type", "glob");
      const bool enabled = flag(one, "enabled", false);
      const std::string pattern = one.text_or("pattern", "");
      const std::string config = one.text_or("config", "");
      if (!enabled) continue;
      if (type != "glob") one.problem("type", fmt::format("is '{}'; allowed: glob", type));
      matcher(one, pattern, config, "config");
    }
  }

  void listed(const std::vector<ValueReader>& all) {
    for (const ValueReader& value : all) {
      const ObjectReader one = value.object();
      const std::string type = one.text_or("_target_", matcher_class);
      if (!type.ends_with("GlobMatcher"))
        one.problem("_target_", fmt::format("is {}; modelled: GlobMatcher", type.substr(0, 80)));
      matcher(one, one.text("pattern"), one.text("config_key"), "config_key");
    }
  }

  void matcher(const ObjectReader& at, const std::string& pattern, const std::string& format,
               const char* key) {
    if (pattern.empty()) return at.problem("a matcher has a pattern, such as \"*.linear_qkv\"");
    const auto found = std::ranges::find(recipe_.formats, format, &ModuleRecipe::Format::name);
    if (found == recipe_.formats.end()) {
      std::string names;
      for (const ModuleRecipe::Format& one : recipe_.formats)
        names += (names.empty() ? "" : ", ") + one.name;
      return at.problem(
          key, fmt::format("there is no format '{}'; allowed: {}", format.substr(0, 80), names));
    }
    if (recipe_.matchers.size() == most_patterns)
      return at.problem(fmt::format("there are more than {} patterns", most_patterns));
    recipe_.matchers.push_back(
        {pattern, static_cast<std::size_t>(found - recipe_.formats.begin())});
  }

  const ObjectReader& from_;
  ModuleRecipe recipe_;
};

}  // namespace

// Goes back to the last '*' alone, so that the time is that of pattern times text at most.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
      continue;
    }
    std::size_t next = p;
    if (p < pattern.size() && fits_one(pattern, next, text[t])) {
      p = next;
      ++t;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star + 1;
    t = ++taken;
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

const ModuleRecipe::Format* ModuleRecipe::of(std::string_view module) const {
  for (const Matcher& matcher : matchers)
    if (glob_matches(matcher.pattern, module)) return &formats[matcher.format];
  return nullptr;
}

ModuleRecipe read_module_recipe(const ObjectReader& from) {
  return ModulesReader{from}.read();
}

ModuleRecipe load_module_recipe(const std::string& path, const ValueReader& named) {
  std::error_code error;
  fs::path file = fs::path{named.where().file}.parent_path() / path;
  if (!fs::is_regular_file(file, error)) file = path;
  if (!fs::is_regular_file(file, error)) {
    named.problem(fmt::format("there is no file {}", path.substr(0, 200)));
    return {};
  }
  const Document yaml = Document::load(file.string(), Syntax::yaml);
  ModuleRecipe recipe = read_module_recipe(yaml.root_object());
  yaml.finish();
  return recipe;
}

std::string module_recipe_text(const ModuleRecipe& recipe) {
  std::string matchers, formats;
  for (const ModuleRecipe::Matcher& one : recipe.matchers)
    matchers +=
        fmt::format("{}{{_target_: {}, pattern: {}, config_key: {}}}", matchers.empty() ? "" : ", ",
                    matcher_class, yaml_quoted(one.pattern), recipe.formats[one.format].name);
  for (const ModuleRecipe::Format& one : recipe.formats) {
    const std::string products = one.four_bit ? "fp4_quantization_recipe: nvfp4"
                                 : one.eight_bit.empty()
                                     ? ""
                                     : fmt::format("fp8_quantization_recipe: {}", one.eight_bit);
    formats += fmt::format(
        "{}{}: {{transformer_engine_config_type: TEQuantizationParams, training_recipe: {{{}}}}}",
        formats.empty() ? "" : ", ", one.name, products);
  }
  return fmt::format("{{_target_: {}, matchers: [{}], config_dict: {{{}}}}}", recipe_class,
                     matchers, formats);
}

}  // namespace sim
