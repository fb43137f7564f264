// Numbers that the forms of a report share: its fields by name, derived figures.
#pragma once

#include <array>
#include <string_view>

#include "sim/base/table_text.hpp"
#include "sim/report/report.hpp"

namespace sim {

struct BreakdownField {
  Duration Breakdown::*member;
  std::string_view key;    // of JSON and CSV
  std::string_view title;  // for people
  const char* color;       // ANSI
  bool rare = false;       // shown to people only where there is some of it
  bool shows(const Breakdown& parts) const { return !rare || parts.*member > Duration{}; }
};
inline constexpr std::array breakdown_fields{
    BreakdownField{&Breakdown::compute, "compute", "compute", "32"},
    BreakdownField{&Breakdown::exposed_tensor, "exposed_tensor", "exposed tensor", "33"},
    BreakdownField{&Breakdown::exposed_context, "exposed_context", "exposed context", "93", true},
    BreakdownField{&Breakdown::exposed_expert, "exposed_expert", "exposed expert", "95", true},
    BreakdownField{&Breakdown::exposed_data, "exposed_data", "exposed data", "35"},
    BreakdownField{&Breakdown::exposed_pipeline, "exposed_pipeline", "exposed pipeline", "36"},
    BreakdownField{&Breakdown::bubble, "bubble", "bubble", "31"},
    BreakdownField{&Breakdown::host, "host", "host", "34"}};

double algorithm_bandwidth(const CollectiveSummary& row);  // bytes per second, as nccl-tests
double link_use(const Report& report, std::size_t link);   // of capacity x step

}  // namespace sim
