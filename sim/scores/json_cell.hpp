// A number that may be missing, as JSON has it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace sim {

inline nlohmann::ordered_json number_or_null(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace sim
