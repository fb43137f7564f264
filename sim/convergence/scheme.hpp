// A scheme of synchronisation: a name for some keys of a scenario.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/base/words.hpp"
#include "sim/config/reader.hpp"

namespace sim {

inline constexpr int most_recorded_steps = 1'000'000;  // of a run, and of a scheme's warm-up

// A key as --set takes it, "layout.compression.density", and its value as text, "0.01".
struct SchemeKey {
  std::string key, value;
  SourcePosition where{};  // of the value; not compared
};

struct SyncScheme {
  std::string name;
  std::vector<SchemeKey> set{};  // over the base scenario; empty: the base as it is
  // Steps that are trained with the baseline's keys first; the scheme goes on from a checkpoint of
  // them. 0: none.
  int warm_up = 0;
};

// TargetKind says where a loss is aimed at.
enum class TargetKind : std::uint8_t {
  fall,  // a share of what the baseline's loss falls by, of the same seed
  loss,  // a loss
};
constexpr auto words_of(TargetKind) {
  return std::array{Word{TargetKind::fall, "fall"}, Word{TargetKind::loss, "loss"}};
}
struct LossTarget {
  TargetKind kind = TargetKind::fall;
  double value = 0;
  bool operator==(const LossTarget&) const = default;
};

std::string target_text(const LossTarget& target);         // "90 % of the fall", "loss 2.5"
std::string set_text(const std::vector<SchemeKey>& keys);  // "a=1 b=2"; "none"

// Names of schemes and suites are cells of tables and names of files: letters, digits, '-', '_',
// '.', and no '.' at the beginning. Anything else is a problem at the value.
std::string read_plain_name(const ObjectReader& from, std::string_view key);
// name, set, warm_up of an entry of `schemes`; more keys of it are the caller's.
SyncScheme read_scheme(const ObjectReader& from);

}  // namespace sim
