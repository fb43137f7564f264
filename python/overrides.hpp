// Python values as the texts that --set takes.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "sim/interop/job_file.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"

namespace stepcast_python {

// {"layout.tensor_parallel": 4, "layout.placement": ["tp", "dp"]} as "key=value" texts, in order.
// None: none. Throws TypeError for a value that is no number, text, bool or list of these.
std::vector<std::string> overrides_of(const pybind11::object& overrides);

// {"layout.tensor_parallel": [1, 2, 4], "cluster.nodes": "8..64*2"} as texts of --over.
std::vector<std::string> axes_of(const pybind11::dict& over);

// ImportedFile is a job with the file that it was read from, whose name its scenario tells.
struct ImportedFile {
  sim::JobFile file;
  sim::ImportedJob job;
};

// A scenario: the path of its file, one that was read from a job, or a dict with what the file
// would say, whose own paths are relative to the working folder. With overrides on top. The
// interpreter's lock is needed for this alone: open() may run without it.
class ScenarioArgument {
 public:
  ScenarioArgument(const pybind11::object& scenario, const pybind11::object& overrides);
  sim::ScenarioSources open() const;
  sim::Scenario load() const { return load_scenario(open()); }
  const std::string& path() const { return path_; }
  const std::vector<std::string>& overrides() const { return overrides_; }

 private:
  std::string path_;
  std::optional<std::string> text_;
  std::vector<std::string> overrides_;
};

// A text, or what os.fspath() makes of a path.
std::string path_of(const pybind11::object& path);

}  // namespace stepcast_python
