// Verdicts on keys of other programs that no setting carries. The keys are data:
// data/interop/PROGRAM.yaml.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"

namespace sim {

struct Imported;

// Verdict: what a key means for a forecast.
enum class Verdict : std::uint8_t {
  refused,     // it changes time or memory beyond what is modelled
  noted,       // it is read otherwise, or changes a little: told
  unmodelled,  // it changes a step, and the forecast leaves it out: told, and the interval is wider
  ignored,     // it changes nothing
};
constexpr auto words_of(Verdict) {
  return std::array{Word{Verdict::refused, "refused"}, Word{Verdict::noted, "noted"},
                    Word{Verdict::unmodelled, "unmodelled"}, Word{Verdict::ignored, "ignored"}};
}

struct KnownKey {
  std::string name;  // a '*' at the end stands for any rest without blanks
  Verdict verdict = Verdict::ignored;
  std::string neutral{};  // the value that says "off"
  std::string reason{};   // "{}" in it stands for the name of the key
};
// KeyList: the keys of one section. The first that fits decides.
struct KeyList {
  std::string name;
  std::vector<KnownKey> keys;
};

// read_verdicts() reads such a file. Refused: a row without a verdict, a reason that is missing or
// that nobody is told, a key that a row above decides. Throws InputError.
std::vector<KeyList> read_verdicts(const Document& file);
// verdicts() are those that are shipped for a program; read once. Throws InputError.
const std::vector<KeyList>& verdicts(std::string_view program);
// known_keys() is one list of them, empty if there is none.
std::span<const KnownKey> known_keys(std::string_view program, std::string_view list);

inline const std::array anything{KnownKey{"*"}};

// fits(): whether the row is about that key.
bool fits(const KnownKey& row, std::string_view key);
// known_key() is the first row that fits, or null.
const KnownKey* known_key(std::span<const KnownKey> rows, std::string_view key);

// judge_key() makes of a key of `row` a note, a problem, or one that is ignored, as it is if its
// value is absent or `off`. `name`: the key with its section.
void judge_key(const KnownKey& row, const std::optional<ValueReader>& value, bool off,
               const std::string& name, Imported& result);
// judge_keys() looks at the keys of `from` that nobody has asked for: the first row of `known` that
// fits decides. `prefix` stands in front of the names in notes. Keys that are not in `known` stay
// unknown.
void judge_keys(const ObjectReader& from, std::span<const KnownKey> known, std::string_view prefix,
                Imported& result);
// note_unknown_keys(): the rest is ignored where it switches nothing on, else told as not known.
void note_unknown_keys(const ObjectReader& from, std::string_view prefix, Imported& result);

}  // namespace sim
