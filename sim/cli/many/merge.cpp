// stepcast merge: the records of all parts of a search or a sweep as its result.
#include "sim/distribute/merge.hpp"

#include <fmt/format.h>

#include <memory>

#include "sim/cli/many/search_request.hpp"
#include "sim/cli/many/sweep_request.hpp"
#include "sim/search/distributed_search.hpp"
#include "sim/sweep/distributed_sweep.hpp"

namespace sim {
namespace {

struct MergeRequest {
  std::vector<std::string> files;
  OutputFormat output = OutputFormat::table;
  int threads = 0;
  bool no_progress = false;
  std::string plot;
  std::optional<Target> emit;
  std::string emit_to;
};

void refuse(const std::string& file, const std::string& why) {
  throw InputError{SourcePosition{file, 0, 0}, why};
}

// The recorded command line, read by the very options of the command.
template <class Asked, class MakeCommand>
std::shared_ptr<Asked> asked_again(const MergeRequest& request, const JobKey& question,
                                   MakeCommand make_command) {
  auto asked = std::make_shared<Asked>();
  const Command reader{.name = "stepcast", .commands = {make_command(asked)}};
  std::vector<std::string> words{question.command};
  if (!question.scenario.empty()) words.push_back(question.scenario);
  words.insert(words.end(), question.arguments.begin(), question.arguments.end());
  try {
    read_arguments(reader, words);
  } catch (const UsageError& error) {
    refuse(request.files.front(),
           fmt::format("the command that it records cannot be read: {}", error.what()));
  }
  asked->output = request.output;
  asked->work = WorkOptions{};
  asked->work.threads = request.threads;
  asked->no_progress = request.no_progress;
  return asked;
}

void refuse_option(const char* option, const JobKey& question) {
  throw WrongUse{fmt::format("{} does not go with the records of a {}", option, question.command)};
}

ExitCode merge_files(const MergeRequest& request) {
  const RecordHeader header = common_header(request.files);
  const JobKey& question = header.question;
  check_reachable(header);
  if (question.command == "search") {
    if (!request.plot.empty()) refuse_option("--plot", question);
    ResultCache book = merge_records(request.files, header, read_search_answer);
    const auto asked = asked_again<SearchRequest>(request, question, search_command_of);
    asked->emit = request.emit;
    asked->emit_to = request.emit_to;
    return run_search_request(*asked, book, question);
  }
  if (question.command != "sweep")
    refuse(
        request.files.front(),
        fmt::format("its records are of '{}', which is none of search, sweep", question.command));
  if (request.emit) refuse_option("--emit", question);
  ResultCache book = merge_records(request.files, header, read_sweep_answer);
  const auto asked = asked_again<SweepRequest>(request, question, sweep_command_of);
  asked->plot = request.plot;
  return run_sweep_request(*asked, book, question);
}

}  // namespace

Command merge_command() {
  const auto request = std::make_shared<MergeRequest>();
  return {.name = "merge",
          .help = "the result of a search or sweep from its records",
          .options = joined({{{.name = "FILES",
                               .into = &request->files,
                               .help = "files of --results, of all parts",
                               .required = true},
                              output_option(request->output),
                              threads_option(request->threads)},
                             emit_options(request->emit, request->emit_to),
                             {{.name = "--plot",
                               .into = &request->plot,
                               .form = "FILE",
                               .help = "write a plot of step times (SVG), of a sweep",
                               .writes = Output::file},
                              {.name = "--no-progress",
                               .into = &request->no_progress,
                               .help = "no line of progress on a terminal"}}}),
          .footer = "Example: stepcast merge layouts.jsonl.*-of-8",
          .run = [request] { return merge_files(*request); }};
}

}  // namespace sim
