// Logs of training jobs: any bytes are an InputError or times above zero.
#include "sim/anchor/training_log.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::TrainingLog log = sim::read_training_log(file.write(text));
    require(!log.values.empty() && !log.writer.empty());
    for (const double value : log.values)
      require(value > 0);
    const sim::LoggedStep step = sim::logged_step(log, 1e6);
    require(step.median >= sim::Duration{} && step.steps > 0);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
