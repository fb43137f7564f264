// Whether this process is one of several that a launcher started, from its environment. Asked
// before MPI is: a program that is started alone never calls MPI_Init.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace sim {

struct Launch {
  int rank = 0;
  int size = 1;
  std::string launcher;  // "mpirun (Open MPI)"
  bool speaks_mpi = true;
};

using ReadVariable = std::function<std::optional<std::string>(const std::string& name)>;
ReadVariable process_variables();

// Open MPI's mpirun; MPICH's mpiexec and srun --mpi=pmi2; srun, but not a batch script itself;
// torchrun. Empty: alone. Variables that make no sense count as absent: they are not this
// program's to judge.
std::optional<Launch> find_launch(const ReadVariable& variable);

}  // namespace sim
