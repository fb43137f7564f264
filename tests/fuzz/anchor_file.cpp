// Files of anchors: any text is an InputError or runs that can be written and read again.
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/uncertainty/anchor.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const sim::Anchor anchor = sim::load_anchor(file.write(text));
    require(!anchor.runs.empty());
    const std::string written = sim::anchor_yaml(anchor);
    require(sim::load_anchor(file.write(written)).runs.size() == anchor.runs.size());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
