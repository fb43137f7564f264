// stepcast compare: two timelines side by side.
#include "sim/timeline/compare.hpp"

#include <fmt/format.h>

#include <memory>

#include "sim/cli/command.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/forecast/record.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

struct CompareRequest {
  std::string a, b;
  std::string trace;
  OutputFormat output = OutputFormat::table;
  bool same = false;
};

// Records are JSON, also in gzip; a scenario is YAML, and is simulated with every rank, so that
// ranks meet.
Record load_side(const std::string& path) {
  const std::string head = head_of_file(path);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && head[first] == '{';
  if (path.ends_with(".json") || path.ends_with(".json.gz") || json) return read_record(path);
  return simulated_record(load_scenario(path), true);
}

ExitCode compare_records(const CompareRequest& request) {
  const Record a = load_side(request.a);
  const Record b = load_side(request.b);
  const Comparison comparison = compare(a, b);
  const auto table = [](const Comparison& shown) {
    return comparison_table(shown, color_wanted());
  };
  print_result(in_format(request.output, comparison, table, comparison_json, comparison_csv,
                         comparison_markdown));
  if (!request.trace.empty()) {
    const TraceStats stats = write_comparison_trace(request.trace, a, b);
    print_note(fmt::format("trace: {} ({} events, {:.1f} MB): open it at ui.perfetto.dev",
                           request.trace, stats.events, static_cast<double>(stats.bytes) / 1e6));
  }
  return request.same && !comparison.sameness.same ? ExitCode::bound_exceeded : ExitCode::done;
}

}  // namespace

Command compare_command() {
  const auto request = std::make_shared<CompareRequest>();
  return {.name = "compare",
          .help = "two timelines side by side",
          .options = {{.name = "A",
                       .into = &request->a,
                       .help = "record (JSON, of --record), or scenario (YAML) to simulate",
                       .required = true},
                      {.name = "B", .into = &request->b, .help = "the other one", .required = true},
                      output_option(request->output),
                      {.name = "--trace",
                       .into = &request->trace,
                       .form = "FILE",
                       .help = "write one Perfetto trace with both",
                       .writes = Output::file},
                      {.name = "--require-same",
                       .into = &request->same,
                       .help = "exit with 5 unless both did the same work, exactly"}},
          .footer =
              "Example: stepcast simulate scenarios/gpt2-124m-8-h100.yaml --record forecast.json\n"
              "         stepcast compare forecast.json measured.json --trace both.perfetto.json",
          .run = [request] { return compare_records(*request); }};
}

}  // namespace sim
