#include "sim/scores/measured_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "sim/base/check.hpp"
#include "sim/config/reader.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/interop/job_file.hpp"
#include "sim/rows/csv.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scores/score.hpp"

namespace sim {
namespace {

constexpr double large_job_gib = 8;
constexpr std::array<std::string_view, 7> job_columns{"row",  "family",   "arguments", "cluster",
                                                      "gpus", "peak_gib", "steady_gib"};

struct JobFamily {
  std::string arguments;
  RowUse use = RowUse::score;
};

std::map<std::string, JobFamily> load_families(const Document& document) {
  std::map<std::string, JobFamily> families;
  const ObjectReader all = document.root_object().object("families");
  for (const std::string& name : all.keys()) {
    const ObjectReader family = all.object(name);
    families[name] = {family.text("arguments"), family.word<RowUse>("use")};
  }
  return families;
}

std::string jobs_file(const std::string& folder, const char* name) {
  return folder + "/" + name;
}

double number_in(const CsvTable& table, const CsvField& field) {
  double value = 0;
  const char* end = field.text.data() + field.text.size();
  const auto read = std::from_chars(field.text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value <= 0)
    throw InputError{SourcePosition{table.name(), field.line, field.column},
                     fmt::format("'{}' is no number above 0", field.text.substr(0, 80))};
  return value;
}

MeasuredJob job_of(const CsvTable& table, std::size_t record,
                   const std::map<std::string, JobFamily>& families) {
  const auto text = [&](std::string_view column) { return table.field(record, column).text; };
  const CsvField& family = table.field(record, "family");
  const auto found = families.find(family.text);
  if (found == families.end())
    throw InputError{SourcePosition{table.name(), family.line, family.column},
                     fmt::format("'{}' is no family of jobs.yaml", family.text.substr(0, 80))};
  MeasuredJob job{.row = text("row"),
                  .family = family.text,
                  .arguments = found->second.arguments + " " + text("arguments"),
                  .cluster = text("cluster"),
                  .use = found->second.use};
  job.gpus = static_cast<int>(number_in(table, table.field(record, "gpus")));
  const double gib = number_in(table, table.field(record, "peak_gib"));
  job.peak = Bytes{std::llround(gib * static_cast<double>(std::int64_t{1} << 30))};
  return job;
}

// Peaks are those of the rank that logs, the last one.
JobResult forecast_job(MeasuredJob job) {
  JobResult result{.job = std::move(job)};
  const MeasuredJob& it = result.job;
  try {
    JobFile file;
    file.file = it.row;
    file.text = "ARGS=( " + it.arguments + " )\n";
    file.cluster = it.cluster;
    file.known.gpus = it.gpus;
    const std::string text = imported_yaml(import_job(JobKind::megatron, file), file, "");
    const Scenario scenario = load_scenario(ScenarioSources::of_text(text, it.row, {}));
    result.forecast = forecast_memory(scenario).report.memory.back().max_allocated();
  } catch (const InputError& error) {
    result.refused = error.problems().front().what;
  }
  return result;
}

bool is_large(const MeasuredJob& job) {
  return job.peak.gib() >= large_job_gib;
}

std::string name_of(RowUse use, bool large) {
  return fmt::format("{}_{}", word(use), large ? "large" : "small");
}

}  // namespace

double JobResult::error() const {
  SIM_CHECK(forecast, job.row);
  return static_cast<double>(forecast->count()) / static_cast<double>(job.peak.count()) - 1;
}

std::vector<MeasuredJob> load_jobs(const std::string& folder) {
  const Document document = Document::load(jobs_file(folder, "jobs.yaml"), Syntax::yaml);
  const auto families = load_families(document);
  const CsvTable table = CsvTable::load(jobs_file(folder, "jobs.csv"));
  table.check_columns(job_columns, job_columns);
  std::vector<MeasuredJob> jobs;
  for (std::size_t i = 0; i < table.records().size(); ++i)
    jobs.push_back(job_of(table, i, families));
  return jobs;
}

std::vector<JobResult> forecast_jobs(std::vector<MeasuredJob> jobs) {
  std::vector<JobResult> results;
  for (MeasuredJob& job : jobs)
    results.push_back(forecast_job(std::move(job)));
  return results;
}

std::vector<JobScore> scores_of(std::span<const JobResult> results) {
  std::vector<JobScore> scores;
  for (const RowUse use : {RowUse::score, RowUse::fit})
    for (const bool large : {true, false}) {
      JobScore score{.name = name_of(use, large)};
      std::vector<double> errors;
      for (const JobResult& result : results) {
        if (result.job.use != use || is_large(result.job) != large) continue;
        ++score.rows;
        if (result.forecast)
          errors.push_back(std::abs(result.error()));
        else
          ++score.refused;
      }
      if (!errors.empty()) {
        score.median = quantile(errors, 0.5);
        score.worst = quantile(errors, 1);
      }
      scores.push_back(score);
    }
  return scores;
}

std::vector<std::string> beyond_bounds(std::span<const JobScore> scores,
                                       const std::string& folder) {
  const Document document = Document::load(jobs_file(folder, "jobs.yaml"), Syntax::yaml);
  const ObjectReader bounds = document.root_object().object("bounds");
  std::vector<std::string> beyond;
  for (const JobScore& score : scores) {
    const ObjectReader bound = bounds.object(score.name);
    const auto check = [&](const char* key, double value) {
      const double most = bound.real(key, {0, 1000});
      if (value > most)
        beyond.push_back(fmt::format("{}: {} {:.4f} > {}", score.name, key, value, most));
    };
    check("refused", score.refused);
    check("median", score.median);
    check("worst", score.worst);
  }
  return beyond;
}

std::string jobs_table(std::span<const JobResult> results) {
  std::string text =
      fmt::format("{:<88}{:>6}{:>10}{:>10}{:>8}\n", "row", "use", "forecast", "measured", "error");
  for (const JobResult& result : results) {
    text += fmt::format("{:<88}{:>6}", result.job.row, word(result.job.use));
    if (result.forecast)
      text += fmt::format("{:>10.3f}{:>10.3f}{:>+7.1f}%\n", result.forecast->gib(),
                          result.job.peak.gib(), 100 * result.error());
    else
      text += fmt::format("  refused: {}\n", result.refused);
  }
  for (const JobScore& score : scores_of(results))
    text +=
        fmt::format("{}: {} rows, {} refused; absolute error: median {:.1f}%, worst {:.1f}%\n",
                    score.name, score.rows, score.refused, 100 * score.median, 100 * score.worst);
  return text;
}

}  // namespace sim
