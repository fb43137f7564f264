// Dumps of PyTorch's Flight Recorder, one per rank: which collectives each rank has entered, and
// where they part. For jobs that hang.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"

namespace sim {

// A call of a collective or a message, as one rank recorded it.
struct RecordedCall {
  std::int64_t sequence = 0;  // of its group: 1, 2, ... for collectives; messages count apart
  std::string operation{};    // "all_reduce"
  std::string sizes{};        // of inputs and outputs: "[4096, 1024] -> [4096, 1024]"
  std::string types{};        // "BFloat16"
  enum class State : std::uint8_t { scheduled, started, completed } state = State::scheduled;
};

// The calls of a group's ranks. Ranks without a dump have done nothing that is known.
struct HangGroup {
  std::string name{};           // "0"
  std::string description{};    // "default_pg"
  std::vector<RankId> ranks{};  // all members, ascending; of the dumps alone where none tells
  struct Member {
    RankId rank{};
    std::int64_t entered = 0;    // the last call that it has entered; 0: none
    std::int64_t completed = 0;  // the last call that is over
    RecordedCall last{};         // that it has entered
  };
  std::vector<Member> members{};       // of whom there is a dump, ascending
  std::vector<RankId> without_dump{};  // ascending
};

struct HangFinding {
  enum class What : std::uint8_t {
    missing,    // some have entered a call that others of the group have not
    operation,  // they have entered different collectives as the same call
    sizes,      // of different sizes
    types,      // of different element types
    stuck,      // all have entered it, and it is not over
    message,    // a send or a receive of a rank is not over
  } what = What::missing;
  std::size_t group = 0;         // into HangReport::groups
  std::int64_t sequence = 0;     // of the call
  std::vector<RankId> ranks{};   // missing: those that have not entered it; else those that differ
  std::vector<RankId> others{};  // missing: those that have; else the rest
  RecordedCall call{};           // of `others`; stuck: of all; message: of the rank
  RecordedCall differs{};        // of the first of `ranks`; missing: its last call
};

struct HangReport {
  std::vector<RankId> ranks{};  // of whom there is a dump, ascending
  std::vector<HangGroup> groups{};
  // The first of each group, a mismatch before what is missing; the earliest call of a rank first.
  std::vector<HangFinding> findings{};  // empty: all collectives are over
  std::vector<std::string> notes{};
};

// Whether a text that begins so is such a dump.
bool is_recorder_dump(std::string_view head);

// find_hangs reads JSON dumps: the rank is that of the dump, or else the number in the file's name
// ("..._rank_3", "..._3.json"). Throws InputError: a pickle, with how to convert it; what is no
// dump; two dumps of one rank; a rank that is not told.
HangReport find_hangs(const std::vector<std::string>& paths);

// A dump as a text; names are as paths are.
struct RecorderDump {
  std::string name{};
  std::string text{};
};
HangReport parse_hangs(const std::vector<RecorderDump>& dumps);

// A few lines that say which ranks have entered what, who is missing, and where they part.
std::string text_of(const HangReport& report);

}  // namespace sim
