// Facts of an imported job that travel in its scenario beside the forecast: notes, which every
// later report repeats, and settings without an effect on a step, which an export writes back.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario/layered.hpp"

namespace sim {

// Note is one thing that the other side cannot say, or that we cannot.
struct Note {
  // A key of our scenario ("layout.first_bucket", "framework") where there is one, else of the
  // other file ("--deterministic-mode").
  std::string key;
  std::string what;
  // The job does something that changes a step and that the forecast leaves out: its interval is
  // wider (JobTraits::unmodelled).
  bool unmodelled = false;
  bool operator==(const Note&) const = default;
};

// CarriedSettings is what of a job's file changes its model or its optimizer, but no time and no
// memory of a step: "--rotary-base" and its value, in the words of that file.
struct CarriedSettings {
  std::string target;  // "megatron" or "nemo"; empty: nothing is carried
  std::vector<std::pair<std::string, std::string>> settings;
  bool operator==(const CarriedSettings&) const = default;
};
inline constexpr std::array<std::string_view, 2> carrying_targets{"megatron", "nemo"};

// is_carried_text tells whether a name or a value may be carried: it is short, and of characters
// that end no word and start no command in a shell or in YAML.
bool is_carried_name(std::string_view name);
bool is_carried_value(std::string_view value);

// read_notes reads `notes: [{key: ..., what: ..., modelled: false}, ...]` of a scenario; nothing
// where the key is absent. Problems are recorded at the entries.
std::vector<Note> read_notes(const Layered& top);

// read_carried reads `carried: {megatron: {--rotary-base: "500000"}}`, as read_notes().
CarriedSettings read_carried(const Layered& top);

// imported_facts_yaml is both keys as they are read back; empty without any.
std::string imported_facts_yaml(const std::vector<Note>& notes, const CarriedSettings& carried);

// text_of is a note as a line of a report: "--deterministic-mode: kernels are modelled at full
// speed".
std::string text_of(const Note& note);

}  // namespace sim
