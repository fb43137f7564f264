#include "real/jobs/engine_choice.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "real/cuda/cuda_backend.hpp"
#include "real/engine/data/labelled_text.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/input_error.hpp"
#include "sim/config/data_folder.hpp"

namespace real {
namespace {

AlgorithmChoice algorithm_of(const sim::Scenario& scenario, sim::Algorithm algorithm,
                             const char* key) {
  switch (algorithm) {
    case sim::Algorithm::automatic:
      return AlgorithmChoice::automatic;
    case sim::Algorithm::ring:
      return AlgorithmChoice::ring;
    case sim::Algorithm::tree:
      return AlgorithmChoice::tree;
    case sim::Algorithm::halving_doubling:
      return AlgorithmChoice::halving_doubling;
    case sim::Algorithm::hierarchical:
      return AlgorithmChoice::hierarchical;
    default:
      throw sim::InputError{
          sim::SourcePosition{scenario.path, 0, 0},
          fmt::format("simulation.{}: the engine does not execute {}; allowed: auto, "
                      "ring, tree, halving_doubling, hierarchical",
                      key, sim::word(algorithm))};
  }
}

}  // namespace

BackendChoice chosen_backend(BackendChoice choice) {
  if (choice != BackendChoice::automatic) return choice;
  // The device files of NVIDIA's driver, on Linux and in Windows' Linux. Asking CUDA itself would
  // take a second and, in the process that only starts the others, a part of a GPU.
  const bool has_gpu =
      std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
  return cuda_built() && has_gpu ? BackendChoice::cuda : BackendChoice::host;
}

Algorithms algorithms_of(const sim::Scenario& scenario) {
  const auto tensor =
      algorithm_of(scenario, scenario.options.tensor_choice.algorithm, "tensor_algorithm");
  const auto data =
      algorithm_of(scenario, scenario.options.data_choice.algorithm, "data_algorithm");
  Algorithms algorithms;
  algorithms.of_role.fill(data);
  algorithms.of_role[static_cast<std::size_t>(sim::GroupRole::tensor)] = tensor;
  algorithms.ranks_per_node = scenario.cluster.gpus_per_node();
  return algorithms;
}

std::string training_data(const sim::Scenario& scenario) {
  if (!scenario.training.data.empty()) return scenario.training.data;
  return sim::program_data_file(reads_labels(scenario.model) ? "data/sentences/sentences.tsv"
                                                             : "data/corpus/tales.txt");
}

std::unique_ptr<Samples> samples_of(const sim::Scenario& scenario) {
  return open_samples(training_data(scenario), scenario.model, scenario.layout.attended_length());
}

}  // namespace real
