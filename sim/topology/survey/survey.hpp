// Fabrics as InfiniBand and Slurm write them down: what they hold, and the `fabric` of a cluster
// file that means the same, where one does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

// SurveyedSwitch: a switch, or a block of Slurm. Level 0 has hosts.
struct SurveyedSwitch {
  std::string name;
  int level = 0;
  std::int64_t host_ports = 0;  // ibnetdiscover: ports with a host channel adapter
  std::int64_t nodes = 0;       // hosts below it alone; of ibnetdiscover as far as they have names
  std::map<std::size_t, std::int64_t> links{};  // to other switches, by index; Slurm: one per line
  double host_gbps = 0, link_gbps = 0;          // of one port, of one link; 0: not told
};

// FabricSurvey: one fabric of a file.
struct FabricSurvey {
  std::string format;  // "ibnetdiscover"
  std::string name;    // of the fabric, where the file has several
  std::vector<SurveyedSwitch> switches{};
  bool counts_links = false;       // Slurm does not say how many links join two switches
  bool blocks = false;             // Slurm's topology/block: each is an NVLink domain or the like
  std::int64_t nodes = 0;          // with a name
  std::int64_t unnamed_ports = 0;  // host ports whose host has no name
  std::int64_t aggregation_ports = 0;  // SHARP's aggregation nodes: no hosts
  bool one_leaf_per_node = false;      // all ports of a node are at one leaf
  bool one_leaf_per_port = false;      // no two ports of a node are at one leaf
  std::vector<std::int64_t> block_sizes{};
  std::vector<std::string> notes{};
};

// Whether a text is one of the three: the output of ibnetdiscover, Slurm's topology.conf, Slurm's
// topology.yaml.
bool is_fabric_file(std::string_view text);

// The fabrics of a text. Throws InputError with line and column in `name`.
std::vector<FabricSurvey> survey_fabric(std::string_view text, const std::string& name);
// Reads at most 64 MiB.
std::vector<FabricSurvey> survey_fabric_file(const std::string& path);

// Describes a fabric, with the lines of a cluster file for it, or why there are none.
std::string describe(const FabricSurvey& survey);

std::vector<FabricSurvey> survey_ibnetdiscover(std::string_view text, const std::string& name);
std::vector<FabricSurvey> survey_slurm_conf(std::string_view text, const std::string& name);
std::vector<FabricSurvey> survey_slurm_yaml(std::string_view text, const std::string& name);

// Levels of switches above those with hosts, by the links between them. Switches that no path joins
// to a host stay at level 0.
void set_levels(FabricSurvey& survey);

}  // namespace sim
