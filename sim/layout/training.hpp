// How a run trains, and on which data: the `training` section of a scenario. Only the real engine
// reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/base/words.hpp"
#include "sim/layout/learning_rate.hpp"

namespace sim {

// How a run's tokens choose their experts: by the router's scores, whose weights are a softmax or
// sigmoids (Megatron-LM, --moe-router-score-function), or evenly
// (--moe-router-force-load-balancing). automatic: softmax on the host, evenly on a GPU.
enum class TokenRouting : std::uint8_t { automatic, softmax, sigmoid, even };
constexpr auto words_of(TokenRouting) {
  return std::array{Word{TokenRouting::automatic, "auto"}, Word{TokenRouting::softmax, "softmax"},
                    Word{TokenRouting::sigmoid, "sigmoid"}, Word{TokenRouting::even, "even"}};
}

struct Training {
  int steps = 10;
  std::uint64_t seed = 1;  // of weights and of the order of the data
  std::string data = {};   // text or token file; empty: the corpus that is shipped
  LearningRate learning_rate = {};
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1.0;                               // gradient norm; 0: off
  TokenRouting routing = TokenRouting::automatic;  // of a mixture of experts
  bool operator==(const Training&) const = default;
};

}  // namespace sim
