// [float8] of torchtitan's TOML, in v0.2.2 [quantize.linear.float8]: torchao's recipe of scales,
// and whether FSDP gathers in 8 bits what multiplies in 8 bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"
#include "sim/interop/settings.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"

namespace sim {
namespace {

constexpr const char* gather = "enable_fsdp_float8_all_gather";
constexpr const char* scales = "precompute_float8_dynamic_scale_for_fsdp";

struct Recipe {
  std::string_view name;
  EightBit software;
};
constexpr std::array recipes{Recipe{"tensorwise", EightBit::torchao},
                             Recipe{"rowwise", EightBit::torchao_rowwise},
                             Recipe{"rowwise_with_gw_hp", EightBit::torchao_rowwise_with_gw_hp}};

// Names of linears that stay in 16 bits. "output", the head, always does here.
void judge_filter(const ObjectReader& float8, const std::string& prefix, Imported& into) {
  const auto list = float8.find("filter_fqns");
  if (!list || !list->is_list()) return;
  for (const ValueReader& item : list->list())
    if (item.peek_text().value_or("") != "output")
      into.notes.push_back(
          {prefix + "filter_fqns", fmt::format("{}: its products are modelled in 8 bits, too",
                                               item.peek_text().value_or(""))});
}

// Beside products in 16 bits the section means nothing. Where nothing is sharded, nothing is
// gathered.
void read_section(const ObjectReader& float8, const std::string& prefix, Imported& into) {
  Flag asked, at_once;
  Text recipe;
  read_setting(float8, gather, asked);
  read_setting(float8, scales, at_once);
  read_setting(float8, "recipe_name", recipe);
  if (into.layout.compute_dtype != DType::fp8) {
    if (recipe) into.ignored.push_back(prefix + "recipe_name");
    return judge_keys(float8, anything, prefix, into);
  }
  judge_keys(float8, known_keys("torchtitan", "float8"), prefix, into);
  judge_filter(float8, prefix, into);
  const std::string name = recipe.value_or("tensorwise");
  const std::optional<EightBit> known = torchao_software(name);
  if (!known) {
    recipe.place->problem(
        fmt::format("recipe_name is '{}'; allowed: tensorwise, rowwise, rowwise_with_gw_hp", name));
    return;
  }
  into.framework.execution.eight_bit = *known;
  if (!asked.value_or(false)) return;
  if (scales_rows(*known))
    asked.place->problem(
        fmt::format("{} is true with recipe {}; torchao allows it with tensorwise", gather, name));
  if (into.layout.zero_stage != 3) return;
  into.layout.eight_bit_parameters = true;
  if (!at_once.value_or(false))
    into.notes.push_back(
        {prefix + scales,
         "off: an all-reduce for the scale of every weight, which is not modelled"});
}

}  // namespace

std::optional<EightBit> torchao_software(std::string_view recipe) {
  const auto known = std::ranges::find(recipes, recipe, &Recipe::name);
  return known == recipes.end() ? std::nullopt : std::optional{known->software};
}

std::string_view torchao_recipe(EightBit software) {
  const Recipe* const known = std::find_if(recipes.begin(), recipes.end(),
                                           [&](const Recipe& r) { return r.software == software; });
  SIM_CHECK(known != recipes.end(), word(software));
  return known->name;
}

void read_float8(const ObjectReader& root, Imported& into) {
  if (const auto found = root.find("float8")) read_section(found->object(), "float8.", into);
  const auto quantize = section_at(root, "quantize");
  const auto linear = quantize ? section_at(*quantize, "linear") : std::nullopt;
  if (!linear) return;
  linear->ignore_unknown();
  if (const auto float8 = section_at(*linear, "float8"))
    read_section(*float8, "quantize.linear.float8.", into);
}

}  // namespace sim
