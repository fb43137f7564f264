#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/rows/csv.hpp"
#include "sim/scores/other_simulators.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

std::string two_place_percent(std::optional<double> value) {
  return value ? fmt::format("{:.2f}%", *value * 100) : fmt::format("-");
}

struct PeerText {
  std::string rows, average, worst, rank, loss;
};

// "theirs, ours"; only what the peer published, but for the loss.
PeerText text_of(const PeerResult& result) {
  const PeerFigures& peer = result.peer;
  const OwnScore& own = result.own;
  const auto pair = [](std::optional<double> theirs, std::optional<double> ours) {
    return theirs ? fmt::format("{}, {}", two_place_percent(theirs), two_place_percent(ours))
                  : fmt::format("-");
  };
  PeerText text;
  text.rows = peer.set.empty() ? peer.rows : fmt::format("{}, {}", peer.set, peer.rows);
  text.average = pair(peer.average_abs_error, own.average_abs_error);
  text.worst = pair(peer.worst_abs_error, own.worst_abs_error);
  const auto rank = [](std::optional<double> value) {
    return value ? fmt::format("{:.2f}", *value) : fmt::format("-");
  };
  text.rank = rank(peer.rank_correlation);
  if (peer.rank_correlation) text.rank += ", " + rank(own.rank_correlation);
  text.loss = two_place_percent(own.favourite_loss);
  return text;
}

Json json_of(const PeerResult& result) {
  const auto or_null = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  const PeerFigures& peer = result.peer;
  return {{"peer", peer.name},
          {"source", peer.source},
          {"set", peer.set.empty() ? Json() : Json(peer.set)},
          {"rows", peer.rows},
          {"theirs",
           {{"average_abs_error", or_null(peer.average_abs_error)},
            {"worst_abs_error", or_null(peer.worst_abs_error)},
            {"rank_correlation", or_null(peer.rank_correlation)}}},
          {"ours",
           {{"rows", result.own.rows},
            {"average_abs_error", or_null(result.own.average_abs_error)},
            {"worst_abs_error", or_null(result.own.worst_abs_error)},
            {"rank_correlation", or_null(result.own.rank_correlation)},
            {"favourite_loss", or_null(result.own.favourite_loss)}}}};
}

}  // namespace

std::string peer_table(std::span<const PeerResult> results) {
  std::string text =
      fmt::format("{:<10}{:<50}{:>19}{:>19}{:>13}{:>9}\n", "peer", "rows (each cell: theirs, ours)",
                  "average", "worst", "rank", "loss");
  for (const PeerResult& result : results) {
    const PeerText cells = text_of(result);
    text += fmt::format("{:<10}{:<50}{:>19}{:>19}{:>13}{:>9}\n", result.peer.name, cells.rows,
                        cells.average, cells.worst, cells.rank, cells.loss);
  }
  return text + "loss: how much slower the layout forecast as the fastest is than the fastest\n";
}

std::string peer_markdown(std::span<const PeerResult> results) {
  std::string text =
      "| peer | rows | average error: theirs, ours | worst: theirs, ours | rank correlation: "
      "theirs, ours | our favourite behind the best |\n|---|---|--:|--:|--:|--:|\n";
  for (const PeerResult& result : results) {
    const PeerText cells = text_of(result);
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", result.peer.name, cells.rows,
                        cells.average, cells.worst, cells.rank, cells.loss);
  }
  return text;
}

std::string peer_csv(std::span<const PeerResult> results) {
  std::string text =
      "peer,set,rows,their_average_abs_error,our_average_abs_error,their_worst_abs_error,"
      "our_worst_abs_error,their_rank_correlation,our_rank_correlation,our_favourite_loss\n";
  const auto number = [](std::optional<double> value) {
    return value ? fmt::format("{}", *value) : std::string{};
  };
  for (const auto& [peer, own] : results)
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_cell(peer.name), csv_cell(peer.set),
                        csv_cell(peer.rows), number(peer.average_abs_error),
                        number(own.average_abs_error), number(peer.worst_abs_error),
                        number(own.worst_abs_error), number(peer.rank_correlation),
                        number(own.rank_correlation), number(own.favourite_loss));
  return text;
}

std::string peer_json(std::span<const PeerResult> results) {
  Json peers = Json::array();
  for (const PeerResult& result : results)
    peers.push_back(json_of(result));
  return Json{{"peers", std::move(peers)}}.dump(2) + "\n";
}

}  // namespace sim
