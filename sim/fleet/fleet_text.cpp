#include <fmt/format.h>

#include "sim/base/table_text.hpp"
#include "sim/fleet/fleet.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

std::string times(double factor) {
  return fmt::format("{:.3f}", factor);
}

// "1.124 (1.098 to 1.171)".
std::string spread_text(const Slowdown& slowdown) {
  return fmt::format("{} ({} to {})", times(slowdown.median()), times(slowdown.least()),
                     times(slowdown.most()));
}

TextGrid job_grid(const FleetForecast& forecast) {
  TextGrid grid{.columns = {{"job", "job"},
                            {"GPUs", "gpus"},
                            {"nodes", "nodes"},
                            {"step alone", "alone_s"},
                            {"beside the others", "slowdown_median"}},
                .rows = {}};
  for (const JobImpact& job : forecast.jobs)
    grid.rows.push_back({job.name,
                         grouped(job.gpus),
                         grouped(job.nodes),
                         {precise(job.alone), fmt::format("{}", in_seconds(job.alone))},
                         {"x " + spread_text(job.beside_all), times(job.beside_all.median())}});
  return grid;
}

std::string link_text(const SharedLink& link) {
  const std::string alike = link.alike > 1 ? fmt::format(" and {} alike", link.alike - 1) : "";
  return fmt::format("{}{}, in use for {:.0f} and {:.0f} % of their steps alone", link.name, alike,
                     100 * link.first_busy, 100 * link.second_busy);
}

TextGrid pair_grid(const FleetForecast& forecast) {
  TextGrid grid{.columns = {{"job", "job"}, {"beside", "beside"}, {"step", "slowdown_median"}},
                .rows = {}};
  for (const JobPair& pair : forecast.pairs) {
    const std::string& first = forecast.jobs[pair.first].name;
    const std::string& second = forecast.jobs[pair.second].name;
    grid.rows.push_back({first, second, "x " + spread_text(pair.of_first)});
    grid.rows.push_back({second, first, "x " + spread_text(pair.of_second)});
  }
  return grid;
}

// A line for each pair.
std::string links_text(const FleetForecast& forecast, const char* bullet) {
  std::string text;
  for (const JobPair& pair : forecast.pairs) {
    text += fmt::format("{}{} and {}: ", bullet, forecast.jobs[pair.first].name,
                        forecast.jobs[pair.second].name);
    text += pair.links.empty() ? "no link between switches" : link_text(pair.links.front());
    text += '\n';
  }
  return text;
}

// The job that loses most, and to whom.
std::string sentence(const FleetForecast& forecast) {
  const JobPair* worst = nullptr;
  bool is_first = true;
  double most = 1.001;
  for (const JobPair& pair : forecast.pairs)
    for (const bool first : {true, false}) {
      const double slowdown = (first ? pair.of_first : pair.of_second).median();
      if (slowdown <= most) continue;
      most = slowdown;
      worst = &pair;
      is_first = first;
    }
  if (worst == nullptr) return "No job makes a step of another longer by more than 0.1 %.";
  const std::string& hurt = forecast.jobs[is_first ? worst->first : worst->second].name;
  const std::string& by = forecast.jobs[is_first ? worst->second : worst->first].name;
  std::string text = fmt::format("{} loses most: beside {} its step takes {} times as long", hurt,
                                 by, times(most));
  if (!worst->links.empty()) text += ". Both use " + link_text(worst->links.front());
  return text + ".";
}

std::string head(const FleetForecast& forecast) {
  return fmt::format("{}: {} jobs on {}, {} drawn phases (seed {})", forecast.name,
                     forecast.jobs.size(), forecast.cluster, forecast.phases, forecast.seed);
}

}  // namespace

std::string fleet_table(const FleetForecast& forecast) {
  std::string text =
      head(forecast) + "\n\n" + sentence(forecast) + "\n\n" + grid_table(job_grid(forecast));
  if (!forecast.pairs.empty())
    text += "\nTwo at a time\n" + grid_table(pair_grid(forecast)) +
            "\nOf the links that both use, the one in use most\n" + links_text(forecast, "  ");
  return text +
         "\nA step beside others, over the step alone: the median of the phases (least to "
         "most).\n";
}

std::string fleet_csv(const FleetForecast& forecast) {
  return grid_csv(job_grid(forecast));
}

std::string fleet_markdown(const FleetForecast& forecast) {
  std::string text = "# " + head(forecast) + "\n\n" + sentence(forecast) + "\n\n" +
                     grid_markdown(job_grid(forecast));
  if (!forecast.pairs.empty())
    text += "\n" + grid_markdown(pair_grid(forecast)) + "\n" + links_text(forecast, "- ");
  return text;
}

}  // namespace sim
