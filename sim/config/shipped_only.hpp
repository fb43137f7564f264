// Reading for somebody who may not see the files of this machine.
#pragma once

#include <string>

namespace sim {

// ShippedOnly: while one lives, its thread reads shipped data alone (models, clusters, scenarios,
// validation). A path elsewhere is refused before anything is looked up, so that an answer does not
// tell whether it is there.
class ShippedOnly {
 public:
  ShippedOnly();
  ShippedOnly(const ShippedOnly&) = delete;
  ShippedOnly& operator=(const ShippedOnly&) = delete;
  ~ShippedOnly();
};

// check_readable() throws InputError where this thread may not read `path`, with the names of
// `kind`
// ("models") that are nearest; empty: with none.
void check_readable(const std::string& path, const std::string& kind = {});

// only_shipped() is, for a thread that reads shipped data alone, the file of that kind and name;
// empty: there is none, or the thread may read others.
std::string only_shipped(const std::string& kind, const std::string& name);

}  // namespace sim
