#include "sim/topology/paths.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <boost/property_map/transform_value_property_map.hpp>
#include <functional>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace sim {
namespace {

struct ArcLabel {
  std::uint32_t index = 0;
  std::uint32_t weight = 1;
};
using BoostGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                         boost::no_property, ArcLabel>;

struct Usable {  // Boost wants filters to be default constructible
  const BoostGraph* graph = nullptr;
  const std::vector<bool>* mask = nullptr;
  bool operator()(const BoostGraph::edge_descriptor& edge) const {
    return (*mask)[(*graph)[edge].index];
  }
};

}  // namespace

struct PathGraph::Graph {
  BoostGraph boost;

  // The arcs that lead from `vertex` nearer to the target along a shortest path, by arc index.
  std::vector<std::pair<ArcLabel, std::uint32_t>> next(std::uint32_t vertex,
                                                       const Distances& to_target,
                                                       const std::vector<bool>& usable) const {
    std::vector<std::pair<ArcLabel, std::uint32_t>> found;
    for (const auto& edge : boost::make_iterator_range(boost::out_edges(vertex, boost))) {
      const ArcLabel& label = boost[edge];
      const auto head = static_cast<std::uint32_t>(boost::target(edge, boost));
      if (!usable[label.index] || to_target[head] == unreachable) continue;
      if (to_target[head] + label.weight == to_target[vertex]) found.emplace_back(label, head);
    }
    SIM_CHECK(!found.empty(), "vertex", vertex, "does not reach the target");
    return found;
  }
};

PathGraph::PathGraph(std::uint32_t vertices, std::span<const Arc> arcs)
    : graph_{std::make_unique<Graph>()} {
  graph_->boost = BoostGraph(vertices);
  for (std::uint32_t i = 0; i < arcs.size(); ++i) {
    SIM_CHECK(arcs[i].from < vertices && arcs[i].to < vertices && arcs[i].weight > 0, i);
    boost::add_edge(arcs[i].from, arcs[i].to, ArcLabel{i, arcs[i].weight}, graph_->boost);
  }
}
PathGraph::PathGraph(PathGraph&&) noexcept = default;
PathGraph& PathGraph::operator=(PathGraph&&) noexcept = default;
PathGraph::~PathGraph() = default;

PathGraph::Distances PathGraph::distances_to(std::uint32_t target,
                                             const std::vector<bool>& usable) const {
  const BoostGraph& graph = graph_->boost;
  Distances distances(boost::num_vertices(graph), unreachable);
  const auto forward = boost::make_filtered_graph(graph, Usable{&graph, &usable});
  const auto backward = boost::make_reverse_graph(forward);
  const auto weight = boost::make_transform_value_property_map(
      [](const ArcLabel& label) { return label.weight; }, boost::get(boost::edge_bundle, backward));
  const auto index = boost::get(boost::vertex_index, graph);
  // The visitor's marks in a vector of ours: clang's analyzer takes Boost's counted array, which
  // would hold them otherwise, for freed.
  std::vector<boost::default_color_type> marks(distances.size());
  boost::dijkstra_shortest_paths(
      backward, target, boost::dummy_property_map{},
      boost::make_iterator_property_map(distances.begin(), index), weight, index,
      std::less<std::uint32_t>{}, std::plus<std::uint32_t>{}, unreachable, std::uint32_t{0},
      boost::dijkstra_visitor<>{}, boost::make_iterator_property_map(marks.begin(), index));
  return distances;
}

std::vector<ArcShare> PathGraph::spread(std::uint32_t from, std::uint32_t target,
                                        const Distances& to_target,
                                        const std::vector<bool>& usable) const {
  std::vector<ArcShare> arcs;
  // Traffic that waits at a vertex, farthest from the target first: by then all of it has arrived.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t, std::greater<>> waiting;
  waiting[{to_target[from], from}] = whole_share;
  while (!waiting.empty()) {
    const auto [place, share] = *waiting.begin();
    waiting.erase(waiting.begin());
    const std::uint32_t vertex = place.second;
    if (vertex == target) continue;
    const auto next = graph_->next(vertex, to_target, usable);
    const auto ways = static_cast<std::uint32_t>(next.size());
    for (std::uint32_t i = 0; i < ways; ++i) {
      const std::uint32_t part = share / ways + (i < share % ways ? 1 : 0);
      if (part == 0) continue;  // more than 65536 ways: the rest rounds to nothing
      arcs.push_back({next[i].first.index, part});
      waiting[{to_target[next[i].second], next[i].second}] += part;
    }
  }
  return arcs;
}

std::vector<ArcShare> PathGraph::one_path(std::uint32_t from, std::uint32_t target,
                                          const Distances& to_target,
                                          const std::vector<bool>& usable,
                                          std::uint64_t hash) const {
  std::vector<ArcShare> arcs;
  for (std::uint32_t vertex = from; vertex != target;) {
    const auto next = graph_->next(vertex, to_target, usable);
    const auto& taken = next[hash_combine(hash, vertex) % next.size()];
    arcs.push_back({taken.first.index, whole_share});
    vertex = taken.second;
  }
  return arcs;
}

std::int64_t max_flow(std::uint32_t vertices, std::span<const Pipe> pipes, std::uint32_t from,
                      std::uint32_t to) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Edge {
    std::int64_t capacity = 0;
    std::int64_t residual = 0;
    Traits::edge_descriptor reverse;
  };
  using Network =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
  Network network(vertices);
  for (const Pipe& pipe : pipes) {
    SIM_CHECK(pipe.from < vertices && pipe.to < vertices && pipe.capacity >= 0);
    const auto forth = boost::add_edge(pipe.from, pipe.to, network).first;
    const auto back = boost::add_edge(pipe.to, pipe.from, network).first;
    network[forth].capacity = pipe.capacity;
    network[forth].reverse = back;
    network[back].reverse = forth;
  }
  return boost::push_relabel_max_flow(
      network, from, to,
      boost::capacity_map(boost::get(&Edge::capacity, network))
          .residual_capacity_map(boost::get(&Edge::residual, network))
          .reverse_edge_map(boost::get(&Edge::reverse, network))
          .vertex_index_map(boost::get(boost::vertex_index, network)));
}

}  // namespace sim
