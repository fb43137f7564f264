// Who started this process, by its environment.
#include "sim/distribute/launcher.hpp"

#include <map>

#include "tests/catch.hpp"

using namespace sim;

namespace {

std::optional<Launch> launch_of(const std::map<std::string, std::string>& variables) {
  return find_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  });
}

}  // namespace

TEST_CASE("a process that is started alone is alone", "[distribute]") {
  CHECK_FALSE(launch_of({}));
  // The script of a batch job, and a variable that means something else.
  CHECK_FALSE(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
  CHECK_FALSE(launch_of({{"RANK", "0"}}));
  CHECK_FALSE(launch_of({{"RANK", "high"}, {"WORLD_SIZE", "8"}}));
  CHECK_FALSE(launch_of({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}));
}

TEST_CASE("ranks are told by the variables of their launcher", "[distribute]") {
  const auto mpirun = launch_of({{"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE(mpirun);
  CHECK(mpirun->rank == 3);
  CHECK(mpirun->size == 4);
  CHECK(mpirun->launcher == "mpirun (Open MPI)");
  CHECK(mpirun->speaks_mpi);
  CHECK(launch_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})->size == 4);
  CHECK(launch_of({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})->rank == 1);
  CHECK_FALSE(launch_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}})->speaks_mpi);
}
