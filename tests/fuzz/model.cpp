// A model file in any of the three formats. Beside not crashing: a model that is read has layers,
// and its counts are finite and not negative.
#include "sim/model/model.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "sim/config/reader.hpp"
#include "tests/fuzz/support/require.hpp"

namespace {

using fuzz::require;

void check(const sim::Model& model) {
  require(!model.layers.empty() && model.parameters() >= 0);
  const std::int64_t sequence = model.fixed_sequence > 0 ? model.fixed_sequence : 2048;
  const double flops = sim::forward_flops(model, sequence).count();
  require(std::isfinite(flops) && flops >= 0);
  for (const bool flash : {false, true}) {
    const sim::SavedBytes saved =
        sim::saved_bytes(model.layers.front(), model.attention, flash, sequence, 2);
    require(std::isfinite(saved.sequence) && saved.sequence >= 0);
    require(std::isfinite(saved.inner) && saved.inner >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    check(sim::read_model(text.starts_with('{')
                              ? sim::Document::parse_json(text, "fuzzed/config.json")
                              : sim::Document::parse_yaml(text, "fuzzed.yaml")));
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
