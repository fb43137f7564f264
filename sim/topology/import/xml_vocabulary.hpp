// Elements and attributes of an NCCL topology XML that NCCL 2.30 (src/graph/xml.cc, topo.cc at
// 5067397) and RCCL (src/graph/topo.cc at 0cbce2a) read and write: everything else is reported.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <vector>

#include "sim/topology/text_position.hpp"

namespace sim {

// Sentences on elements and attributes below `system` that no rule of the importer reads, one for
// each kind, with the first place. REQUIRES: `system` nests at most 64 deep.
std::vector<std::string> unread_xml(const pugi::xml_node& system, const TextLines& lines);

}  // namespace sim
