// A run to hold a forecast against, as its files have it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/timeline/traced.hpp"
#include "ui/validate/overlay.hpp"

namespace ui {

using TracePtr = std::shared_ptr<const sim::TracedTimeline>;

// One of the two.
struct RunFile {
  RecordPtr record;  // of `stepcast run --record`
  TracePtr trace;    // of the PyTorch profiler, or of `--trace`
  explicit operator bool() const { return record || trace; }
};

// Whether JSON text is a trace, which has its events behind a short head, or is a bare list of
// them.
bool is_trace(std::string_view text);

// A record, or traces, also in gzip. Throws InputError.
RunFile read_run(const std::vector<std::string>& paths);

}  // namespace ui
