// The one table of the fields of a Layout: what a scenario file calls each, which values it takes,
// and what it is where the file is silent. Reading (sim/scenario), writing, --set, differences
// (sim/interop), JSON and the catalogue of keys go by it; a new field is a row here and its use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/config/key.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

using LayoutMember = std::variant<
    int Layout::*, std::int64_t Layout::*, double Layout::*, bool Layout::*, Schedule Layout::*,
    Recompute Layout::*, AttentionKernel Layout::*, ContextExchange Layout::*,
    TokenDispatcher Layout::*, ExpertChoice Layout::*, GradientCompression Layout::*,
    OffloadTarget Layout::*, OuterOptimizer Layout::*, OuterQuantization Layout::*,
    Servers Layout::*, ServerPlace Layout::*, DType Layout::*, OptimizerKind Layout::*,
    MasterFormat Layout::*, StateFormat Layout::*, std::optional<DType> Layout::*,
    std::optional<Bytes> Layout::*, std::vector<Dimension> Layout::*,
    std::vector<RecomputeModule> Layout::*, std::vector<OffloadModule> Layout::*,
    std::vector<LoraModule> Layout::*, std::vector<LinearModule> Layout::*, FrozenFormat Layout::*,
    FrozenOrders Layout::*, ExpertAdapters Layout::*, LengthSource Layout::*, Packing Layout::*,
    std::vector<int> Layout::*, ExpertLoad Layout::*>;

struct LayoutField {
  Key key;  // its path in the section `layout`: "tensor_parallel", "overlap.gradients"
  LayoutMember member;
  // Sets what the field is where the file is silent, from the fields of the rows before it. Null:
  // what Layout{} has.
  void (*set_default)(Layout&, const Execution&) = nullptr;
  // Whether a model has a use for it. Null: every model has.
  bool (*applies)(const Model&) = nullptr;
  bool written_always = true;  // else only where it is not what Layout{} has
};

// In the order of the file.
const std::vector<LayoutField>& layout_fields();
// REQUIRES: there is such a field.
const LayoutField& layout_field(std::string_view key);

// As a file has it: "4", "true", "1f1b", "[tp, cp, dp, pp]", "25 MiB"; "even" and "auto" for what
// is not said.
std::string value_text(const Layout& layout, const LayoutField& field);
// As JSON has it: 4, true, "1f1b", ["tp", "cp", "dp", "pp"], bytes; null for what is not said.
std::string value_json(const Layout& layout, const LayoutField& field);
bool same_value(const Layout& a, const Layout& b, const LayoutField& field);

// Largest values of the section, beyond which no cluster exists; they keep products within range.
namespace layout_limits {
inline constexpr std::int64_t ranks = 1 << 20;
inline constexpr std::int64_t layers = 10'000;
inline constexpr std::int64_t tokens = 1LL << 32;
}  // namespace layout_limits

}  // namespace sim
