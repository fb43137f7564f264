// Configurations in torchtitan's Python (models/*/config_registry.py, since commit 9810191b of
// 2026): functions that return a Trainer.Config.
#pragma once

#include <string>
#include <string_view>

#include "sim/interop/settings.hpp"

namespace sim {

bool is_torchtitan_registry(std::string_view text);

// The function `name` of a file as load_python() has it; empty: the only one that returns a
// configuration. Throws InputError that lists them.
std::string registry_function(const Document& file, const std::string& name);

// RegistryModel is what a configuration in Python says in other places than the sections.
struct RegistryModel {
  std::string model;  // "deepseek_v3"
  Text flavor;
  Text dispatcher;     // moe_comm_backend
  bool drops = false;  // HybridEP with a capacity, which does not wait for the host
  bool linear_fp8 = false, grouped_fp8 = false, blocks = false;
  bool linear_fp4 = false;
  std::optional<int> fp4_layers;  // at the start; none: all
};
RegistryModel read_registry_model(const ObjectReader& root, Imported& result);

// "none", "selective" by operators, "full": by the class that is named.
Recompute registry_recompute(const ObjectReader& root);

// The keys of the configuration that no section is.
void judge_registry_keys(const ObjectReader& root, Imported& result);

Imported import_torchtitan_registry(const Document& python, const std::string& name,
                                    const ImportRequest& request);

}  // namespace sim
