// Manifests of checkpoints: any text is an InputError or a manifest that writes and reads back. As
// no mutation keeps the hash at the end right, the text is read once more with a hash that is.
#include <cstdint>
#include <string_view>

#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"

namespace {

using fuzz::require;

void check(std::string_view text) {
  try {
    const real::Manifest manifest = real::parse_manifest(text, "fuzzed");
    const std::string written = real::to_text(manifest);
    require(real::to_text(real::parse_manifest(written, "again")) == written);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  check(text);
  check(real::sealed(text.substr(0, text.rfind("\n \"sha256\""))));
  return 0;
}
