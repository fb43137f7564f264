// stepcast calibrate without files: measures this machine, fits, writes what `simulate` takes.
#include "real/jobs/measure_scenarios.hpp"
#include "sim/cli/train/engine.hpp"
#include "sim/cli/train/run_end.hpp"

namespace sim {
namespace {

void show_measured(const CalibratedFile& files) {
  for (const std::string& note : files.notes)
    print_note("note: " + note);
  print_result(files.summary);
}

Options measuring_options(MachineRequest& here) {
  return {{.name = "SCENARIO",
           .into = &here.scenarios,
           .help = "scenarios whose kernels and collectives are measured here"},
          {.name = "--suite",
           .into = &here.suite,
           .form = "SUITE",
           .help = "the scenarios of a suite of `validate real`, on its backend and ranks"},
          {.name = "--backend",
           .into = &here.backend,
           .form = "host|cuda",
           .help = "what measures: host or cuda",
           .check = OneOf{"host", "cuda"}},
          {.name = "--measured-ranks",
           .into = &here.ranks,
           .form = "N",
           .help = "ranks that measure at once",
           .check = CountFrom{1, 1024}},
          {.name = "--ranks-per-gpu",
           .into = &here.ranks_per_gpu,
           .form = "N",
           .help = "ranks that share a GPU",
           .check = CountFrom{1, 64}},
          {.name = "--gpu",
           .into = &here.gpu,
           .form = "NAME",
           .help = "the base is the device file of this GPU, in nvidia-smi's words; default: of "
                   "this machine's"},
          {.name = "--nominal",
           .into = &here.nominal,
           .help = "measure nothing: write the figures of the bases"},
          {.name = "--seconds",
           .into = &here.seconds,
           .form = "S",
           .help = "about what the measurement may take",
           .check = NumberFrom{1.0, 86'400.0}},
          {.name = "-o,--folder",
           .into = &here.folder,
           .form = "FOLDER",
           .help = "where to write device.yaml and cluster.yaml of this machine",
           .writes = Output::folder}};
}

}  // namespace

MeasureMachine machine_measurement() {
  return {.options = measuring_options, .run = [](const MachineRequest& request) {
            return run_among_ranks("calibrate", {}, [&] {
              return report_end(real::measure_for_scenarios(request, show_measured));
            });
          }};
}

}  // namespace sim
