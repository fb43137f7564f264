// In place of mpi_team.cpp where MPI was not found.
#include <stdexcept>

#include "sim/distribute/communicator.hpp"

namespace sim {

std::optional<std::string> mpi_library() {
  return std::nullopt;
}

std::unique_ptr<Communicator> join_mpi() {
  throw std::logic_error("this build has no MPI");
}

}  // namespace sim
