// The execution traces of a job: its files, and the communicators that they name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/chakra/nodes.hpp"

namespace sim {

struct EtRun {
  std::string name{};                                   // of the files, without rank and ending
  std::vector<EtFile> ranks{};                          // by rank, from 0
  std::map<std::string, std::vector<RankId>> groups{};  // ascending ranks, by pg_name
  int world_size() const { return static_cast<int>(ranks.size()); }
};

// read_et_folder reads PREFIX.0.et, PREFIX.1.et, ... of a folder, and its comm_groups.json where it
// has one (ASTRA-sim's --comm-group-configuration); groups also come from metadata nodes. Throws
// InputError: no such files, several prefixes, a rank that is missing, a group of no or unknown
// ranks.
EtRun read_et_folder(const std::string& folder);

}  // namespace sim
