// stepcast allocation: what it costs where the nodes of a job are.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/many/point_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/sweep/allocation_study.hpp"

namespace sim {
namespace {

struct AllocationRequest : PointRequest {
  AllocationQuestion question;
  std::string rank_file;
  Launcher launcher = Launcher::srun;
  int threads = 0;
};

void write_rank_file(const AllocationRequest& request, const AllocationStudy& study) {
  write_text_file(request.rank_file, rank_file(study.best_nodes, study.gpus_per_node,
                                               study.own.gpus, request.launcher));
  print_note(request.launcher == Launcher::srun
                 ? fmt::format("ranks: {}: SLURM_HOSTFILE={} srun --distribution=arbitrary ...",
                               request.rank_file, request.rank_file)
                 : fmt::format("ranks: {}: mpirun --hostfile {} --map-by slot ...",
                               request.rank_file, request.rank_file));
}

ExitCode show_allocation(const AllocationRequest& request) {
  const ThreadLimit threads{request.threads};
  PointCounter counter{request.no_progress};
  const AllocationStudy study =
      study_allocation(request.scenario, request.overrides, request.question, counter.callback());
  note_unvalidated(request.scenario, request.overrides);
  print_result(in_format(request.output, study, allocation_table, allocation_json, allocation_csv,
                         allocation_markdown));
  if (!request.rank_file.empty()) write_rank_file(request, study);
  return ExitCode::done;
}

Options drawing_options(AllocationQuestion& question) {
  return {{.name = "--draws",
           .into = &question.draws,
           .form = "N",
           .help = "draw so many allocations (0)",
           .check = CountFrom{1, 10'000}},
          {.name = "--kind",
           .into = word_value<AllocationKind>(question.kind),
           .form = "packed|random|fragmented",
           .help = "of the drawn allocations (fragmented)"},
          {.name = "--occupancy",
           .into = &question.occupancy,
           .form = "SHARE",
           .help = "of a fragmented machine: the nodes that other jobs have (0)",
           .check = NumberFrom{0, 0.999}},
          {.name = "--swaps",
           .into = &question.swaps,
           .form = "N",
           .help = "search on from the fastest order by so many swaps of nodes (0)",
           .check = CountFrom{1, 100'000}},
          {.name = "--ecmp-seeds",
           .into = &question.ecmp_seeds,
           .form = "N",
           .help = "try so many hashes of static ECMP (0)",
           .check = CountFrom{1, 10'000}}};
}

}  // namespace

Command allocation_command() {
  const auto request = std::make_shared<AllocationRequest>();
  std::vector<std::string>& overrides = request->overrides;
  return {.name = "allocation",
          .help = "what it costs where the nodes of a job are, and the fastest order of its ranks",
          .options = joined(
              {point_options(*request),
               {key_option(overrides, {"--node-list", "cluster.node_list", "LIST",
                                       "nodes of the job, as Slurm writes them: node[3-5,9]"})},
               drawing_options(request->question),
               {{.name = "--write-rank-file",
                 .into = &request->rank_file,
                 .form = "FILE",
                 .help = "write the fastest order for a launcher",
                 .writes = Output::file},
                {.name = "--launcher",
                 .into = word_value<Launcher>(request->launcher),
                 .form = "srun|mpirun",
                 .help = "of the rank file (srun)"},
                threads_option(request->threads)}}),
          .footer =
              "Example: stepcast allocation scenarios/llama-3.1-70b-512-h100.yaml "
              "--draws 20 --occupancy 0.8",
          .run = [request] { return show_allocation(*request); }};
}

}  // namespace sim
