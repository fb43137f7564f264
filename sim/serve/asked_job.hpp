// The JSON of a request: which scenario, what is set in it.
#pragma once

#include <string>

#include "sim/scenario/sources.hpp"

namespace sim {

// asked_job() is the scenario of a request: {"scenario": NAME of a shipped one} or {"text": YAML},
// and {"set": {"layout.tensor_parallel": 4}}. A search may have {"model", "cluster", "gpus",
// "batch", "sequence"} instead. Reads shipped files alone. Throws InputError.
ScenarioSources asked_job(const std::string& body);

}  // namespace sim
