#include "sim/base/input_error.hpp"
#include "sim/trace/read_trace.hpp"
#include "sim/trace/trace_file.hpp"

namespace sim {
namespace {

TraceFile read_trace_file(ByteSource& source, TraceNames& names) {
  StreamedJson scan{source};
  return read_json_trace(scan, source.name(), names);
}

}  // namespace

TracedRun read_trace(ByteSource& source) {
  TraceNames names;
  std::vector<TraceFile> files;
  files.push_back(read_trace_file(source, names));
  return put_together(std::move(files), names);
}

TracedRun read_run(const std::vector<std::string>& paths) {
  if (paths.empty()) throw InputError{SourcePosition{}, "no trace is given"};
  TraceNames names;
  std::vector<TraceFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    const std::unique_ptr<ByteSource> source = open_file(path);
    files.push_back(read_trace_file(*source, names));
  }
  return put_together(std::move(files), names);
}

}  // namespace sim
