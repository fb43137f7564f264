// Tables of measured runs: any text is an InputError or rows, each of which becomes something that
// can be simulated or a reason.
#include "sim/validation/runs.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/validation/run_scenario.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using fuzz::require;

void check_row(const sim::MeasuredRow& row) {
  require(row.cells.has_value() && !row.id.empty());
  try {
    sim::run_model(*row.cells);
    sim::run_layout(*row.cells);
    const sim::RunMachine machine = sim::run_machine(*row.cells);
    require(!machine.file.empty() && machine.nodes >= 1 && machine.gpus_per_node >= 1);
  } catch (const sim::NotSimulated& reason) {
    require(!std::string_view{reason.what()}.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    for (const sim::MeasuredRow& row : sim::read_runs(sim::CsvTable::parse(text, "fuzzed")))
      check_row(row);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
