// Single values of the files of other programs, which write them more freely than ours: True for
// true, 5e8 for 500000000. A value that is absent or null leaves the setting as it is.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "sim/interop/megatron_config.hpp"

namespace sim {

void read_setting(const ObjectReader& from, std::string_view key, Whole& into);
void read_setting(const ObjectReader& from, std::string_view key, Real& into);
void read_setting(const ObjectReader& from, std::string_view key, Flag& into);
void read_setting(const ObjectReader& from, std::string_view key, Text& into);  // lists: joined

// Whether CUDA graphs are on, by a word as --cuda-graph-impl has it.
void read_graph_switch(const ObjectReader& from, std::string_view key, Imported& result);
// What CUDA graphs capture: words of GraphModule; "full" and "full_iteration" are the whole step,
// for which an empty list stands, too (per layer, Megatron-LM captures nearly that). Of `keys` the
// first that is there; nothing without graphs.
void read_graph_scope(const ObjectReader& from, std::array<std::string_view, 2> keys,
                      Imported& result);

// A key that no setting has: what it means for a forecast.
enum class Verdict : std::uint8_t {
  refused,     // it changes time or memory beyond what is modelled
  noted,       // it is read otherwise, or changes a little: told
  unmodelled,  // it changes a step, and the forecast leaves it out: told, and the interval is wider
  ignored,     // it changes nothing
};
constexpr bool is_told(Verdict verdict) {
  return verdict == Verdict::noted || verdict == Verdict::unmodelled;
}
struct KnownKey {
  std::string_view name;  // a '*' at the end stands for any rest without blanks
  Verdict verdict = Verdict::ignored;
  std::string_view neutral{};  // the value that says "off"
  std::string_view reason{};   // "{}" in it stands for the name of the key
};

// Whether the row is about that key.
bool fits(const KnownKey& row, std::string_view key);

inline constexpr std::array anything{KnownKey{"*"}};
// NCCL takes SHARP by itself where there is some, as simulation.data_algorithm auto does.
inline constexpr std::string_view in_network_reduction =
    "all-reduces in switches are modelled where the cluster's network has them (traits: sharp)";
inline constexpr std::string_view buffers_of_te =
    "user buffers are modelled with Transformer Engine's default methods";

// Looks at the keys of `from` that nobody has asked for: the first row of `known` that fits decides
// whether it is a note, a problem or ignored. `prefix` stands in front of the names in notes. Keys
// that are not in `known` stay unknown.
void judge_keys(const ObjectReader& from, std::span<const KnownKey> known, std::string_view prefix,
                Imported& result);
// Those of `harmless` are ignored.
void ignore_keys(const ObjectReader& from, std::span<const std::string_view> harmless,
                 std::string_view prefix, Imported& result);
// The rest: ignored where it switches nothing on, else told as not known.
void note_unknown_keys(const ObjectReader& from, std::string_view prefix, Imported& result);
// The names of a list that stands in one text: "a b", "a,b", "[a b]", "['a', 'b']", over lines,
// too.
std::vector<std::string> names_in(std::string_view text);
// The object at `key`; another value that switches something on is a problem.
std::optional<ObjectReader> section_at(const ObjectReader& from, std::string_view key);
// Of Megatron-Bridge: the section `peft`. `experts`: whether the model has some.
void read_peft(const ObjectReader& root, bool experts, Layout& layout, Imported& result);
// Whether a value switches nothing on: absent, null, false, 0, [], "", none, or `neutral`.
bool is_neutral(const ValueReader& value, std::string_view neutral);

// The end of every import: layout_problems(), then everything that was recorded is thrown.
void finish_import(const Document& document, const ObjectReader& root, const Imported& result);

}  // namespace sim
