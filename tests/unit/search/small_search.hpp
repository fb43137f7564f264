// Small spaces that can be searched exhaustively, written as a user would.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/search/search.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace sim::test {

// `search` is the section's content in flow style, without braces.
inline SearchSpecification small_search(const std::string& search,
                                        const std::string& layout = "global_batch: 16",
                                        const std::string& rest = "") {
  static const std::filesystem::path folder = temporary_path("search");
  std::filesystem::create_directories(folder);
  const std::string root = sim::test::source_dir();
  const std::string path = (folder / "s.yaml").string();
  std::ofstream{path} << "model: " << root << "/models/gpt2.yaml\ncluster: {path: " << root
                      << "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {sequence_length: 512, "
                      << layout << "}\nsearch: {" << search << "}\n"
                      << rest;
  SearchSpecification read = load_search(ScenarioSources{path});
  std::filesystem::remove_all(folder);
  return read;
}

}  // namespace sim::test
