// One dump of PyTorch's Flight Recorder, as it is written.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/byte_source.hpp"
#include "sim/trace/flight_recorder.hpp"

namespace sim {

struct DumpedCall {
  RecordedCall call;
  std::string group;        // its name
  std::string description;  // of the group
  bool message = false;
  std::vector<std::int64_t> elements;  // of inputs and outputs together
};
struct DumpedGroup {
  std::string name, description;
  std::vector<RankId> ranks;
  std::int64_t enqueued = 0, completed = 0;  // last calls; 0: not told
};
struct Dump {
  std::string name;  // of the file
  std::optional<int> rank;
  std::map<std::string, DumpedGroup> groups;
  std::vector<DumpedCall> calls;  // in the order of the file
};

bool is_pickle(std::string_view head);
// Throws InputError: a pickle, or no dump.
Dump read_dump(ByteSource& source);

}  // namespace sim
