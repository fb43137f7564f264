// Tables of measured runs: any text is an InputError or rows, each of which becomes something that
// can be simulated, or a reason why it cannot be read or simulated.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/rows/measured_rows.hpp"
#include "sim/rows/run_scenario.hpp"
#include "tests/fuzz/support/require.hpp"

namespace {

using fuzz::require;

void check_row(const sim::MeasuredRow& row) {
  require(!row.id.empty());
  if (!row.unreadable.empty()) return;
  require(row.cells.has_value());
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
    const auto table = sim::CsvTable::parse(text, "fuzzed", sim::Misfits::set_aside);
    for (const sim::MeasuredRow& row : sim::read_runs(table, sim::BadRows::list))
      check_row(row);
    sim::CsvTable::parse(text, "fuzzed");
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
