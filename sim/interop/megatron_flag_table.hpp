// Flags of Megatron-LM that no setting carries: what each means for a forecast.
#pragma once

#include <span>
#include <string_view>

#include "sim/interop/settings.hpp"

namespace sim {

// Those that change time or memory: refused, or told. A '*' stands only where every flag of that
// name is refused, or has nothing to do with a step.
std::span<const KnownKey> judged_megatron_flags();
// What AMD's Primus has besides.
std::span<const KnownKey> judged_primus_flags();
// Those that change neither, each by its name.
std::span<const std::string_view> harmless_megatron_flags();
// Those of experts that change neither.
std::span<const std::string_view> harmless_expert_flags();

// The fused choice of experts, of steps whose host issues it: left out, with a note. REQUIRES: what
// graphs capture is read.
void leave_single_choice(Imported& result);

}  // namespace sim
