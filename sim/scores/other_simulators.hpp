// Other simulators on rows of the published sets, and ours on the same rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/scores/score.hpp"

namespace sim {

// A line of validation/peers.yaml.
struct PeerFigures {
  std::string name, source;
  std::string set;         // empty: there are no rows to compare on
  std::string rows;        // which, in words
  bool of_memory = false;  // errors of the peak memory in place of the time
  std::vector<std::string> except{};
  std::string model{};           // only rows of this model; empty: all
  int most_tensor_parallel = 0;  // only rows up to this; 0: all
  std::optional<double> average_abs_error{}, worst_abs_error{}, rank_correlation{};
};
// Throws InputError.
std::vector<PeerFigures> load_peers(const std::string& path);

// Ours on the rows of a peer, whatever their use.
struct OwnScore {
  int rows = 0;  // predicted and measured
  std::optional<double> average_abs_error, worst_abs_error, rank_correlation;
  // How much slower, as measured, the row forecast as the fastest is than the fastest; of layouts
  // of one model only.
  std::optional<double> favourite_loss;
};
OwnScore score_beside(const PeerFigures& peer, std::span<const SetResult> results);

struct PeerResult {
  PeerFigures peer;
  OwnScore own;
};
std::string peer_table(std::span<const PeerResult> results);
std::string peer_markdown(std::span<const PeerResult> results);
std::string peer_csv(std::span<const PeerResult> results);
std::string peer_json(std::span<const PeerResult> results);

}  // namespace sim
