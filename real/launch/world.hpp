// The place of this process in a run of several: taken from the launcher's environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace real {

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // on this machine
  int local_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  bool one_machine = false;  // the launcher says that all ranks are on this one
  std::string job{};         // one name per run
  std::string source{};      // "command line", "torchrun", "Open MPI", "Slurm"
};

struct WorldOptions {  // of the command line; unset: asked from the environment
  std::optional<int> rank{}, world_size{};
  std::optional<std::string> master{};  // address:port
  std::optional<std::string> secret_file{};
  bool insecure = false;  // ranks that others can reach need no secret
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// In this order: the command line, RANK/WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, SLURM_*. None: no
// launcher, the run starts its ranks itself. Throws std::invalid_argument for variables that do not
// fit together, naming them.
//
// torchrun's agent listens at MASTER_PORT itself, so a run started by it meets at the port after
// it. Without MASTER_ADDR (mpirun, srun): the first host of SLURM_JOB_NODELIST, else this machine.
// Without MASTER_PORT: a port derived from the name of the job. A Slurm batch script that srun has
// not started is no rank.
std::optional<World> join_world(const WorldOptions& options, const Environment& environment);

// "rack1node01" of "rack[1-2]node[01-04],login". Throws std::invalid_argument for an open bracket.
std::string first_host(const std::string& nodelist);

}  // namespace real
