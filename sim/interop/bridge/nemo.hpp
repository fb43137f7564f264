// The two generations of NeMo's YAML.
#pragma once

#include "sim/interop/handover.hpp"

namespace sim {

Imported import_bridge(const Document& yaml, const ImportRequest& request);  // Megatron-Bridge
Imported import_nemo1(const Document& yaml, const ImportRequest& request);   // NeMo 1.x

}  // namespace sim
