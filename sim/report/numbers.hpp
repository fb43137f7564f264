// What the forms of a report share: its fields by name, derived figures, numbers as text.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/report.hpp"

namespace sim {

struct BreakdownField {
  Duration Breakdown::*member;
  std::string_view key;    // of JSON and CSV
  std::string_view title;  // for people
  const char* color;       // ANSI
};
inline constexpr std::array breakdown_fields{
    BreakdownField{&Breakdown::compute, "compute", "compute", "32"},
    BreakdownField{&Breakdown::exposed_tensor, "exposed_tensor", "exposed tensor", "33"},
    BreakdownField{&Breakdown::exposed_data, "exposed_data", "exposed data", "35"},
    BreakdownField{&Breakdown::exposed_pipeline, "exposed_pipeline", "exposed pipeline", "36"},
    BreakdownField{&Breakdown::bubble, "bubble", "bubble", "31"},
    BreakdownField{&Breakdown::host, "host", "host", "34"}};

// One division, so that the double nearest to the exact value comes out: 100 ms are 0.1 s.
inline double in_seconds(Duration value) {
  return static_cast<double>(value.count()) / 1e12;
}

double algorithm_bandwidth(const CollectiveSummary& row);  // bytes per second, as nccl-tests
double link_use(const Report& report, std::size_t link);   // of capacity x step

std::string grouped(std::int64_t value);  // 16,384
std::string grouped(std::uint64_t value);
inline std::string grouped(int value) {
  return grouped(std::int64_t{value});
}
inline std::string grouped(std::uint32_t value) {
  return grouped(std::uint64_t{value});
}
std::string precise(Duration value);           // 4 digits: 5.634 s, 45.51 ms
std::string significant(double value);         // 4 digits: 226.4, 3.708 million
std::string scaled_count(std::int64_t value);  // 405.9 billion
std::string title_of(std::string_view word);   // gathered_parameters -> gathered parameters
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
std::string csv_field(const std::string& text);  // RFC 4180: quoted where needed, quotes doubled
std::string markdown_field(const std::string& text);

}  // namespace sim
