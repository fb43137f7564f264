#include "ui/validate/run_file.hpp"

#include <utility>

#include "sim/calibration/read_traces.hpp"
#include "sim/config/json_scan.hpp"

namespace ui {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;

}  // namespace

bool is_trace(std::string_view text) {
  constexpr std::size_t head = 1 << 16;
  text = text.substr(0, head);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  return text[first] == '[' || text.find("\"traceEvents\"") != std::string_view::npos;
}

RunFile read_run(const std::vector<std::string>& paths) {
  std::vector<sim::KinetoTrace> files;
  files.push_back({paths.front(), sim::load_text(paths.front(), largest_file)});
  if (!is_trace(files.front().text))
    return {std::make_shared<const sim::Record>(
                sim::parse_record(files.front().text, files.front().name)),
            nullptr};
  for (std::size_t i = 1; i < paths.size(); ++i)
    files.push_back({paths[i], sim::load_text(paths[i], largest_file)});
  return {nullptr, std::make_shared<const sim::TracedTimeline>(sim::parse_traces(files))};
}

}  // namespace ui
