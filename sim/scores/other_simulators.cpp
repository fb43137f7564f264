#include "sim/scores/other_simulators.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/config/reader.hpp"

namespace sim {
namespace {

std::optional<double> optional_figure(const ObjectReader& in, std::string_view key,
                                      RealRange range) {
  if (!in.has(key)) return std::nullopt;
  return in.real(key, range);
}

PeerFigures read_peer(const ObjectReader& in) {
  constexpr RealRange error{.min = 0, .max = 1e6};
  PeerFigures peer;
  peer.name = in.text("peer");
  peer.source = in.text("source");
  peer.set = in.text_or("set", "");
  peer.rows = in.text("rows");
  peer.of_memory = in.boolean_or("of_memory", false);
  if (in.has("except"))
    for (const ValueReader& entry : in.list("except"))
      peer.except.push_back(entry.text());
  peer.model = in.text_or("model", "");
  peer.most_tensor_parallel =
      static_cast<int>(in.integer_or("most_tensor_parallel", 0, {.min = 0, .max = 1 << 20}));
  peer.average_abs_error = optional_figure(in, "average_abs_error", error);
  peer.worst_abs_error = optional_figure(in, "worst_abs_error", error);
  peer.rank_correlation = optional_figure(in, "rank_correlation", {.min = -1, .max = 1});
  return peer;
}

bool belongs(const RowResult& result, const PeerFigures& peer) {
  const MeasuredRow& row = result.row;
  if (!result.prediction || !(peer.of_memory ? row.has_memory() : row.has_time())) return false;
  if (std::find(peer.except.begin(), peer.except.end(), row.id) != peer.except.end()) return false;
  if (peer.model.empty() && peer.most_tensor_parallel == 0) return true;
  if (!row.cells) return false;
  if (!peer.model.empty() && (*row.cells)["model"] != peer.model) return false;
  return peer.most_tensor_parallel == 0 ||
         row.cells->whole("tp").value_or(1) <= peer.most_tensor_parallel;
}

}  // namespace

std::vector<PeerFigures> load_peers(const std::string& path) {
  const Document document = Document::load(path);
  std::vector<PeerFigures> peers;
  for (const ValueReader& entry : document.root_object().list("comparisons"))
    peers.push_back(read_peer(entry.object()));
  document.finish();
  return peers;
}

OwnScore score_beside(const PeerFigures& peer, std::span<const SetResult> results) {
  std::vector<double> predicted, measured, errors;
  for (const SetResult& result : results) {
    if (result.set.name != peer.set) continue;
    for (const RowResult& row : result.rows) {
      if (!belongs(row, peer)) continue;
      if (peer.of_memory) {
        errors.push_back(std::abs(row.memory_error()));
        continue;
      }
      predicted.push_back(to_seconds(row.prediction->time));
      measured.push_back(to_seconds(row.row.measured));
      errors.push_back(std::abs(row.error()));
    }
  }
  OwnScore own;
  own.rows = static_cast<int>(errors.size());
  if (errors.empty()) return own;
  own.average_abs_error =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  own.worst_abs_error = *std::max_element(errors.begin(), errors.end());
  if (peer.of_memory) return own;
  own.rank_correlation = rank_correlation(predicted, measured);
  if (peer.model.empty()) return own;
  const auto favourite = static_cast<std::size_t>(
      std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  own.favourite_loss =
      measured[favourite] / *std::min_element(measured.begin(), measured.end()) - 1;
  return own;
}

}  // namespace sim
