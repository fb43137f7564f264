// A number that may be missing, as tables show it.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

namespace sim {

// "3.7%", or "-".
inline std::string percent_text(std::optional<double> share) {
  return share ? fmt::format("{:.1f}%", *share * 100) : "-";
}

}  // namespace sim
