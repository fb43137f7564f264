#include "ui/validate/run_file.hpp"

#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/calibration/read_traces.hpp"
#include "sim/config/json_scan.hpp"

namespace ui {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;
constexpr std::size_t head = 1 << 16;

bool is_execution_trace(std::string_view text) {
  text = text.substr(0, head);
  return text.find("\"schema\"") != std::string_view::npos &&
         text.find("\"nodes\"") != std::string_view::npos;
}

}  // namespace

bool is_trace(std::string_view text) {
  text = text.substr(0, head);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  return text[first] == '[' || text.find("\"traceEvents\"") != std::string_view::npos;
}

RunFile read_run(const std::vector<std::string>& paths) {
  std::vector<sim::KinetoTrace> files;
  files.push_back({paths.front(), sim::load_text(paths.front(), largest_file)});
  if (is_execution_trace(files.front().text))
    throw sim::InputError{{paths.front()},
                          "an execution trace of PyTorch, which has no times of kernels; open the "
                          "trace that its profiler exports (traceEvents)"};
  if (!is_trace(files.front().text))
    return {std::make_shared<const sim::Record>(
                sim::parse_record(files.front().text, files.front().name)),
            nullptr};
  for (std::size_t i = 1; i < paths.size(); ++i)
    files.push_back({paths[i], sim::load_text(paths[i], largest_file)});
  return {nullptr, std::make_shared<const sim::TracedTimeline>(sim::parse_traces(files))};
}

}  // namespace ui
