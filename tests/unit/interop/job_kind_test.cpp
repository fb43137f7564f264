// Which framework a file is of. The seeds of the importers' fuzzer begin with a letter that says
// it.
#include "sim/interop/job_kind.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using sim::JobKind;

JobKind kind_of_letter(char letter) {
  switch (letter) {
    case 'm':
      return JobKind::megatron;
    case 't':
      return JobKind::torchtitan;
    case 'a':
      return JobKind::accelerate;
    case 'u':
      return JobKind::automodel;
    case 'v':
      return JobKind::mlperf;
    case 'p':
    case 'n':
      return JobKind::nemo;
    default:
      return JobKind::deepspeed;
  }
}

}  // namespace

TEST_CASE("every seed of the importers is known by its content", "[interop]") {
  std::size_t seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator{
           sim::test::source_dir() + "/tests/fuzz/corpus/training_jobs"}) {
    std::ifstream file{entry.path(), std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    if (text.front() == 'l') continue;  // a line that starts a job: launch_lines_test.cpp
    const bool primus = entry.path().filename().string().starts_with("primus");
    const JobKind kind = primus ? JobKind::primus : kind_of_letter(text.front());
    const std::string name = kind == JobKind::torchtitan ? "job.toml"
                             : text.front() == 'p'       ? "job.py"
                             : text.front() == 'v'       ? "job.sh"
                                                         : "job";
    CAPTURE(entry.path().filename().string());
    CHECK(sim::job_kind_of(name, text.substr(1)) == kind);
    ++seeds;
  }
  CHECK(seeds >= 14);
}

TEST_CASE("our own files, and those of no framework, are no jobs", "[interop]") {
  for (const char* name : {"scenarios/llama-3.1-405b-16384-h100.yaml", "topologies/dgx-h100.yaml",
                           "models/gpt2.yaml", "models/llama-3.1-405b/config.json", "Makefile"}) {
    std::ifstream file{sim::test::source_dir() + '/' + name};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    REQUIRE_FALSE(text.empty());
    CAPTURE(name);
    CHECK_FALSE(sim::job_kind_of(name, text));
  }
}
