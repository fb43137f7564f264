// Hierarchical all-reduce (Jia et al. 2018): reduce-scatter inside the node, then each of the g
// parts in a ring across the nodes over its rail, then all-gather inside the node. Bytes sent by a
// rank:
//   2 (g-1)/g n inside, 2 (N-1)/N n/g across
#include "real/net/rounds.hpp"

namespace real {
namespace {

class HierarchicalAllReduce : public Schedule {
 public:
  explicit HierarchicalAllReduce(const Exchange& exchange)
      : rail_members_{rail(exchange)},
        inside_{exchange.members.subspan(
                    static_cast<std::size_t>(node(exchange) * exchange.members_per_node),
                    static_cast<std::size_t>(exchange.members_per_node)),
                exchange.position % exchange.members_per_node},
        across_{rail_members_, node(exchange)},
        buffer_{exchange.buffer},
        // share_ is what the reduce-scatter leaves here.
        share_{buffer_.part(inside_.ranks(), inside_.part(1))} {}

  int rounds() const override { return 2 * (inside_.steps() + across_.steps()); }

  void fill(int round, Round& out) override {
    // The sums are final after the last reduction, inside or across.
    if (round == inside_.steps() + across_.steps() - 1)
      out.complete.push_back(final_sums().bytes());
    if (round < inside_.steps()) return inside_.reduce_scatter(round, buffer_, out);
    round -= inside_.steps();
    if (round < across_.steps()) return across_.reduce_scatter(round, share_, out);
    round -= across_.steps();
    if (round < across_.steps()) return across_.all_gather(round, 1, share_, out);
    inside_.all_gather(round - across_.steps(), 1, buffer_, out);
  }

 private:
  static int node(const Exchange& exchange) {
    return exchange.position / exchange.members_per_node;
  }
  static std::vector<int> rail(const Exchange& exchange) {
    std::vector<int> members;
    for (int at = exchange.position % exchange.members_per_node; at < exchange.ranks();
         at += exchange.members_per_node)
      members.push_back(exchange.member(at));
    return members;
  }
  Elements final_sums() const {
    return across_.ranks() == 1 ? share_ : share_.part(across_.ranks(), across_.part(1));
  }

  std::vector<int> rail_members_;
  Ring inside_, across_;
  Elements buffer_, share_;
};

}  // namespace

std::unique_ptr<Schedule> hierarchical_all_reduce(const Exchange& exchange) {
  return std::make_unique<HierarchicalAllReduce>(exchange);
}

}  // namespace real
