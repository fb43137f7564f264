// Parts that reading and writing torchtitan's TOML share.
//
// Source: pytorch/torchtitan, torchtitan/config/job_config.py (commits 000204a4 and 6404b932, v0.1
// to v0.2), distributed/pipeline_parallel.py (commit 02ef790c). TOML ended with commit 9810191b
// (2026): the dataclasses that took its place (commit b5bcd76c, config/configs.py) have renamed
// some fields, which are read, too. Their configurations are Python: torchtitan_registry.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/interop/handover.hpp"

namespace sim {

struct TorchtitanFlavor {
  std::string model, name;
};
// Sizes live in torchtitan's Python: this is our copy of them.
std::optional<TransformerShape> torchtitan_shape(std::string_view model, std::string_view flavor);
std::optional<TorchtitanFlavor> torchtitan_flavor(const TransformerShape& shape);
std::string torchtitan_flavors();  // for messages
bool is_torchtitan_model(std::string_view model);

// judge_torchtitan_keys() is for keys that no setting has: told, refused or without an effect.
void judge_torchtitan_keys(const ObjectReader& root, Imported& result);

// [float8], behind the rest of the layout and the framework: what torchao's recipe changes of them.
void read_float8(const ObjectReader& root, Imported& into);
// torchao_software() is the software of a recipe of torchao; nothing: there is none of that name.
std::optional<EightBit> torchao_software(std::string_view recipe);
// REQUIRES: one of torchao's.
std::string_view torchao_recipe(EightBit software);

// generate_llm_fqn_per_model_part(): layers of each stage where embedding and head weigh as much as
// `before` and `behind` layers. Empty: torchtitan refuses that.
std::vector<int> torchtitan_split(std::int64_t layers, std::int64_t stages, std::int64_t before,
                                  std::int64_t behind);

}  // namespace sim
