// Curves of collectives as they stand in two tables.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/config/scalars.hpp"
#include "sim/scores/curves.hpp"

namespace sim {
namespace {

constexpr std::array<std::string_view, 18> point_columns{
    "run_id",    "op",          "gpu",         "nodes",
    "gpus",      "dtype",       "size_bytes",  "time_us",
    "algbw_gbs", "busbw_gbs",   "n_samples",   "time_us_inplace",
    "fabric",    "time_us_min", "time_us_max", "busbw_gbs_inplace",
    "source",    "nccl_version"};
constexpr std::array<std::string_view, 3> point_required{"run_id", "size_bytes", "time_us"};
constexpr std::array<std::string_view, 21> index_columns{"run_id",
                                                         "gpu",
                                                         "nodes",
                                                         "gpus",
                                                         "op",
                                                         "rows",
                                                         "size_min",
                                                         "size_max",
                                                         "t_smallest_us",
                                                         "peak_busbw_gbs",
                                                         "half_peak_size",
                                                         "nics_per_node",
                                                         "nic_gbps",
                                                         "nccl_version",
                                                         "fabric",
                                                         "transcription",
                                                         "quality",
                                                         "suggested_use",
                                                         "notes",
                                                         "source",
                                                         "use"};
constexpr std::array<std::string_view, 8> index_required{
    "run_id", "gpu", "nodes", "gpus", "op", "nics_per_node", "nic_gbps", "fabric"};

class Problems {
 public:
  explicit Problems(const CsvTable& table) : table_{table} {}

  void report(const CsvField& field, std::string what) {
    if (problems_.size() < most_table_problems)
      problems_.push_back(
          {SourcePosition{table_.name(), field.line, field.column}, std::move(what), {}});
  }
  std::int64_t whole(std::size_t record, std::string_view column, std::int64_t least,
                     std::int64_t most) {
    const CsvField& field = table_.field(record, column);
    const auto parsed = parse_integer(field.text, false);
    const auto* value = std::get_if<std::int64_t>(&parsed);
    if (value && *value >= least && *value <= most) return *value;
    report(field, fmt::format("{} is '{}'; allowed: a whole number from {} to {}", column,
                              field.text, least, most));
    return least;
  }
  double real(const CsvField& field, std::string_view column) {
    const auto parsed = parse_real(field.text);
    const auto* value = std::get_if<double>(&parsed);
    if (value && *value >= 0 && *value <= 1e12) return *value;
    report(field, fmt::format("{} is '{}'; allowed: a number from 0 to 1e12", column, field.text));
    return 0;
  }
  void finish() const {
    if (!problems_.empty()) throw InputError{problems_};
  }

 private:
  const CsvTable& table_;
  std::vector<Problem> problems_;
};

// "8", "4-8" (a range: its upper end), or empty.
int nics_of(std::string_view text) {
  const std::size_t dash = text.rfind('-');
  if (dash != std::string_view::npos) text.remove_prefix(dash + 1);
  const auto parsed = parse_integer(text, false);
  const auto* value = std::get_if<std::int64_t>(&parsed);
  return value && *value >= 0 && *value <= 4096 ? static_cast<int>(*value) : 0;
}

std::vector<Curve> read_index(const CsvTable& index) {
  index.check_columns(index_columns, index_required);
  Problems problems{index};
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < index.records().size(); ++i) {
    Curve curve;
    curve.id = index.field(i, "run_id").text;
    const auto same = [&](const Curve& other) { return other.id == curve.id; };
    if (curve.id.empty())
      problems.report(index.records()[i].front(), "run_id is empty");
    else if (std::any_of(curves.begin(), curves.end(), same))
      problems.report(index.field(i, "run_id"),
                      fmt::format("a line above has the run_id '{}' too", curve.id));
    curve.op = index.field(i, "op").text;
    curve.gpu = index.field(i, "gpu").text;
    curve.fabric = index.field(i, "fabric").text;
    curve.version = index.field(i, "nccl_version").text;
    curve.notes = index.field(i, "notes").text;
    curve.use = index.field(i, "use").text;
    if (!curve.use.empty() && curve.use != "fit" && curve.use != "score")
      problems.report(index.field(i, "use"),
                      fmt::format("use is '{}'; allowed: fit, score", curve.use));
    curve.nodes = static_cast<int>(problems.whole(i, "nodes", 1, 1 << 17));
    curve.gpus = static_cast<int>(problems.whole(i, "gpus", 1, 1 << 20));
    curve.nics = nics_of(index.field(i, "nics_per_node").text);
    const CsvField& rate = index.field(i, "nic_gbps");
    if (!rate.text.empty()) curve.nic_gbps = problems.real(rate, "nic_gbps");
    curves.push_back(std::move(curve));
  }
  problems.finish();
  return curves;
}

}  // namespace

std::vector<Curve> read_curves(const CsvTable& points, const CsvTable& index) {
  std::vector<Curve> curves = read_index(index);
  points.check_columns(point_columns, point_required);
  std::map<std::string, std::size_t, std::less<>> place;
  for (std::size_t i = 0; i < curves.size(); ++i)
    place.emplace(curves[i].id, i);
  Problems problems{points};
  for (std::size_t i = 0; i < points.records().size(); ++i) {
    const CsvField& run = points.field(i, "run_id");
    const auto found = place.find(run.text);
    if (found == place.end()) {
      problems.report(run, fmt::format("the index has no run_id '{}'", run.text));
      continue;
    }
    const std::int64_t size = problems.whole(i, "size_bytes", 0, std::int64_t{1} << 50);
    double time = problems.real(points.field(i, "time_us"), "time_us");
    const CsvField& in_place = points.field(i, "time_us_inplace");
    if (!in_place.text.empty()) time = std::min(time, problems.real(in_place, "time_us_inplace"));
    if (size > 0 && (!(time > 0) || time > 1e12))
      problems.report(points.field(i, "time_us"), "a time must be more than 0");
    curves[found->second].points.push_back(
        {.size = Bytes{size}, .measured = duration_from_seconds(time * 1e-6), .predicted = {}});
  }
  problems.finish();
  for (const Curve& curve : curves)
    if (curve.points.empty())
      throw InputError{SourcePosition{points.name(), 0, 0},
                       fmt::format("has no points of the run_id '{}'", curve.id)};
  return curves;
}

}  // namespace sim
