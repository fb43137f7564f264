// Beside not crashing: what our JSON parser takes, nlohmann's takes too, and the other way round
// but for what we refuse on purpose.
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/fuzz/support/walk.hpp"

namespace {

// Valid JSON that the reader refuses: limits, bytes that no editor writes, U+0000, halves of
// surrogate pairs are refused by both.
bool refused_on_purpose(std::string_view what) {
  constexpr std::array<std::string_view, 5> reasons{"nested deeper", "control character", "U+0000",
                                                    "more than 2000000", "MiB"};
  for (const std::string_view reason : reasons)
    if (what.find(reason) != std::string_view::npos) return true;
  return false;
}

enum class Verdict { valid, invalid, unknown };

Verdict verdict_of_nlohmann(std::string_view text) {
  try {
    return nlohmann::json::parse(text).is_discarded() ? Verdict::invalid : Verdict::valid;
  } catch (const nlohmann::json::parse_error&) {
    return Verdict::invalid;
  } catch (const nlohmann::json::out_of_range&) {
    // A number beyond double, at which it stops reading. Our reader refuses it when asked for it.
    return Verdict::unknown;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const Verdict verdict = verdict_of_nlohmann(text);
  try {
    const sim::Document document = sim::Document::parse_json(text, "input.json");
    if (verdict == Verdict::invalid) __builtin_trap();
    try {
      fuzz::walk(document);
    } catch (const sim::InputError& error) {
      if (std::string_view{error.what()}.empty()) __builtin_trap();
    }
  } catch (const sim::InputError& error) {
    if (verdict == Verdict::valid && !refused_on_purpose(error.what())) __builtin_trap();
  }
  return 0;
}
