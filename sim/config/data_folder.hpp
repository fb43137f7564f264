// Where the shipped files are.
#pragma once

#include <string>

namespace sim {

// The folder with models/ and topologies/: $STEPCAST_DATA, else the working folder if it has them,
// else the source tree that the program was built from.
std::string data_folder();

}  // namespace sim
