// Exports of Nsight Systems: any bytes are an InputError or a run whose numbers lie in its tables.
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/trace/sqlite_reader.hpp"
#include "sim/trace/trace_file.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/traced_run_laws.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    sim::SqliteReader database{{reinterpret_cast<const char*>(data), size}, "fuzzed"};
    sim::TraceNames names;
    std::vector<sim::TraceFile> files;
    files.push_back(sim::read_nsys(database, names));
    fuzz::check_run(sim::put_together(std::move(files), names));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
