#include "sim/distribute/launcher.hpp"

#include <charconv>
#include <cstdlib>

namespace sim {
namespace {

std::optional<int> number(const ReadVariable& variable, const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < 0) return std::nullopt;
  return value;
}

struct Names {
  const char *rank, *size;
  const char* launcher;
  bool speaks_mpi;
};

std::optional<Launch> launch_by(const ReadVariable& variable, const Names& names) {
  const std::optional<int> rank = number(variable, names.rank);
  const std::optional<int> size = number(variable, names.size);
  if (!rank || !size || *rank >= *size) return std::nullopt;
  return Launch{
      .rank = *rank, .size = *size, .launcher = names.launcher, .speaks_mpi = names.speaks_mpi};
}

}  // namespace

ReadVariable process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>{value} : std::nullopt;
  };
}

std::optional<Launch> find_launch(const ReadVariable& variable) {
  constexpr Names known[]{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun (Open MPI)", true},
      {"PMI_RANK", "PMI_SIZE", "mpiexec (PMI)", true},
      // SLURM_STEP_NUM_TASKS is set in a step alone: the script of a job has SLURM_PROCID and
      // SLURM_NTASKS too.
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun (Slurm)", true},
      {"RANK", "WORLD_SIZE", "torchrun (RANK, WORLD_SIZE)", false}};
  for (const Names& names : known)
    if (std::optional<Launch> launch = launch_by(variable, names)) return launch;
  return std::nullopt;
}

}  // namespace sim
