#include "sim/base/input_error.hpp"
#include "sim/trace/read_trace.hpp"
#include "sim/trace/sqlite_reader.hpp"
#include "sim/trace/trace_file.hpp"

namespace sim {
namespace {

TraceFile read_trace_file(const std::string& path, TraceNames& names) {
  const std::unique_ptr<ByteSource> source = open_file(path);
  StreamedJson scan{*source};
  if (is_sqlite(scan.head())) {
    SqliteReader database{path};
    return read_nsys(database, names);
  }
  if (is_record(scan.head())) return file_of_record(read_record(path), path, names);
  return read_json_trace(scan, path, names);
}

}  // namespace

bool is_record(std::string_view head) {
  constexpr std::size_t near = 4096;
  return head.substr(0, near).find("\"stepcast record\"") != std::string_view::npos;
}

TracedRun read_trace(ByteSource& source) {
  TraceNames names;
  std::vector<TraceFile> files;
  StreamedJson scan{source};
  files.push_back(read_json_trace(scan, source.name(), names));
  return put_together(std::move(files), names);
}

TracedRun read_run(const std::vector<std::string>& paths) {
  if (paths.empty()) throw InputError{SourcePosition{}, "no trace is given"};
  TraceNames names;
  std::vector<TraceFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths)
    files.push_back(read_trace_file(path, names));
  return put_together(std::move(files), names);
}

}  // namespace sim
