// Shards of checkpoints: any bytes are an InputError, or blocks that lie within their parameters
// and together within the file.
#include <cstdint>

#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  static const std::vector<real::Parameter> parameters{{.name = "a", .rows = 3, .columns = 5},
                                                       {.name = "b", .rows = 7}};
  file.write({reinterpret_cast<const char*>(data), size});
  try {
    const real::InputFile shard{file.path()};
    std::int64_t elements = 0;
    for (const real::ShardBlock& block : real::read_blocks(shard, parameters)) {
      const real::Parameter& parameter = parameters.at(static_cast<std::size_t>(block.parameter));
      require(block.row >= 0 && block.row + block.rows <= parameter.rows);
      require(block.column >= 0 && block.column + block.columns <= parameter.columns);
      require(block.from >= 0 && block.to <= block.rows * block.columns);
      elements += 3 * block.elements();
    }
    require(elements * 4 <= static_cast<std::int64_t>(size));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
