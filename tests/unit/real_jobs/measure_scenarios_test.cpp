// `stepcast calibrate` without files: what it writes, and what it refuses before it measures.
#include "real/jobs/measure_scenarios.hpp"

#include "sim/base/input_error.hpp"
#include "sim/topology/cluster.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

void nothing(const sim::CalibratedFile& /*file*/) {}

const std::string tiny = sim::test::source_dir() + "/validation/real/tiny-gpt.yaml";

}  // namespace

TEST_CASE("nominal figures are written without a measurement") {
  const Folder folder{"measure-scenarios"};
  std::string summary;
  const RunResult result =
      measure_for_scenarios({.backend = "cuda",
                             .nominal = true,
                             .base_cluster = "single-h200",
                             .gpu = "NVIDIA H200",
                             .folder = folder.path("here")},
                            [&](const sim::CalibratedFile& written) { summary = written.summary; });
  CHECK(result.end == RunEnd::done);
  CHECK(summary.ends_with("0 kernels, 0 collectives; written: " + folder.path("here/device.yaml") +
                          ", " + folder.path("here/cluster.yaml") + "\n"));
  CHECK(sim::Cluster::load(folder.path("here/cluster.yaml")).gpus() == 1);
}

TEST_CASE("kernels and collectives of a scenario become a cluster of this machine") {
  const Folder folder{"measure-scenarios"};
  const RunResult result =
      measure_for_scenarios({.scenarios = {tiny}, .seconds = 1, .folder = folder.path()}, nothing);
  INFO(result.message);
  CHECK(result.end == RunEnd::done);
  const sim::Cluster cluster = sim::Cluster::load(folder.path("cluster.yaml"));
  CHECK(cluster.gpus() == 2);  // the ranks of the scenario
  CHECK_FALSE(cluster.measured().empty());
}

TEST_CASE("what a measurement of this machine lacks is told before it begins") {
  CHECK_THROWS_WITH(measure_for_scenarios({.scenarios = {tiny}}, nothing),
                    "calibrate: error: nothing to write: give a folder for what is measured here "
                    "(-o), or --from-nccl-tests or --from-kineto");
  CHECK_THROWS_WITH(measure_for_scenarios({.backend = "cuda", .folder = "here"}, nothing),
                    "calibrate: error: GPUs need a cluster for what is not measured: --cluster "
                    "single-h200, or the --suite that is measured for");
  CHECK_THROWS_AS(measure_for_scenarios({.backend = "cuda",
                                         .base_cluster = "single-h200",
                                         .gpu = "No Such GPU",
                                         .folder = "here"},
                                        nothing),
                  sim::InputError);
}

}  // namespace real::test
