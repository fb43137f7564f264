// Broadcast and reduce in chunks along a chain (the ring of the communicator, cut before the root)
// or along the alternating binary tree, whose root has one child. Bytes sent by a rank: n per rank
// that it passes the data on to.
#include "real/net/lanes.hpp"

namespace real {
namespace {

struct Rooted {
  std::vector<TreePlace> lanes;
  int height = 0;
};

// Positions count from the root.
Rooted rooted_place(const Exchange& exchange, CollectiveAlgorithm algorithm) {
  const int p = exchange.ranks();
  const int at = (exchange.position - exchange.root + p) % p;
  TreePlace place;
  if (algorithm == CollectiveAlgorithm::tree) {
    place = binary_tree_place(p, at);
  } else {
    place.parent = at - 1;
    place.depth = at;
    if (at + 1 < p) place.children = {at + 1};
  }
  const auto from_root = [&](int position) { return (position + exchange.root) % p; };
  if (place.parent >= 0) place.parent = from_root(place.parent);
  for (int& child : place.children)
    child = from_root(child);
  const int height = algorithm == CollectiveAlgorithm::tree ? binary_tree_height(p) : p - 1;
  return {{place}, height};
}

}  // namespace

std::unique_ptr<Schedule> rooted_broadcast(const Exchange& exchange,
                                           CollectiveAlgorithm algorithm) {
  Rooted rooted = rooted_place(exchange, algorithm);
  return std::make_unique<LaneSchedule>(LaneSchedule::Setup{.exchange = exchange,
                                                            .lanes = std::move(rooted.lanes),
                                                            .height = rooted.height,
                                                            .down = true});
}

std::unique_ptr<Schedule> rooted_reduce(const Exchange& exchange, CollectiveAlgorithm algorithm) {
  Rooted rooted = rooted_place(exchange, algorithm);
  const bool is_root = exchange.position == exchange.root;
  return std::make_unique<LaneSchedule>(
      LaneSchedule::Setup{.exchange = exchange,
                          .lanes = std::move(rooted.lanes),
                          .height = rooted.height,
                          .up = true,
                          .sums = is_root ? exchange.own.data : nullptr});
}

}  // namespace real
