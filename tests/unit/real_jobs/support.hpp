// A scenario that trains in a moment, and a folder for what it leaves.
#pragma once

#include <filesystem>
#include <string>

#include "sim/scenario/scenario.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace real::test {

// Two ranks, tensor parallel, 8 sequences of 16 bytes.
inline sim::Scenario tiny_scenario(int steps) {
  return sim::load_scenario(
      sim::test::source_dir() + "/scenarios/real/llama-byte-tp2-dp2.yaml",
      {"layout.data_parallel=1", "cluster.gpus=2", "layout.sequence_length=16",
       "layout.global_batch=8", "training.steps=" + std::to_string(steps)});
}

class Folder {
 public:
  explicit Folder(const std::string& name) : path_{sim::test::temporary_path(name)} {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace real::test
