// The parts of a step that CUDA graphs capture (Megatron-LM, --cuda-graph-scope; later
// --cuda-graph-modules).
#include <fmt/format.h>

#include <algorithm>

#include "sim/interop/handover.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

void add_module(const ObjectReader& from, std::string_view key, const std::string& name,
                Imported& result) {
  const std::optional<GraphModule> module = from_word<GraphModule>(name);
  if (!module)
    from.problem(key, fmt::format("'{}' is no part of a layer that graphs capture; modelled: attn, "
                                  "mlp, moe, moe_router, moe_preprocess, mamba, full_iteration",
                                  name.substr(0, 80)));
  else if (std::ranges::find(result.graph_scope, *module) == result.graph_scope.end())
    result.graph_scope.push_back(*module);
}

}  // namespace

void read_graph_switch(const ObjectReader& from, std::string_view key, Imported& result) {
  Text name;
  read_setting(from, key, name);
  const std::string word = name.value_or("none");
  constexpr std::array<std::string_view, 4> known{"none", "local", "transformer_engine",
                                                  "full_iteration"};
  if (std::ranges::find(known, word) == known.end())
    from.problem(key, fmt::format("is '{}'; allowed: none, local, transformer_engine, "
                                  "full_iteration",
                                  word.substr(0, 80)));
  result.graphs = word != "none";
}

void read_graph_scope(const ObjectReader& from, std::array<std::string_view, 2> keys,
                      Imported& result) {
  for (const std::string_view key : keys) {
    Text scope;
    read_setting(from, key, scope);
    if (!scope) continue;
    if (!result.graphs || !result.graph_scope.empty()) {
      result.ignored.emplace_back(key);
      continue;
    }
    for (const std::string& name : names_in(*scope)) {
      if (name == "full" || name == "full_iteration") {
        result.graph_scope.clear();
        return;
      }
      add_module(from, key, name, result);
    }
  }
}

// The host's time of a layer was fitted with 30 launches of the choice as whole ones, where plain
// operators take a fifth; what three autograd functions in their place take is not published
// (sim/framework/pages/megatron.md#choice-of-experts).
void leave_single_choice(Imported& result) {
  bool& fused = result.framework.execution.router_fusion;
  const auto& scope = result.graph_scope;
  const bool captured =
      result.graphs &&
      (scope.empty() || std::ranges::find(scope, GraphModule::moe_router) != scope.end());
  if (!fused || captured) return;
  fused = false;
  result.notes.push_back({"moe_router_fusion",
                          "the choice is modelled in single kernels, as the host's time was fitted "
                          "with; set framework.router_fusion for fused ones"});
}

}  // namespace sim
