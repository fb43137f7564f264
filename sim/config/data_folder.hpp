// The folder of the shipped files.
#pragma once

#include <string>

namespace sim {

// The folder with models/ and topologies/: $STEPCAST_DATA, else the working folder if it has them,
// else share/stepcast beside the Python module, the folder that the program lies in or
// ../share/stepcast from there, else the source tree that it was built from, else where it was
// installed. Throws InputError where $STEPCAST_DATA is no such folder.
std::string data_folder();

// program_data_file() is the path of a file that is not for users to write,
// "data/interop/mlperf.yaml": in data_folder() if that has it, else in the first of those places
// that has it.
std::string program_data_file(const std::string& path);

}  // namespace sim
