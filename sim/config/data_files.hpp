// The shipped data: models, clusters, devices, suites, by their names.
#pragma once

#include <string>
#include <vector>

namespace sim {

// Names of a kind ("models", "topologies", "topologies/devices") that find_data_file() accepts,
// sorted: "dgx-h100" for dgx-h100.yaml, "llama-3.1-405b" for llama-3.1-405b/config.json.
std::vector<std::string> data_files(const std::string& kind);

// The paths of the tables (.csv) of a folder of the data folder, sorted.
std::vector<std::string> data_tables(const std::string& folder);

// The path of a file given as such or by its name in the data folder; of a model, also of a folder
// with a config.json. Throws InputError, with the names that are nearest.
std::string find_data_file(const std::string& kind, const std::string& name);

// scenario_file() is the path itself where that is a file; else the shipped one that it names, as
// "scenarios/search/mixtral-8x7b-64-h100.yaml" or "gpt2-124m-8-h100"; else the path.
std::string scenario_file(const std::string& path);

// A file that the file `from` names: absolute, relative to the folder of `from`, or, where there is
// none, the shipped one of that name and kind.
std::string referenced_file(const std::string& from, const std::string& reference,
                            const std::string& kind);

// The path of the shipped file of that kind and name; empty: there is none, or `name` is a path.
std::string shipped_file(const std::string& kind, const std::string& name);

// The same of a suite of real runs.
std::string find_suite(const std::string& name);

}  // namespace sim
