// Keys of a scenario that have been renamed to the field's terms. For one release a file may use
// the old name; a note says what it is called now.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/followed.hpp"
#include "sim/scenario/layered.hpp"

namespace sim {

struct RenamedKey {
  std::string_view section;  // "framework"
  std::string_view old, now;
  bool inverted = false;  // true of the one is false of the other
};

const std::vector<RenamedKey>& renamed_keys();

// What is called `old` in that section now: `old` itself where it was not renamed.
RenamedKey renamed_key(std::string_view section, std::string_view old);

// Whether `section` says `key` by its old name alone, or on top of the file's new one. Then a note
// joins `notes`. Both names in one file are a problem.
bool uses_old_name(const Layered& section, const RenamedKey& key, std::vector<Followed>& notes);

// A boolean by either name; `fallback` and the result are of the old one.
bool renamed_boolean(const Layered& section, const RenamedKey& key, bool fallback,
                     std::vector<Followed>& notes);

}  // namespace sim
