// In place of mpi_team.cpp where MPI was not found.
#include <stdexcept>

#include "sim/distribute/team.hpp"

namespace sim {

std::optional<std::string> mpi_library() {
  return std::nullopt;
}

std::unique_ptr<Team> join_mpi() {
  throw std::logic_error("this build has no MPI");
}

}  // namespace sim
