#include "ui/validate/run_file.hpp"

#include "sim/base/input_error.hpp"
#include "sim/config/streamed_json.hpp"
#include "sim/trace/read_trace.hpp"

namespace ui {
namespace {

constexpr std::size_t head = 1 << 16;

bool is_execution_trace(std::string_view text) {
  text = text.substr(0, head);
  return text.find("\"schema\"") != std::string_view::npos &&
         text.find("\"nodes\"") != std::string_view::npos;
}

// Unpacked.
std::string head_of(const std::string& path) {
  const std::unique_ptr<sim::ByteSource> source = sim::open_file(path);
  return std::string{sim::StreamedJson{*source}.head()};
}

}  // namespace

bool is_trace(std::string_view text) {
  text = text.substr(0, head);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  return text[first] == '[' || text.find("\"traceEvents\"") != std::string_view::npos;
}

RunFile read_run(const std::vector<std::string>& paths) {
  const std::string begin = head_of(paths.front());
  if (!is_trace(begin) && is_execution_trace(begin))
    throw sim::InputError{{paths.front()},
                          "an execution trace of PyTorch, which has no times of kernels; open the "
                          "trace that its profiler exports (traceEvents)"};
  RunFile run;
  if (paths.size() == 1 && sim::is_record(begin))
    run.record = std::make_shared<const sim::Record>(sim::read_record(paths.front()));
  run.traced = std::make_shared<const sim::TracedRun>(sim::read_run(paths));
  return run;
}

}  // namespace ui
