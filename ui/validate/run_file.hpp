// A run to hold a forecast against, as its files have it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/traced_run.hpp"
#include "ui/validate/overlay.hpp"

namespace ui {

struct RunFile {
  std::shared_ptr<const sim::TracedRun> traced;  // null: no run
  RecordPtr record;  // the same, where its file is one of `stepcast run --record`; else null
  explicit operator bool() const { return traced != nullptr; }
};

// Whether JSON text is a trace, which has its events behind a short head, or is a bare list of
// them.
bool is_trace(std::string_view text);

// A record, or traces of one job (sim::read_run). Throws InputError.
RunFile read_run(const std::vector<std::string>& paths);

}  // namespace ui
