// stepcast check: one line on a job before it starts, and an exit code for scripts.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/quantity.hpp"
#include "sim/base/table_text.hpp"
#include "sim/cli/job_options.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/interop/job_kind.hpp"
#include "sim/report/memory_hints.hpp"

namespace sim {
namespace {

struct CheckRequest : JobFile {
  std::optional<Duration> most;  // of a step
  double margin = 0;             // share of the memory that is to stay free
  OutputFormat output = OutputFormat::table;
};

enum class JobVerdict : std::uint8_t { fine, too_large, too_slow };
constexpr auto words_of(JobVerdict) {
  return std::array{Word{JobVerdict::fine, "ok"}, Word{JobVerdict::too_large, "does not fit"},
                    Word{JobVerdict::too_slow, "too slow"}};
}

struct Checked {
  Scenario scenario;
  std::vector<std::string> notes;  // what the forecast leaves out or reads otherwise
};

// A scenario, or a file that import reads.
Checked read_checked(const CheckRequest& request) {
  const std::optional<JobKind> kind = job_kind_of(request.file, head_of_file(request.file));
  if (!kind) return {load_scenario(request.file, request.changes), {}};
  ImportedJob imported = import_job(*kind, request);
  std::vector<std::string> notes = note_lines(imported);
  return {std::move(imported.scenario), std::move(notes)};
}

bool leaves_margin(const Report& report, double margin) {
  const StageMemory& worst = report.worst_memory();
  return static_cast<double>(worst.total.count()) <=
         (1 - margin) * static_cast<double>(worst.capacity.count());
}

JobVerdict verdict_on(const Report& report, const CheckRequest& request) {
  if (!report.fits() || !leaves_margin(report, request.margin)) return JobVerdict::too_large;
  if (request.most && report.step_time > *request.most) return JobVerdict::too_slow;
  return JobVerdict::fine;
}

ExitCode exit_code_of(JobVerdict verdict) {
  switch (verdict) {
    case JobVerdict::fine:
      return ExitCode::done;
    case JobVerdict::too_large:
      return ExitCode::does_not_fit;
    case JobVerdict::too_slow:
      return ExitCode::bound_exceeded;
  }
  return ExitCode::failed;
}

std::string time_text(const Report& report) {
  if (!report.interval) return precise(report.step_time);
  return fmt::format("{} a step ({})", precise(report.step_time),
                     range_text(report.interval->shortest(report.step_time),
                                report.interval->longest(report.step_time)));
}

// Which rank is the fullest, and by how much.
std::string memory_text(const Report& report, const Plan& plan) {
  const StageMemory& worst = report.worst_memory();
  const RankId rank = rank_of(plan.layout, {.pipeline = report.worst_stage});
  return fmt::format("{:.1f} of {:.1f} GiB on rank {}", worst.total.gib(), worst.capacity.gib(),
                     rank.value);
}

std::string line_of(JobVerdict verdict, const Forecast& made, const CheckRequest& request) {
  const Report& report = made.report;
  std::string text = fmt::format("{}: {} on {} GPUs of {}: {}, {}", word(verdict), request.file,
                                 grouped(report.ranks), report.cluster, time_text(report),
                                 memory_text(report, *made.plan));
  if (verdict == JobVerdict::too_large && request.margin > 0 && report.fits())
    text += fmt::format("; {:.0f} % are to stay free", 100 * request.margin);
  if (verdict == JobVerdict::too_slow) text += fmt::format("; at most {}", precise(*request.most));
  return text;
}

std::vector<std::string> hints_for(JobVerdict verdict, const Forecast& made,
                                   const Scenario& scenario) {
  if (verdict != JobVerdict::too_large) return {};
  return memory_hints(scenario.model, scenario.framework.name, made.report.layout,
                      scenario.cluster);
}

std::string check_json(JobVerdict verdict, const Forecast& made, const CheckRequest& request,
                       const std::vector<std::string>& hints,
                       const std::vector<std::string>& notes) {
  const Report& report = made.report;
  const StageMemory& worst = report.worst_memory();
  nlohmann::ordered_json json{{"file", request.file},
                              {"verdict", word(verdict)},
                              {"exit_code", static_cast<int>(exit_code_of(verdict))},
                              {"gpus", report.ranks},
                              {"cluster", report.cluster},
                              {"step_time_s", in_seconds(report.step_time)}};
  if (report.interval) {
    json["step_time_s_low"] = in_seconds(report.interval->shortest(report.step_time));
    json["step_time_s_high"] = in_seconds(report.interval->longest(report.step_time));
  }
  json["memory_gib"] = worst.total.gib();
  json["memory_capacity_gib"] = worst.capacity.gib();
  json["rank"] = rank_of(made.plan->layout, {.pipeline = report.worst_stage}).value;
  json["would_fit"] = hints;
  json["notes"] = notes;
  return json.dump(2) + "\n";
}

ExitCode check_job(const CheckRequest& request) {
  const Checked checked = read_checked(request);
  const Forecast made = forecast(checked.scenario);
  const JobVerdict verdict = verdict_on(made.report, request);
  const std::vector<std::string> hints = hints_for(verdict, made, checked.scenario);
  if (request.output == OutputFormat::json) {
    print_result(check_json(verdict, made, request, hints, checked.notes));
    return exit_code_of(verdict);
  }
  for (const std::string& note : checked.notes)
    print_note(note);
  print_result(line_of(verdict, made, request) + "\n");
  for (const std::string& hint : hints)
    print_note("try: " + hint);
  return exit_code_of(verdict);
}

ReadValue read_most(CheckRequest& request) {
  return [&request](const std::string& text) {
    const Parsed<Duration> parsed = parse_duration(text);
    if (const auto* error = std::get_if<QuantityError>(&parsed))
      throw std::invalid_argument{error->problem};
    request.most = std::get<Duration>(parsed);
  };
}

// "5%" or 0.05.
ReadValue read_margin(CheckRequest& request) {
  return [&request](const std::string& text) {
    std::size_t used = 0;
    double value = -1;
    try {
      value = std::stod(text, &used);
    } catch (const std::exception&) {
    }
    if (used > 0 && text.substr(used) == "%") {
      value /= 100;
      ++used;
    }
    if (used != text.size() || !(value >= 0 && value < 1))
      throw std::invalid_argument{"expected a share of the memory, as 5% or 0.05"};
    request.margin = value;
  };
}

}  // namespace

Command check_command() {
  const auto request = std::make_shared<CheckRequest>();
  return {.name = "check",
          .help = "one line on a job before it starts: exit 0, 4 (does not fit) or 5 (too slow)",
          .options = joined({job_options(*request),
                             {{.name = "--max-step",
                               .into = read_most(*request),
                               .form = "TIME",
                               .help = "exit with 5 where a step takes longer, as 8s"},
                              {.name = "--memory-margin",
                               .into = read_margin(*request),
                               .form = "SHARE",
                               .help = "of the memory that is to stay free, as 5%"},
                              {.name = "-o,--output",
                               .into = word_value<OutputFormat>(request->output, {"table", "json"}),
                               .form = "table|json",
                               .help = "one line, or all figures"}},
                             options_of_any_kind(*request)}),
          .footer = "Example: stepcast check train.sh --cluster dgx-h100 --gpus 256 --max-step 8s",
          .run = [request] { return check_job(*request); }};
}

}  // namespace sim
