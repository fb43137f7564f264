#include "sim/timeline/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace sim {
namespace {

struct OperatorSum {
  OpKind kind = OpKind::gemm;
  double count = 0;  // per rank
  double time = 0;   // s per rank
};
using OperatorKey = std::tuple<std::string, Pass>;

constexpr std::size_t part_count = 8;  // of a Breakdown

// Sums over one record.
struct Sums {
  std::array<double, part_count> parts{};
  std::array<double, words_of(OpKind{}).size()> kinds{};  // time, and of communication below
  double tensor = 0, context = 0, expert = 0, data = 0, pipeline = 0, waiting = 0;
  double& of(GroupRole group) {
    if (group == GroupRole::tensor) return tensor;
    if (is_of_context(group)) return context;
    return is_within_layers(group) ? expert : data;
  }
  std::array<double, stream_count> streams{};
  std::map<OperatorKey, OperatorSum> operators;
  double least_compute = 0, mean_compute = 0, most_compute = 0;
  double least_end = 0, mean_end = 0, most_end = 0;
};

double communication_class(Sums& sums, const Program& program, std::uint32_t op, double time) {
  if (program.kind[op] == OpKind::collective)
    sums.of(program.collectives[program.work[op]].group) += time;
  else if (program.kind[op] == OpKind::send || program.kind[op] == OpKind::recv)
    sums.pipeline += time;
  return time;
}

void add_track(Sums& sums, const Record& record, const RecordedTrack& track, double weight) {
  const Program& program = record.programs[track.program];
  double compute = 0;
  TimePoint last{};
  for (const Span& span : track.spans) {
    const std::uint32_t op = span.op.value;
    const double time = to_seconds(span.end - span.active);
    const OpKind kind = program.kind[op];
    sums.kinds[static_cast<std::size_t>(kind)] += weight * time;
    sums.streams[static_cast<std::size_t>(program.stream[op])] += weight * time;
    sums.waiting += weight * to_seconds(span.active - span.begin);
    if (runs_kernel(kind))
      compute += time;
    else
      communication_class(sums, program, op, weight * time);
    OperatorSum& sum = sums.operators[{program.name(span.op), program.pass[op]}];
    sum.kind = kind;
    sum.count += weight;
    sum.time += weight * time;
    last = std::max(last, span.end);
  }
  const double end = to_seconds(last);
  const bool first = sums.most_end == 0 && sums.mean_end == 0;
  sums.least_compute = first ? compute : std::min(sums.least_compute, compute);
  sums.most_compute = std::max(sums.most_compute, compute);
  sums.mean_compute += weight * compute;
  sums.least_end = first ? end : std::min(sums.least_end, end);
  sums.most_end = std::max(sums.most_end, end);
  sums.mean_end += weight * end;
}

Sums sums_of(const Record& record) {
  Sums sums;
  double ranks = 0;
  for (const RecordedTrack& track : record.tracks)
    ranks += track.represents;
  for (const RecordedTrack& track : record.tracks) {
    const double weight = track.represents / ranks;
    add_track(sums, record, track, weight);
    const Breakdown parts = break_down({track.rank, track.represents, track.spans},
                                       record.programs[track.program], record.end, record.pipeline);
    const std::array<Duration, part_count> of{
        parts.compute,      parts.exposed_tensor,   parts.exposed_context, parts.exposed_expert,
        parts.exposed_data, parts.exposed_pipeline, parts.bubble,          parts.host};
    for (std::size_t i = 0; i < of.size(); ++i)
      sums.parts[i] += weight * to_seconds(of[i]);
  }
  return sums;
}

void add_parts(Comparison& to, const Sums& a, const Sums& b) {
  constexpr std::array names{"compute",
                             "exposed tensor communication",
                             "exposed context communication",
                             "exposed expert communication",
                             "exposed data communication",
                             "exposed pipeline communication",
                             "bubble",
                             "host and other idle"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (a.parts[i] > 0 || b.parts[i] > 0) to.parts.push_back({names[i], {a.parts[i], b.parts[i]}});
}

void add_work(Comparison& to, const Sums& a, const Sums& b) {
  const auto add = [&](std::string name, double in_a, double in_b) {
    if (in_a > 0 || in_b > 0) to.work.push_back({std::move(name), {in_a, in_b}});
  };
  for (const auto& kind : words_of(OpKind{}))
    if (runs_kernel(kind.value))
      add(std::string{kind.text}, a.kinds[static_cast<std::size_t>(kind.value)],
          b.kinds[static_cast<std::size_t>(kind.value)]);
  add("tensor communication", a.tensor, b.tensor);
  add("context communication", a.context, b.context);
  add("expert communication", a.expert, b.expert);
  add("data communication", a.data, b.data);
  add("pipeline communication", a.pipeline, b.pipeline);
  add("waiting for partners", a.waiting, b.waiting);
  for (const auto& stream : words_of(Stream{})) {
    const auto i = static_cast<std::size_t>(stream.value);
    if (a.streams[i] > 0 || b.streams[i] > 0)
      to.streams.push_back({std::string{stream.text}, {a.streams[i], b.streams[i]}});
  }
}

void add_rows(Comparison& to, const Sums& a, const Sums& b) {
  std::map<OperatorKey, std::pair<OperatorSum, OperatorSum>> both;
  for (const auto& [key, sum] : a.operators)
    both[key].first = sum;
  for (const auto& [key, sum] : b.operators)
    both[key].second = sum;
  double all = 0;
  for (const auto& [key, sums] : both) {
    const auto& [in_a, in_b] = sums;
    OperatorRow row;
    row.name = std::get<0>(key);
    row.pass = std::get<1>(key);
    row.kind = in_a.count > 0 ? in_a.kind : in_b.kind;
    row.count_a = in_a.count;
    row.count_b = in_b.count;
    row.total = {in_a.time, in_b.time};
    row.mean = {in_a.count > 0 ? in_a.time / in_a.count : 0,
                in_b.count > 0 ? in_b.time / in_b.count : 0};
    all += std::abs(row.total.difference());
    to.rows.push_back(std::move(row));
  }
  for (OperatorRow& row : to.rows)
    row.share = all > 0 ? std::abs(row.total.difference()) / all : 0;
  std::stable_sort(to.rows.begin(), to.rows.end(),
                   [](const OperatorRow& x, const OperatorRow& y) { return x.share > y.share; });
}

void add_note(Comparison& to, const char* side, const Record& record) {
  const RecordOrigin& origin = record.origin;
  std::string note = fmt::format("{}: {}, {} rank{}", side, record.engine, record.world_size,
                                 record.world_size == 1 ? "" : "s");
  if (!origin.machine.empty()) note += ", " + origin.machine;
  if (!origin.date.empty()) note += ", " + origin.date;
  if (origin.steps.size() > 1) {
    std::vector<Duration> steps = origin.steps;
    std::sort(steps.begin(), steps.end());
    note += fmt::format("; {} steps measured: median {:.3f} ms, {:.3f} to {:.3f} ms", steps.size(),
                        to_seconds(steps[steps.size() / 2]) * 1e3, to_seconds(steps.front()) * 1e3,
                        to_seconds(steps.back()) * 1e3);
  }
  to.notes.push_back(std::move(note));
}

}  // namespace

Comparison compare(const Record& a, const Record& b) {
  Comparison result;
  result.scenario_a = a.origin.scenario;
  result.scenario_b = b.origin.scenario;
  result.name_a = a.engine;
  result.name_b = b.engine;
  if (a.engine == b.engine && result.scenario_a != result.scenario_b) {
    result.name_a += " " + result.scenario_a;
    result.name_b += " " + result.scenario_b;
  }
  result.step = {to_seconds(a.end), to_seconds(b.end)};
  const Sums in_a = sums_of(a);
  const Sums in_b = sums_of(b);
  add_parts(result, in_a, in_b);
  add_work(result, in_a, in_b);
  add_rows(result, in_a, in_b);
  result.spread = {{"end of the last operator",
                    {in_a.least_end, in_b.least_end},
                    {in_a.mean_end, in_b.mean_end},
                    {in_a.most_end, in_b.most_end}},
                   {"kernels",
                    {in_a.least_compute, in_b.least_compute},
                    {in_a.mean_compute, in_b.mean_compute},
                    {in_a.most_compute, in_b.most_compute}}};
  add_note(result, "A", a);
  add_note(result, "B", b);
  result.sameness = same_work(a, b);
  return result;
}

}  // namespace sim
