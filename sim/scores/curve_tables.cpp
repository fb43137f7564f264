// Curves as a table, Markdown, CSV and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/scores/cell_text.hpp"
#include "sim/scores/curves.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

std::string stem(const std::string& cluster) {
  const std::size_t begin = cluster.rfind('/') + 1;
  return cluster.substr(begin, cluster.rfind('.') - begin);
}

// Markdown cells end at a bar.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  return text;
}

// Curves within the goals of validation/CURVES.md: 12% over all sizes, 5% above 64 MiB.
struct Within {
  int all = 0, all_good = 0, large = 0, large_good = 0;

  void add(const CurveResult& result) {
    if (result.median_abs_error) {
      ++all;
      all_good += *result.median_abs_error <= 0.12 ? 1 : 0;
    }
    if (result.median_large_abs_error) {
      ++large;
      large_good += *result.median_large_abs_error <= 0.05 ? 1 : 0;
    }
  }
};

std::string summary(std::span<const CurveResult> results) {
  Within every, held_out;
  int skipped = 0;
  for (const CurveResult& result : results) {
    skipped += result.skipped.empty() ? 0 : 1;
    every.add(result);
    if (result.curve.use == "score") held_out.add(result);
  }
  std::string text = fmt::format(
      "{} curves, {} skipped; median error at most 12% from 1 KiB: {} of {}; at most 5% above 64 "
      "MiB: {} of {}\n",
      results.size(), skipped, every.all_good, every.all, every.large_good, every.large);
  if (held_out.all > 0 && held_out.all < every.all)
    text += fmt::format("curves that nothing was fitted on: {} of {}; {} of {}\n",
                        held_out.all_good, held_out.all, held_out.large_good, held_out.large);
  return text;
}

Json json_of(const CurveResult& result) {
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  Json points = Json::array();
  for (const CurvePoint& point : result.curve.points) {
    Json entry = {{"size_bytes", point.size.count()}, {"measured_s", to_seconds(point.measured)}};
    if (result.skipped.empty()) entry["predicted_s"] = to_seconds(point.predicted);
    points.push_back(std::move(entry));
  }
  Json curve = {{"run_id", result.curve.id},
                {"op", result.curve.op},
                {"gpu", result.curve.gpu},
                {"nodes", result.curve.nodes},
                {"gpus", result.curve.gpus},
                {"use", result.curve.use.empty() ? Json() : Json(result.curve.use)},
                {"cluster", result.cluster.empty() ? Json() : Json(result.cluster)},
                {"scored_points", result.points},
                {"median_abs_error", number(result.median_abs_error)},
                {"large_points", result.large_points},
                {"median_large_abs_error", number(result.median_large_abs_error)},
                {"points", std::move(points)}};
  if (!result.skipped.empty()) curve["skipped"] = result.skipped;
  return curve;
}

}  // namespace

std::string curve_table(std::span<const CurveResult> results) {
  std::string text = fmt::format("{:<34}{:<16}{:>6}{:>6}  {:<18}{:>8}{:>9}{:>10}\n", "curve", "op",
                                 "nodes", "GPUs", "cluster", "points", "median", "> 64 MiB");
  for (const CurveResult& result : results) {
    text += fmt::format("{:<34}{:<16}{:>6}{:>6}  {:<18}{:>8}{:>9}{:>10}\n", result.curve.id,
                        result.curve.op, result.curve.nodes, result.curve.gpus,
                        result.cluster.empty() ? "-" : stem(result.cluster), result.points,
                        percent_text(result.median_abs_error),
                        percent_text(result.median_large_abs_error));
    if (!result.skipped.empty()) text += fmt::format("  skipped: {}\n", result.skipped);
  }
  return text + summary(results);
}

std::string curve_markdown(std::span<const CurveResult> results) {
  std::string text =
      "| curve | op | nodes | GPUs | cluster | points | median | above 64 MiB |\n"
      "|---|---|--:|--:|---|--:|--:|--:|\n";
  for (const CurveResult& result : results) {
    const std::string cluster =
        result.skipped.empty() ? stem(result.cluster) : "skipped: " + result.skipped;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", cell(result.curve.id),
                        cell(result.curve.op), result.curve.nodes, result.curve.gpus, cell(cluster),
                        result.points, percent_text(result.median_abs_error),
                        percent_text(result.median_large_abs_error));
  }
  return text + "\n" + summary(results);
}

std::string curve_csv(std::span<const CurveResult> results) {
  std::string text = "run_id,op,cluster,size_bytes,measured_s,predicted_s,error,skipped\n";
  for (const CurveResult& result : results) {
    for (const CurvePoint& point : result.curve.points) {
      text +=
          fmt::format("{},{},{},{},{:.9g},", csv_cell(result.curve.id), csv_cell(result.curve.op),
                      csv_cell(result.cluster), point.size.count(), to_seconds(point.measured));
      if (result.skipped.empty() && point.measured > Duration{})
        text += fmt::format("{:.9g},{:.6g},\n", to_seconds(point.predicted), point.error());
      else
        text += fmt::format(",,{}\n", csv_cell(result.skipped));
    }
  }
  return text;
}

std::string curve_json(std::span<const CurveResult> results) {
  Json curves = Json::array();
  for (const CurveResult& result : results)
    curves.push_back(json_of(result));
  return Json{{"curves", std::move(curves)}}.dump(2) + "\n";
}

}  // namespace sim
