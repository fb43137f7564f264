// Shortest paths in a directed graph of links, with all equally short ones: the search behind the
// node template and the fabric. The only part of the project that sees Boost.Graph.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace sim {

// Whole traffic of a message, as Hop::share counts it.
inline constexpr std::uint32_t whole_share = 65536;

struct Arc {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t weight = 1;  // length, for shortest paths
};

struct ArcShare {
  std::uint32_t arc = 0;    // index in the list of arcs
  std::uint32_t share = 0;  // of the traffic, in 1/65536
};

class PathGraph {
 public:
  static constexpr std::uint32_t unreachable = std::numeric_limits<std::uint32_t>::max();
  using Distances = std::vector<std::uint32_t>;  // by vertex

  PathGraph(std::uint32_t vertices, std::span<const Arc> arcs);
  PathGraph(PathGraph&&) noexcept;
  PathGraph& operator=(PathGraph&&) noexcept;
  ~PathGraph();

  // From every vertex to `target`, over the arcs that `usable` marks (by arc index).
  Distances distances_to(std::uint32_t target, const std::vector<bool>& usable) const;

  // The arcs of all shortest paths in order of travel. At each vertex the traffic splits evenly
  // over the arcs that lead on, as adaptive routing does; what integer division leaves over goes
  // one unit each to the first arcs, so that exactly `whole_share` arrives.
  // REQUIRES: to_target = distances_to(target, usable), from reaches target.
  std::vector<ArcShare> spread(std::uint32_t from, std::uint32_t target, const Distances& to_target,
                               const std::vector<bool>& usable) const;

  // One of them, chosen at each vertex by `hash`.
  std::vector<ArcShare> one_path(std::uint32_t from, std::uint32_t target,
                                 const Distances& to_target, const std::vector<bool>& usable,
                                 std::uint64_t hash) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

struct Pipe {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t capacity = 0;
};

// The most that can flow from one vertex to another at once.
std::int64_t max_flow(std::uint32_t vertices, std::span<const Pipe> pipes, std::uint32_t from,
                      std::uint32_t to);

}  // namespace sim
