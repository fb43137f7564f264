// stepcast validate: forecasts beside published measurements, and whether their errors keep within
// the recorded bounds.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/cli/command.hpp"
#include "sim/validation/ablation.hpp"
#include "sim/validation/curves.hpp"
#include "sim/validation/layout_ranking.hpp"
#include "sim/validation/memory_error_rows.hpp"
#include "sim/validation/other_simulators.hpp"
#include "sim/validation/predict.hpp"
#include "sim/validation/row_yaml.hpp"
#include "sim/validation/scatter.hpp"
#include "sim/validation/score.hpp"
#include "sim/validation/tables.hpp"

namespace sim {
namespace {

struct Request {
  std::vector<std::string> sets;  // none: all
  std::string rows;               // a table of anybody's
  std::string curves, index;      // of collectives
  std::string picture;            // SVG to write; empty: none
  std::string emit;               // folder for the rows as scenarios; empty: none
  bool ablate = false, peers = false, favourites = false, memory_error = false;
  OutputFormat output = OutputFormat::table;
};

// The sets asked for, in the order of their names. Throws InputError for an unknown one.
std::vector<std::string> chosen_sets(const Request& request, const std::string& folder) {
  std::vector<std::string> known = measured_sets(folder);
  for (const std::string& name : request.sets) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InputError{SourcePosition{folder, 0, 0},
                     fmt::format("there is no set '{}'; {}", name,
                                 choices_text(name, {known.begin(), known.end()}))};
  }
  if (request.sets.empty()) return known;
  std::vector<std::string> chosen;
  for (const std::string& name : known)
    if (std::find(request.sets.begin(), request.sets.end(), name) != request.sets.end())
      chosen.push_back(name);
  return chosen;
}

void print_sets(const std::vector<SetResult>& results, OutputFormat format) {
  print_result(in_format(format, results, validation_table, validation_json, validation_csv,
                         validation_markdown));
}

// Whether all sets keep within their bounds; says on stderr what does not. A set that is scored
// must have a bound.
bool within_bounds(const std::vector<SetResult>& results, const std::string& bounds_path) {
  const std::vector<ErrorBound> bounds = load_bounds(bounds_path);
  bool within = true;
  for (const SetResult& result : results) {
    const auto bound = std::find_if(bounds.begin(), bounds.end(), [&](const ErrorBound& candidate) {
      return candidate.set == result.set.name;
    });
    const auto to_score = [](const RowResult& row) { return row.row.use == RowUse::score; };
    if (bound == bounds.end()) {
      if (std::any_of(result.rows.begin(), result.rows.end(), to_score))
        throw InputError{SourcePosition{bounds_path, 0, 0},
                         fmt::format("has no bound for the set {}", result.set.name)};
      continue;
    }
    for (const std::string& problem : exceeded(result.score, *bound)) {
      print_note("stepcast validate: bound exceeded: " + problem);
      within = false;
    }
  }
  return within;
}

void write_picture(const Request& request, const std::vector<SetResult>& results) {
  if (request.picture.empty()) return;
  write_text_file(request.picture, scatter_svg(results));
  print_note(fmt::format("picture: {}", request.picture));
}

ExitCode validate_rows(const Request& request) {
  const std::vector<SetResult> results{validate(load_table_set(request.rows, data_folder()))};
  print_sets(results, request.output);
  write_picture(request, results);
  const SetScore& score = results.front().score;
  if (score.unreadable > 0)
    print_note(fmt::format("stepcast validate: {} of {} rows cannot be read and are left out",
                           score.unreadable, score.rows));
  const bool forecast = score.skipped < score.rows;
  if (!forecast) print_note("stepcast validate: no row could be forecast");
  return score.unreadable > 0 || !forecast ? ExitCode::invalid_input : ExitCode::done;
}

ExitCode validate_curves(const Request& request) {
  std::vector<CurveResult> results;
  for (Curve& curve : read_curves(CsvTable::load(request.curves), CsvTable::load(request.index)))
    results.push_back(predict_curve(std::move(curve), data_folder()));
  print_result(
      in_format(request.output, results, curve_table, curve_json, curve_csv, curve_markdown));
  return ExitCode::done;
}

std::vector<SetResult> simulate_sets(const Request& request, const std::string& folder) {
  const bool show_progress = isatty(STDERR_FILENO) == 1;
  std::vector<SetResult> results;
  for (const std::string& name : chosen_sets(request, folder + "/published")) {
    if (show_progress) print_note("simulating " + name);
    const std::string path = fmt::format("{}/published/{}/measured.yaml", folder, name);
    results.push_back(validate(load_measured_set(path)));
  }
  return results;
}

// Whether the shipped error of the memory forecast is that of these rows; says on stderr if not.
bool same_memory_error(const std::vector<SetResult>& results, const std::string& folder) {
  const std::string path = folder + "/memory-error.yaml";
  std::ifstream file{path};
  const std::string shipped{std::istreambuf_iterator<char>{file}, {}};
  if (shipped == memory_error_yaml(memory_excesses(results))) return true;
  print_note(fmt::format(
      "stepcast validate: {} is not what these rows say: make it anew with --memory-error", path));
  return false;
}

ExitCode validate_sets(const Request& request) {
  const std::string folder = data_folder() + "/validation";
  const std::vector<SetResult> results = simulate_sets(request, folder);
  print_sets(results, request.output);
  write_picture(request, results);
  bool within = within_bounds(results, folder + "/bounds.yaml");
  if (request.sets.empty()) within = same_memory_error(results, folder) && within;
  return within ? ExitCode::done : ExitCode::bound_exceeded;
}

ExitCode show_memory_error(const Request& request) {
  const std::vector<SetResult> results = simulate_sets(request, data_folder() + "/validation");
  print_result(memory_error_yaml(memory_excesses(results)));
  return ExitCode::done;
}

ExitCode validate_ablated(const Request& request) {
  const std::string folder = data_folder() + "/validation/published";
  std::vector<MeasuredSet> sets;
  for (const std::string& name : chosen_sets(request, folder))
    sets.push_back(load_measured_set(fmt::format("{}/{}/measured.yaml", folder, name)));
  const Ablation ablation = ablate(sets);
  print_result(in_format(request.output, ablation, ablation_table, ablation_json, ablation_csv,
                         ablation_markdown));
  return ExitCode::done;
}

// Runs each set that a peer was compared on once.
ExitCode validate_beside_peers(const Request& request) {
  const std::string folder = data_folder() + "/validation";
  std::vector<SetResult> results;
  std::vector<PeerResult> beside;
  for (PeerFigures& peer : load_peers(folder + "/peers.yaml")) {
    const auto same = [&](const SetResult& result) { return result.set.name == peer.set; };
    if (!peer.set.empty() && std::none_of(results.begin(), results.end(), same))
      results.push_back(validate(
          load_measured_set(fmt::format("{}/published/{}/measured.yaml", folder, peer.set))));
    OwnScore own = score_beside(peer, results);
    beside.push_back({.peer = std::move(peer), .own = own});
  }
  print_result(in_format(request.output, beside, peer_table, peer_json, peer_csv, peer_markdown));
  return ExitCode::done;
}

// The layout studies as a test of search.
ExitCode validate_favourites(const Request& request) {
  const std::string folder = data_folder() + "/validation";
  const std::optional<MemoryErrors> errors = shipped_memory_errors();
  std::vector<GroupRank> ranks;
  for (const std::string& name : chosen_sets(request, folder + "/published")) {
    const std::string path = fmt::format("{}/published/{}/measured.yaml", folder, name);
    const std::vector<GroupRank> found = rank_groups(load_measured_set(path), errors);
    ranks.insert(ranks.end(), found.begin(), found.end());
  }
  print_result(in_format(request.output, ranks, favourites_table, favourites_json, favourites_csv,
                         favourites_markdown));
  bool within = true;
  for (const ErrorBound& bound : load_bounds(folder + "/bounds.yaml")) {
    const auto of_set = [&](const GroupRank& rank) { return rank.set == bound.set; };
    if (std::none_of(ranks.begin(), ranks.end(), of_set) && !request.sets.empty()) continue;
    for (const std::string& problem : short_of(ranks, bound)) {
      print_note("stepcast validate: bound exceeded: " + problem);
      within = false;
    }
  }
  return within ? ExitCode::done : ExitCode::bound_exceeded;
}

// Writes what can be simulated, and says what cannot.
void emit(const MeasuredSet& set, const std::string& folder) {
  int written = 0;
  for (const MeasuredRow& row : set.rows) {
    const auto left_out = [&](const std::string& why) {
      print_note(fmt::format("left out: {}: {}", row.id, why));
    };
    if (!row.unreadable.empty()) {
      left_out(row.unreadable);
      continue;
    }
    if (!names_a_file(row.id)) {
      left_out("the row_id is no name of a file: letters, digits, '-', '_' and '.' are");
      continue;
    }
    std::string text;
    try {
      text = row_yaml(set, row, folder);
    } catch (const std::runtime_error& error) {
      left_out(reason_in_a_line(error));
      continue;
    }
    write_text_file(fmt::format("{}/{}.yaml", folder, row.id), text);
    ++written;
  }
  print_note(fmt::format("{}: {} scenarios in {}", set.name, written, folder));
}

ExitCode emit_rows(const Request& request) {
  std::filesystem::create_directories(request.emit);
  if (!request.rows.empty()) {
    emit(load_table_set(request.rows, data_folder()), request.emit);
    return ExitCode::done;
  }
  const std::string folder = data_folder() + "/validation/published";
  for (const std::string& name : chosen_sets(request, folder))
    emit(load_measured_set(fmt::format("{}/{}/measured.yaml", folder, name)), request.emit);
  return ExitCode::done;
}

Options table_options(Request& request) {
  return {{.name = "--set",
           .into = &request.sets,
           .form = "NAME",
           .help = "only this set (may be repeated)",
           .repeated = true},
          {.name = "--rows",
           .into = &request.rows,
           .form = "FILE.csv",
           .help = "a table of measured runs instead of the sets",
           .excludes = {"--set"}},
          {.name = "--curves",
           .into = &request.curves,
           .form = "FILE.csv",
           .help = "measured curves of collectives instead",
           .needs = {"--index"},
           .excludes = {"--set", "--rows"}},
          {.name = "--index",
           .into = &request.index,
           .form = "FILE.csv",
           .help = "the index of the curves",
           .needs = {"--curves"}}};
}

Options study_options(Request& request) {
  return {{.name = "--ablate",
           .into = &request.ablate,
           .help = "the errors with each mechanism of the forecast left out",
           .excludes = {"--rows", "--curves"}},
          {.name = "--peers",
           .into = &request.peers,
           .help = "other simulators beside this one, on the same rows",
           .excludes = {"--set", "--rows", "--curves", "--ablate"}},
          {.name = "--favourites",
           .into = &request.favourites,
           .help = "studies of many layouts: how high the forecast ranks the truly fastest",
           .excludes = {"--rows", "--curves", "--ablate", "--peers"}},
          {.name = "--memory-error",
           .into = &request.memory_error,
           .help = "the error of the memory forecast, as validation/memory-error.yaml has it",
           .excludes = {"--set", "--rows", "--curves", "--ablate", "--peers", "--favourites"}}};
}

Options file_options(Request& request) {
  return {{.name = "--picture",
           .into = &request.picture,
           .form = "FILE.svg",
           .help = "write predicted against measured as a picture (SVG)",
           .excludes = {"--curves"}},
          {.name = "--emit",
           .into = &request.emit,
           .form = "DIR",
           .help = "write every row as a scenario, DIR/ROW_ID.yaml, and simulate nothing",
           .excludes = {"--curves", "--ablate", "--peers", "--favourites", "--memory-error",
                        "--picture"}}};
}

ExitCode validate_as_asked(const Request& request) {
  if (!request.emit.empty()) return emit_rows(request);
  if (request.ablate) return validate_ablated(request);
  if (request.favourites) return validate_favourites(request);
  if (request.memory_error) return show_memory_error(request);
  if (request.peers) return validate_beside_peers(request);
  if (!request.curves.empty()) return validate_curves(request);
  return request.rows.empty() ? validate_sets(request) : validate_rows(request);
}

}  // namespace

Command validate_command() {
  const auto request = std::make_shared<Request>();
  return {.name = "validate",
          .help = "forecasts beside published measurements, with their errors",
          .options = joined({table_options(*request),
                             study_options(*request),
                             file_options(*request),
                             {output_option(request->output)}}),
          .commands = {validate_real_command()},
          .footer =
              "Exit code 3, of --rows: rows cannot be read, or none can be forecast; the others "
              "are scored.\n"
              "Exit code 5: an error exceeds its bound in validation/bounds.yaml.\n"
              "Examples: stepcast validate --set sc21_table1\n"
              "          stepcast validate --rows runs.csv --picture runs.svg\n"
              "          stepcast validate --set torchtitan --emit rows/\n"
              "          stepcast validate --curves curves.csv --index curves_index.csv",
          .run = [request] { return validate_as_asked(*request); }};
}

}  // namespace sim
