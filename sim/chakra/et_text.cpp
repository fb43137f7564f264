#include "sim/chakra/et_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"
#include "sim/timeline/breakdown.hpp"

namespace sim {
namespace {

constexpr std::size_t ranks_in_table = 16;

std::string share_of_step(Duration part, Duration step) {
  return step.count() == 0 ? "-"
                           : fmt::format("{:.1f}%", 100.0 * static_cast<double>(part.count()) /
                                                        static_cast<double>(step.count()));
}

// Kinds of communicators have no meaning here: those of one kind, size and bytes are one row.
std::string collective_row(const CollectiveSummary& of) {
  return fmt::format("{:<16} {:>6} {:>10.3f} {:>7} {:>12} {}", word(of.kind), of.ranks,
                     static_cast<double>(of.bytes.count()) / 1e6, of.count, precise(of.mean_time),
                     of.algorithm);
}

// The ranks that are shown: those that are alike stand once.
struct Alike {
  EtRankTimes times;
  std::size_t count = 0;
};
std::vector<Alike> alike_ranks(const std::vector<EtRankTimes>& ranks) {
  std::vector<Alike> classes;
  for (const EtRankTimes& rank : ranks) {
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const Alike& known) {
      return known.times.compute == rank.compute && known.times.exposed == rank.exposed;
    });
    if (same == classes.end())
      classes.push_back({rank, 1});
    else
      ++same->count;
  }
  return classes;
}

}  // namespace

EtReport report_of(const EtRun& run, const EtPlan& planned, const Simulation& simulated,
                   const std::string& cluster) {
  const Timeline& timeline = simulated.timeline;
  EtReport report{.name = run.name, .cluster = cluster, .step = timeline.end - TimePoint{}};
  report.world_size = run.world_size();
  for (const EtFile& file : run.ranks)
    report.nodes += file.nodes.size();
  const bool pipeline = planned.plan.layout.pipeline_parallel > 1;
  for (const RankTrack& track : timeline.tracks) {
    const Breakdown of =
        break_down(track, planned.plan.program(track.rank), timeline.end, pipeline);
    report.ranks.push_back({track.rank, of.compute, of.exposed(), of.bubble + of.host});
  }
  report.collectives = timeline.collectives;
  report.notes = planned.notes;
  return report;
}

std::string et_table(const EtReport& report) {
  std::string text = fmt::format("{}: {} ranks, {} nodes, on {}\n\nstep  {}\n\n", report.name,
                                 grouped(report.world_size), grouped(report.nodes), report.cluster,
                                 precise(report.step));
  text += fmt::format("{:<12} {:>6} {:>18} {:>18} {:>18}\n", "rank", "alike", "compute",
                      "exposed comm.", "waiting");
  std::size_t shown = 0;
  const std::vector<Alike> classes = alike_ranks(report.ranks);
  for (const Alike& rank : classes) {
    if (shown++ == ranks_in_table) {
      text += fmt::format("... and {} more; -o csv has all\n", classes.size() - ranks_in_table);
      break;
    }
    const auto cell = [&](Duration part) {
      return fmt::format("{} {:>6}", precise(part), share_of_step(part, report.step));
    };
    text +=
        fmt::format("{:<12} {:>6} {:>18} {:>18} {:>18}\n", rank.times.rank.value, rank.count,
                    cell(rank.times.compute), cell(rank.times.exposed), cell(rank.times.waiting));
  }
  if (!report.collectives.empty())
    text += fmt::format("\n{:<16} {:>6} {:>10} {:>7} {:>12} {}\n", "collective", "ranks", "MB",
                        "calls", "mean time", "algorithm");
  for (const CollectiveSummary& of : report.collectives)
    text += collective_row(of) + "\n";
  for (const std::string& note : report.notes)
    text += fmt::format("{}note: {}\n", &note == &report.notes.front() ? "\n" : "", note);
  return text;
}

std::string et_json(const EtReport& report) {
  nlohmann::ordered_json json;
  json["name"] = report.name;
  json["cluster"] = report.cluster;
  json["world_size"] = report.world_size;
  json["nodes"] = report.nodes;
  json["step_time_s"] = in_seconds(report.step);
  json["ranks"] = nlohmann::ordered_json::array();
  for (const EtRankTimes& rank : report.ranks)
    json["ranks"].push_back({{"rank", rank.rank.value},
                             {"compute_s", in_seconds(rank.compute)},
                             {"exposed_communication_s", in_seconds(rank.exposed)},
                             {"waiting_s", in_seconds(rank.waiting)}});
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveSummary& of : report.collectives)
    json["collectives"].push_back({{"kind", word(of.kind)},
                                   {"ranks", of.ranks},
                                   {"bytes", of.bytes.count()},
                                   {"calls", of.count},
                                   {"mean_time_s", in_seconds(of.mean_time)},
                                   {"algorithm", of.algorithm}});
  json["notes"] = report.notes;
  return json.dump(2) + "\n";
}

std::string et_csv(const EtReport& report) {
  std::string text = "rank,step_s,compute_s,exposed_communication_s,waiting_s\n";
  for (const EtRankTimes& rank : report.ranks)
    text +=
        fmt::format("{},{},{},{},{}\n", rank.rank.value, in_seconds(report.step),
                    in_seconds(rank.compute), in_seconds(rank.exposed), in_seconds(rank.waiting));
  return text;
}

std::string et_markdown(const EtReport& report) {
  std::string text = fmt::format(
      "{} on {}: {} ranks, step {}\n\n| ranks like | alike | compute | exposed "
      "communication | waiting |\n|--:|--:|--:|--:|--:|\n",
      markdown_field(report.name), markdown_field(report.cluster), report.world_size,
      precise(report.step));
  for (const Alike& rank : alike_ranks(report.ranks))
    text += fmt::format("| {} | {} | {} | {} | {} |\n", rank.times.rank.value, rank.count,
                        precise(rank.times.compute), precise(rank.times.exposed),
                        precise(rank.times.waiting));
  for (const std::string& note : report.notes)
    text += fmt::format("\n- {}", note);
  return text + "\n";
}

}  // namespace sim
