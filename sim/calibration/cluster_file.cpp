#include "sim/calibration/cluster_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/calibration/statistics.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/config/yaml_text.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_cluster_file = std::size_t{16} << 20;  // as the reader of clusters

// A top-level section of a block-style YAML file: its key and its lines.
struct Section {
  std::string key;  // empty: comments and blank lines before the first
  std::string text;
};

// Top-level keys begin in the first column; all that follows up to the next belongs to one.
std::vector<Section> sections_of(const std::string& text) {
  std::vector<Section> sections{{}};
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string line = text.substr(begin, end - begin);
    const std::size_t colon = line.find(':');
    const bool starts = (line[0] >= 'a' && line[0] <= 'z') && colon != std::string::npos;
    if (starts) sections.push_back({line.substr(0, colon), ""});
    sections.back().text += line;
    begin = end;
  }
  return sections;
}

std::string curve_text(const MeasuredCurve& curve) {
  std::string text = fmt::format("  - collective: {}\n    ranks: {}\n    nodes: {}\n",
                                 curve.collective, curve.ranks, curve.nodes);
  if (!curve.algorithm.empty()) text += fmt::format("    algorithm: {}\n", curve.algorithm);
  text += fmt::format("    source: {}\n    points:\n", yaml_quoted(curve.source));
  for (const MeasuredPoint& point : curve.points)
    text += fmt::format("      - [{}, {}]\n", yaml_bytes(point.size), yaml_duration(point.time));
  return text;
}

std::string measured_section(const std::vector<MeasuredCurve>& curves) {
  if (curves.empty()) return {};
  std::string text = "measured:\n";
  for (const MeasuredCurve& curve : curves)
    text += curve_text(curve);
  return text;
}

std::string sources_text(const std::vector<std::string>& sources) {
  std::string text = "sources:\n";
  for (const std::string& source : sources)
    text += fmt::format("  - {}\n", yaml_quoted(source));
  return text;
}

auto key_of(const MeasuredCurve& curve) {
  return std::tie(curve.collective, curve.ranks, curve.nodes, curve.algorithm);
}

// `reference` of the base file, as a file in `folder` must name it.
std::string moved_reference(const std::string& base_path, const std::string& reference,
                            const std::string& folder) {
  const fs::path target = fs::absolute(fs::path{base_path}).parent_path() / reference;
  return target.lexically_normal()
      .lexically_relative(fs::absolute(fs::path{folder.empty() ? "." : folder}).lexically_normal())
      .generic_string();
}

// The node section, its `file` (imported nodes) as the new folder sees it.
std::string moved_node(std::string text, const std::string& base_path, const std::string& folder) {
  const std::size_t key = text.find("\n  file:");
  if (key == std::string::npos) return text;
  const std::size_t begin = key + 8;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  std::string value = text.substr(begin, end - begin);
  value = value.substr(0, value.find(" #"));
  const auto strip = [&](char c) { return c == ' ' || c == '"' || c == '\'' || c == '\r'; };
  while (!value.empty() && strip(value.back()))
    value.pop_back();
  while (!value.empty() && strip(value.front()))
    value.erase(0, 1);
  return text.replace(begin, end - begin,
                      ' ' + yaml_quoted(moved_reference(base_path, value, folder)));
}

// Messages one after another, and bytes that each rank sends, of the algorithms that a group
// without a library's choice uses: ring steps (sim/collective/ring.cpp); a message for
// send_receive.
struct RingWork {
  double steps = 0, bytes = 0;
};
std::optional<RingWork> ring_work(const MeasuredCollective& point) {
  const double p = point.ranks;
  const auto size = static_cast<double>(point.bytes.count());
  if (!point.algorithm.empty() && point.algorithm != "ring") return std::nullopt;
  if (point.collective == "all_reduce") return RingWork{2 * (p - 1), 2 * (p - 1) / p * size};
  if (point.collective == "reduce_scatter" || point.collective == "all_gather")
    return RingWork{p - 1, (p - 1) / p * size};
  if (point.collective == "send_receive") return RingWork{1, size};
  return std::nullopt;
}

}  // namespace

std::vector<MeasuredCurve> measured_curves(const std::vector<MeasuredCollective>& points) {
  using Key = std::tuple<std::string, int, int, std::string>;
  std::map<Key, std::map<std::int64_t, std::vector<double>>> times;
  std::map<Key, std::string> sources;
  for (const MeasuredCollective& point : points) {
    if (point.ranks < 2 || point.nodes < 1 || point.bytes <= Bytes{} || point.time <= Duration{})
      continue;  // a curve is drawn over the logarithms of both
    const Key key{point.collective, point.ranks, point.nodes, point.algorithm};
    times[key][point.bytes.count()].push_back(to_seconds(point.time));
    std::string& source = sources[key];
    if (!point.source.empty() && source.find(point.source) == std::string::npos)
      source += (source.empty() ? "" : "; ") + point.source;
  }
  std::vector<MeasuredCurve> curves;
  for (const auto& [key, of_size] : times) {
    MeasuredCurve curve{.collective = std::get<0>(key),
                        .ranks = std::get<1>(key),
                        .nodes = std::get<2>(key),
                        .algorithm = std::get<3>(key),
                        .source = sources[key],
                        .points = {}};
    for (const auto& [size, of_it] : of_size)
      curve.points.push_back({Bytes{size}, duration_from_seconds(median_of(of_it))});
    curves.push_back(std::move(curve));
  }
  return curves;
}

void require_routes(const Cluster& cluster, const std::vector<MeasuredCurve>& curves,
                    const std::string& where) {
  const std::int64_t per_node = cluster.gpus_per_node();
  const bool network = !cluster.data().pools.front().node.nics.empty() &&
                       cluster.data().fabric.kind != FabricKind::none;
  std::vector<std::string> misfits;
  for (const MeasuredCurve& curve : curves) {
    std::string why;
    if (curve.ranks > curve.nodes * per_node)
      why = fmt::format("needs {} nodes or more", divide_up(curve.ranks, per_node));
    else if (curve.nodes > 1 && !network)
      why = "the cluster has no network between nodes";
    if (!why.empty())
      misfits.push_back(fmt::format("{} of {} ranks on {} node{}: {} ({})", curve.collective,
                                    curve.ranks, curve.nodes, curve.nodes == 1 ? "" : "s", why,
                                    curve.source));
  }
  if (misfits.empty()) return;
  throw InputError(
      SourcePosition{.file = where},
      fmt::format("{} of {} curves fit{} no route of {} ({} GPUs per node): {}; give the --cluster "
                  "that was measured, its --nodes, or leave the log out",
                  misfits.size(), curves.size(), misfits.size() == 1 ? "s" : "", cluster.name(),
                  per_node, fmt::join(misfits, "; ")));
}

std::string other_device(const Cluster& cluster, const std::string& of_log) {
  static constexpr std::array<std::string_view, 23> models{
      "V100", "A100",   "A800",   "H100",   "H800",   "H200",     "H20",     "B200",
      "B300", "GH200",  "P100",   "A10G",   "L40S",   "L4",       "A40",     "T4",
      "K80",  "MI300X", "MI250X", "MI325X", "MI355X", "RTX 4090", "RTX 5090"};
  const auto model_of = [&](std::string_view text) {
    std::string_view found;
    for (const std::string_view model : models)
      if (text.find(model) != std::string_view::npos && model.size() > found.size()) found = model;
    return found;
  };
  const std::string_view log = model_of(of_log), own = model_of(cluster.device().name);
  if (log.empty() || own.empty() || log == own) return {};
  return fmt::format("the log's GPUs are \"{}\", those of {} are {}", of_log, cluster.name(),
                     cluster.device().name);
}

// For each point T = steps alpha + bytes beta, weighted by 1/T: linear least squares of the
// relative error, repeated with Huber's weights (limit 10%), both parameters kept above zero.
LinkFit fit_links(const std::vector<MeasuredCollective>& points) {
  struct Equation {
    double steps, bytes, time;
  };
  std::vector<Equation> equations;
  for (const MeasuredCollective& point : points)
    if (const auto work = ring_work(point); work && point.time > Duration{} && point.ranks > 1)
      equations.push_back({work->steps, work->bytes, to_seconds(point.time)});
  LinkFit fit{.points = static_cast<int>(equations.size())};
  if (equations.size() < 2) return fit;
  constexpr double limit = 0.1, least_alpha = 1e-9, least_beta = 1e-13;
  double alpha = 0, beta = 0;
  const auto miss = [&](const Equation& e) {
    return (e.steps * alpha + e.bytes * beta) / e.time - 1;
  };
  for (int round = 0; round < 50; ++round) {
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
    for (const Equation& e : equations) {
      const double error = std::abs(miss(e));
      const double weight = round == 0 || error <= limit ? 1 : limit / error;
      const double x = e.steps / e.time, y = e.bytes / e.time;
      aa += weight * x * x, ab += weight * x * y, bb += weight * y * y;
      a1 += weight * x, b1 += weight * y;
    }
    const double determinant = aa * bb - ab * ab;
    // One size only: all of the time is the bytes'.
    const bool singular = !(determinant > 1e-12 * aa * bb);
    alpha = singular ? least_alpha : (a1 * bb - b1 * ab) / determinant;
    beta = singular ? b1 / bb : (b1 * aa - a1 * ab) / determinant;
    if (alpha < least_alpha) alpha = least_alpha, beta = (b1 - alpha * ab) / bb;
    if (beta < least_beta) beta = least_beta, alpha = std::max(least_alpha, (a1 - beta * ab) / aa);
  }
  std::vector<double> misses;
  misses.reserve(equations.size());
  for (const Equation& e : equations)
    misses.push_back(std::abs(miss(e)));
  fit.latency = duration_from_seconds(alpha);
  fit.bandwidth = Bandwidth::bytes_per_second(1 / beta);
  fit.median = median_of(misses);
  fit.p90 = quantile_of(misses, 0.9);
  fit.worst = quantile_of(misses, 1);
  return fit;
}

std::string cluster_yaml(const std::string& base_path, const ClusterFile& file,
                         const std::string& folder) {
  const Cluster base = Cluster::load(base_path);
  std::vector<MeasuredCurve> curves = file.curves;
  for (const MeasuredCurve& curve : base.measured())
    if (std::none_of(curves.begin(), curves.end(),
                     [&](const MeasuredCurve& own) { return key_of(own) == key_of(curve); }))
      curves.push_back(curve);
  std::string text = fmt::format("# Written by `stepcast calibrate` from {}.\nname: {}\n",
                                 yaml_quoted(base_path), yaml_quoted(file.name));
  // The reader takes the notes of the node's file from that file again: here they are comments, no
  // source of this file.
  const std::vector<std::string>& told = base.data().node_notes;
  for (std::string note : told) {
    std::replace_if(
        note.begin(), note.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
    text += "# " + note + '\n';
  }
  bool device = false;
  for (const Section& section : sections_of(load_text(base_path, largest_cluster_file))) {
    if (section.key == "device" && file.device.empty()) {
      std::string value = section.text.substr(section.text.find(':') + 1);
      value = value.substr(0, value.find(" #"));
      value.erase(
          std::remove_if(
              value.begin(), value.end(),
              [](char c) { return c == '"' || c == '\'' || c == '\n' || c == '\r' || c == ' '; }),
          value.end());
      text += fmt::format("device: {}\n", yaml_quoted(moved_reference(base_path, value, folder)));
      device = true;
    } else if (section.key == "node") {
      text += moved_node(section.text, base_path, folder);
    } else if (section.key == "nodes" || section.key == "fabric" || section.key == "network") {
      text += section.text;
    }
    if (!text.ends_with('\n')) text += '\n';
  }
  if (!device) text += fmt::format("device: {}\n", yaml_quoted(file.device));
  text += measured_section(curves);
  std::vector<std::string> sources = file.sources;
  sources.insert(sources.end(), base.sources().begin(),
                 base.sources().end() - static_cast<std::ptrdiff_t>(told.size()));
  return text + sources_text(sources);
}

std::string host_cluster_yaml(const ClusterFile& file, int ranks, const LinkFit& links,
                              const std::string& cpu_vendor) {
  std::string text = "# Written by `stepcast calibrate`: one host, a rank per core.\n";
  text += fmt::format(
      "# Messages: {} points, off by {:.1f}% (median), {:.1f}% (p90), {:.1f}% "
      "(worst).\n",
      links.points, links.median * 100, links.p90 * 100, links.worst * 100);
  text += fmt::format("name: {}\ndevice: {}\nnodes: 1\n", yaml_quoted(file.name),
                      yaml_quoted(file.device));
  // From core to core are two links: into the memory and out of it.
  const Duration half{std::max<std::int64_t>(1, links.latency.count() / 2)};
  const Bandwidth bandwidth = links.points > 1 ? links.bandwidth : Bandwidth::bytes_per_second(1e9);
  text += fmt::format(
      "node:\n  kind: shared_memory\n  gpus: {}\n  memory: {{bandwidth: {}, latency: {}}}\n", ranks,
      yaml_bandwidth(bandwidth), yaml_duration(half));
  text += fmt::format("fabric: {{kind: none}}\nnetwork: {{cpu_vendor: {}, overhead: 0 us}}\n",
                      cpu_vendor);
  return text + measured_section(file.curves) + sources_text(file.sources);
}

}  // namespace sim
