// Suites of real runs: what is read, and the exact text of what is refused.
#include "sim/scores/real/real_suite.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;

const std::string small = R"(name: tiny-2
cluster: calibrated/cluster.yaml
backend: host
ranks: 2
bounds: {scored: 2, median_step_error: 0.1}
scenarios:
  - base: tiny.yaml
    set: [layout.global_batch=8]
    runs:
      - name: dp
        set: [layout.data_parallel=2]
      - name: tp
        set: [layout.tensor_parallel=2, layout.data_parallel=1]
)";

std::string problem_of(const std::string& text) {
  try {
    parse_real_suite(text, "suites/s.yaml");
  } catch (const InputError& error) {
    const Problem& first = error.problems().front();
    return std::to_string(first.where.line) + ": " + first.what;
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a suite lists runs of base files, shared overrides before their own") {
  const RealSuite suite = parse_real_suite(small, "suites/s.yaml");
  CHECK(suite.name == "tiny-2");
  CHECK(suite.backend == RealBackend::host);
  CHECK(suite.ranks == 2);
  CHECK(suite.ranks_per_gpu == 0);
  CHECK(suite.cluster == "suites/calibrated/cluster.yaml");
  CHECK(suite.bounds.scored == 2);
  CHECK(suite.bounds.median_step_error == 0.1);
  CHECK_FALSE(suite.bounds.worst_step_error);
  CHECK(suite.bounds.same_work);
  REQUIRE(suite.scenarios.size() == 2);
  CHECK(suite.scenarios[0].name == "dp");
  CHECK(suite.scenarios[1].base == "suites/tiny.yaml");
  CHECK(suite.scenarios[1].overrides == std::vector<std::string>{"layout.global_batch=8",
                                                                 "layout.tensor_parallel=2",
                                                                 "layout.data_parallel=1"});
}

TEST_CASE("a suite that contradicts itself is refused with the line") {
  CHECK(problem_of(replaced(small, "name: tp", "name: dp")) ==
        "12: there is another scenario of this name");
  CHECK(problem_of(replaced(small, "name: tp", "name: a/b")) ==
        "12: a name has letters, digits, '-', '_' and '.', and does not begin with '.'");
  CHECK(problem_of(replaced(small, "layout.data_parallel=2", "layout.data_parallel")) ==
        "11: an override is section.key=value");
  CHECK(problem_of(replaced(small, "ranks: 2", "ranks: 2\nranks_per_gpu: 2")) ==
        "5: only ranks of the cuda backend share a GPU");
  CHECK(problem_of(replaced(small, "ranks: 2", "rank: 2")).substr(0, 3) == "4: ");
  CHECK(problem_of("name: s\ncluster: c.yaml\nbackend: host\nranks: 1\nscenarios: []\n") ==
        "5: a suite has at least one scenario");
}

}  // namespace
