// Lists of flags, launch scripts, printed arguments, YAML of arguments: any text is an InputError,
// or an object of flags. Nothing of a script may run, so nothing takes longer than its text.
#include <array>
#include <cstdint>
#include <string_view>

#include "sim/scripts/launch/launch.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/fuzz/support/walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::array<sim::Definition, 1> given{{{"A", "--bf16"}}};
  try {
    const sim::Document document = sim::parse_flags(text, "run.sh", given);
    for (const sim::Remark& remark : document.remarks())
      if (remark.about.empty() || remark.what.empty()) __builtin_trap();
    int budget = 1000;
    fuzz::walk_object(document.root_object(), budget);
    document.finish();
  } catch (const sim::InputError& error) {
    if (std::string_view{error.what()}.empty()) __builtin_trap();
  }
  try {
    const sim::Launch launch = sim::parse_launch(text, "run.sh", given);
    for (const sim::LaunchedProgram& program : launch.programs) {
      if (program.words.empty()) __builtin_trap();
      if (sim::sizes_of(launch, program, program.words.size()).all() < 0) __builtin_trap();
    }
  } catch (const sim::InputError& error) {
    if (std::string_view{error.what()}.empty()) __builtin_trap();
  }
  return 0;
}
