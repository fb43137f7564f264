// Definition tells a script the value of the variable NAME, whatever the script assigns to it.
#pragma once

#include <string>

namespace sim {

struct Definition {
  std::string name, value;
};

}  // namespace sim
