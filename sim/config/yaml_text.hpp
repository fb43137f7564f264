// Values as YAML that the strict reader reads back.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/units.hpp"

namespace sim {

std::string yaml_quoted(std::string_view text);  // "...", any text
std::string yaml_duration(Duration value);       // exact: "12.345678 us"
std::string yaml_bandwidth(Bandwidth value);     // six digits: "4.8e3 GB/s" as "4800 GB/s"
std::string yaml_bytes(Bytes value);             // exact: "64 MiB", "1000 B"
std::string yaml_rate(FlopRate value);
std::string yaml_real(double value);

}  // namespace sim
