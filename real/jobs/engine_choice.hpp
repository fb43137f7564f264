// Choices of a scenario for the engine: backend, algorithms of the collectives, training data.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "real/engine/data/tokens.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "sim/base/words.hpp"
#include "sim/scenario/scenario.hpp"

namespace real {

enum class BackendChoice : std::uint8_t { automatic, host, cuda };
constexpr auto words_of(BackendChoice) {
  return std::array{sim::Word{BackendChoice::automatic, "auto"},
                    sim::Word{BackendChoice::host, "host"}, sim::Word{BackendChoice::cuda, "cuda"}};
}

// The backend that `automatic` is: cuda where this program was built with it and there is a GPU.
BackendChoice chosen_backend(BackendChoice choice);
// How the collectives run: the choices of the scenario's `simulation` section. Throws InputError
// for one that the engine does not have.
Algorithms algorithms_of(const sim::Scenario& scenario);
// The training data: the file of the scenario, or where it names none the shipped text, for a
// classifier the shipped sentences.
std::string training_data(const sim::Scenario& scenario);
// Throws InputError for data that cannot be read, or that the model cannot be trained on.
std::unique_ptr<Samples> samples_of(const sim::Scenario& scenario);

}  // namespace real
