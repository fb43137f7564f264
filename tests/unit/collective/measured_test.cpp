#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

const MeasuredCurve& node_curve(const Cluster& cluster) {
  for (const MeasuredCurve& curve : cluster.measured())
    if (curve.collective == "all_reduce" && curve.ranks == 8 && curve.nodes == 1) return curve;
  throw std::logic_error("the H100 cluster has lost its all-reduce curve");
}

}  // namespace

TEST_CASE("a measured curve holds at its points, between them and beyond them", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  const MeasuredCurve& curve = node_curve(cluster);
  const GroupShape shape = group_shape(cluster, block(cluster, 1, 8));
  const auto time = [&](double bytes, bool measured) {
    return seconds(collective_cost(cluster, shape,
                                   {.bytes = Bytes{static_cast<std::int64_t>(bytes)}},
                                   {.use_measured = measured}));
  };
  for (const MeasuredPoint& point : curve.points)
    CHECK_THAT(time(static_cast<double>(point.size.count()), true),
               WithinRel(to_seconds(point.time), 1e-9));
  // Half-way between two points on both logarithmic scales.
  const auto& a = curve.points[curve.points.size() - 2];
  const auto& b = curve.points.back();
  const double size =
      std::sqrt(static_cast<double>(a.size.count()) * static_cast<double>(b.size.count()));
  CHECK_THAT(time(size, true), WithinRel(std::sqrt(to_seconds(a.time) * to_seconds(b.time)), 1e-6));
  // Beyond the last point the formula, scaled to meet it.
  const auto last = static_cast<double>(b.size.count());
  CHECK_THAT(time(4 * last, true),
             WithinRel(to_seconds(b.time) * time(4 * last, false) / time(last, false), 1e-9));
}

TEST_CASE("a curve serves its own collective, ranks and nodes only, and auto only",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const auto measured = [&](int nodes, int per_node, CollectiveKind kind, Algorithm algorithm) {
    return collective_cost(cluster, group_shape(cluster, block(cluster, nodes, per_node)),
                           {.kind = kind, .bytes = 1_GiB}, {.algorithm = algorithm})
        .measured;
  };
  CHECK(measured(1, 8, CollectiveKind::all_reduce, Algorithm::automatic));
  CHECK_FALSE(measured(1, 4, CollectiveKind::all_reduce, Algorithm::automatic));
  CHECK_FALSE(measured(1, 8, CollectiveKind::broadcast, Algorithm::automatic));
  CHECK_FALSE(measured(1, 8, CollectiveKind::all_reduce, Algorithm::ring));
}

TEST_CASE("the formulas follow the measured curves that clusters carry", "[collective]") {
  // Median absolute error of the formulas, in per cent, from 1 MiB on, with a tenth to spare over
  // what README.md reports: a change of the model that loosens one shows here.
  struct Bound {
    const char* cluster;
    const char* collective;
    int nodes;
    double percent;
  };
  for (const Bound& bound : {Bound{"dgx-h100", "all_reduce", 1, 5},
                             {"dgx-h100", "all_gather", 1, 7},
                             {"dgx-h100", "reduce_scatter", 1, 7},
                             {"dgx-h100", "all_to_all", 1, 16},
                             {"dgx-a100-80", "all_reduce", 1, 27}}) {
    const Cluster cluster = load(bound.cluster, 4);
    std::vector<double> errors;
    for (const MeasuredCurve& curve : cluster.measured()) {
      if (curve.collective != bound.collective || curve.nodes != bound.nodes) continue;
      const GroupShape shape =
          group_shape(cluster, block(cluster, curve.nodes, curve.ranks / curve.nodes));
      const auto kind = from_word<CollectiveKind>(curve.collective);
      REQUIRE(kind.has_value());
      for (const MeasuredPoint& point : curve.points) {
        if (point.size < 1_MiB) continue;
        const CollectiveCost cost = collective_cost(
            cluster, shape, {.kind = *kind, .bytes = point.size}, {.use_measured = false});
        errors.push_back(100 * std::fabs(seconds(cost) / to_seconds(point.time) - 1));
      }
    }
    CAPTURE(bound.cluster, bound.collective, bound.nodes);
    REQUIRE_FALSE(errors.empty());
    std::sort(errors.begin(), errors.end());
    CHECK(errors[errors.size() / 2] < bound.percent);
  }
}
