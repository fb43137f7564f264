#include "sim/anchor/measured_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sim/anchor/training_log.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/base/quantity.hpp"
#include "sim/rows/csv.hpp"

namespace sim {
namespace {

constexpr std::string_view time_column = "step_time_s", scenario_column = "scenario";
constexpr double most_seconds = 1e6;

[[noreturn]] void refuse(const std::string& file, const std::string& why, int line = 0,
                         int column = 0) {
  throw InputError{SourcePosition{file, line, column}, why};
}

double tokens_per_gpu(const Scenario& scenario) {
  return static_cast<double>(scenario.layout.global_batch * scenario.layout.sequence_length) /
         scenario.layout.world_size();
}

Duration read_time(const std::string& text) {
  const Parsed<Duration> parsed = parse_duration(text);
  const Duration* const time = std::get_if<Duration>(&parsed);
  if (time == nullptr || *time <= Duration{})
    refuse("--step-time", fmt::format("'{}' is no time above zero, such as 6.43 s", text));
  return *time;
}

class Reading {
 public:
  explicit Reading(const RunsRequest& request) : request_{request} {}

  AnchorRuns take() {
    if (request_.table.empty())
      read_in_order();
    else
      read_table();
    check();
    return std::move(runs_);
  }

 private:
  std::vector<std::string> overrides(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = request_.overrides;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Scenario load(const std::string& path) const { return load_scenario(path, overrides()); }
  void add(const std::string& name, Scenario scenario, Duration time,
           std::vector<std::string> read_with) {
    runs_.measured.push_back({name, std::move(scenario), time, std::move(read_with)});
  }

  void read_in_order() {
    const std::vector<std::string>& paths = request_.scenarios;
    const bool of_logs = request_.step_times.empty();
    const std::size_t measured = of_logs ? request_.logs.size() : request_.step_times.size();
    if (measured > paths.size())
      refuse(of_logs ? "--log" : "--step-time",
             fmt::format("{} are given for {} scenarios: one each, in their order", measured,
                         paths.size()));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      Scenario scenario = load(paths[i]);
      if (i >= measured)
        runs_.others.push_back({paths[i], std::move(scenario)});
      else if (of_logs)
        add_log(request_.logs[i], paths[i], std::move(scenario));
      else
        add(paths[i], std::move(scenario), read_time(request_.step_times[i]), overrides());
    }
  }

  void add_log(const std::string& path, const std::string& name, Scenario scenario) {
    const TrainingLog log = read_training_log(path);
    const LoggedStep step = logged_step(log, tokens_per_gpu(scenario));
    runs_.notes.push_back(
        fmt::format("{}: log of {}, the median of {} values; the first {} left out", path,
                    log.writer, step.steps, step.left_out));
    add(name, std::move(scenario), step.median, overrides());
  }

  void read_table() {
    const CsvTable table = CsvTable::load(request_.table);
    check_header(table);
    std::vector<bool> used(request_.scenarios.size(), false);
    for (std::size_t record = 0; record < table.records().size(); ++record) {
      const std::size_t scenario = scenario_of(table, record);
      used[scenario] = true;
      std::vector<std::string> keys;
      for (const CsvField& column : table.header()) {
        const CsvField& cell = table.field(record, column.text);
        if (column.text == time_column || column.text == scenario_column || cell.text.empty())
          continue;
        keys.push_back(column.text + "=" + cell.text);
      }
      const std::string& path = request_.scenarios[scenario];
      const std::vector<std::string> all = overrides(keys);
      add(keys.empty() ? path : fmt::format("{} {}", path, fmt::join(keys, " ")),
          load_scenario(path, all), time_of(table, record), all);
    }
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i]) runs_.others.push_back({request_.scenarios[i], load(request_.scenarios[i])});
  }

  void check_header(const CsvTable& table) const {
    bool timed = false;
    for (const CsvField& column : table.header()) {
      timed = timed || column.text == time_column;
      if (column.text == time_column || column.text == scenario_column) continue;
      if (column.text.find('.') == std::string::npos)
        refuse(table.name(),
               fmt::format("unknown column '{}'; allowed: step_time_s, scenario, and keys of a "
                           "scenario such as layout.tensor_parallel",
                           column.text),
               column.line, column.column);
    }
    if (!timed) refuse(table.name(), "it has no column step_time_s", 1, 1);
    if (table.records().empty()) refuse(table.name(), "it has no runs", 1, 1);
  }

  std::size_t scenario_of(const CsvTable& table, std::size_t record) const {
    const CsvField& cell = table.field(record, scenario_column);
    const std::vector<std::string>& paths = request_.scenarios;
    if (cell.text.empty() && paths.size() == 1) return 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const std::filesystem::path path{paths[i]};
      if (cell.text == paths[i] || cell.text == path.filename() || cell.text == path.stem())
        return i;
    }
    const std::vector<std::string_view> names{paths.begin(), paths.end()};
    refuse(table.name(),
           cell.text.empty() ? "of several scenarios: its column `scenario` says which"
                             : fmt::format("there is no scenario '{}' among those named; {}",
                                           cell.text, choices_text(cell.text, names)),
           cell.line, cell.column);
  }

  static Duration time_of(const CsvTable& table, std::size_t record) {
    const CsvField& cell = table.field(record, time_column);
    try {
      std::size_t used = 0;
      const double seconds = std::stod(cell.text, &used);
      if (used == cell.text.size() && seconds > 0 && seconds <= most_seconds)
        return duration_from_seconds(seconds);
    } catch (const std::exception&) {  // said below
    }
    refuse(table.name(),
           fmt::format("step_time_s is '{}'; allowed: seconds, above 0 to 1e6", cell.text),
           cell.line, cell.column);
  }

  void check() const {
    if (runs_.measured.empty())
      refuse("stepcast anchor",
             "no run is measured: give --runs TABLE, --log FILE or --step-time TIME");
    const Scenario& first = runs_.measured.front().scenario;
    const auto fits = [&](const std::string& name, const Scenario& it) {
      if (it.anchored) refuse(name, "it has an anchor already (simulation.anchor)");
      if (it.options.factors != TimeFactors{})
        refuse(name, "it has simulation.time_factors, which an anchor finds");
      if (it.options.collectives == CollectiveModel::stepwise)
        refuse(name, "an anchor's factors are of fluid collectives: set collectives: fluid");
      if (it.framework.name != first.framework.name ||
          it.cluster.device().name != first.cluster.device().name)
        refuse(name, fmt::format("it is {} on {}, {} is {} on {}: an anchor is of one framework on "
                                 "one device",
                                 word(it.framework.name), it.cluster.device().name,
                                 runs_.measured.front().name, word(first.framework.name),
                                 first.cluster.device().name));
    };
    for (const MeasuredRun& run : runs_.measured)
      fits(run.name, run.scenario);
    for (const RunToForecast& run : runs_.others)
      fits(run.name, run.scenario);
  }

  const RunsRequest& request_;
  AnchorRuns runs_;
};

}  // namespace

AnchorRuns read_anchor_runs(const RunsRequest& request) {
  return Reading{request}.take();
}

}  // namespace sim
