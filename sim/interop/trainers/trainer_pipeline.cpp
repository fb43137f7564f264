// Stages of torch.distributed.pipelining under a trainer.
//
// NVIDIA-NeMo/Automodel at 36044ad3, components/distributed/pipelining: config.py (names and
// defaults), functional.py, calculate_virtual_stages; pytorch/pytorch at 00722e64,
// torch/distributed/pipelining/schedules.py (Schedule1F1B.__init__, ScheduleInterleaved1F1B).
#include <fmt/format.h>

#include "sim/base/rounding.hpp"
#include "sim/interop/trainers/trainer_job.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {
namespace {

// Layers of `stages`, which differ by one at most, the first ones with more.
std::vector<int> even_split(std::int64_t layers, std::int64_t stages) {
  std::vector<int> split;
  for (std::int64_t i = 0; i < stages; ++i)
    split.push_back(static_cast<int>(layers / stages + (i < layers % stages ? 1 : 0)));
  return split;
}

class TrainerPipelineReader : private SettingProblems {
 public:
  TrainerPipelineReader(const TrainerJob& job, const SettingProblems& problems, Imported& result)
      : SettingProblems{problems}, job_{job}, result_{result} {}

  void read() {
    schedule();
    stages();
    micro_batches();
    // Schedules of several stages send by actions of their own (_PipelineScheduleRuntime); the
    // others wait for their messages.
    layout().overlap_pipeline = rules_of(layout().schedule).chunks != RankChunks::one;
  }

 private:
  Layout& layout() { return result_.layout; }

  void schedule() {
    std::string name;
    for (const char c : job_.schedule.value_or("1f1b"))
      if (c != '_') name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (name == "interleaved1f1b")
      layout().schedule = Schedule::interleaved;
    else if (name == "gpipe")
      layout().schedule = Schedule::gpipe;
    else if (name != "1f1b")
      problem(job_.schedule,
              "the schedule {} is not modelled; modelled: 1f1b, gpipe, interleaved1f1b",
              job_.schedule.value_or("").substr(0, 80));
  }

  void stages() {
    const std::int64_t ranks = layout().pipeline_parallel, layers = result_.shape.layers;
    const bool single = layout().schedule != Schedule::interleaved;
    std::int64_t stages = ranks * (single ? 1 : 2);
    if (job_.layers_per_stage) {
      const std::int64_t each = size(job_.layers_per_stage, 1, 100'000);
      stages = divide_up(layers, each);
    }
    const std::string rounds = job_.round_stages.value_or("");
    if (rounds == "up")
      stages = round_up(stages, ranks);
    else if (rounds == "down")
      stages = stages / ranks * ranks;
    else if (!rounds.empty())
      problem(job_.round_stages, "is '{}'; allowed: up, down", rounds.substr(0, 80));
    if (stages < ranks || stages % ranks != 0 || (stages / ranks == 1) != single ||
        stages > layers) {
      problem(job_.layers_per_stage ? job_.layers_per_stage : job_.pipeline,
              "{} layers make {} stages on {} ranks, which do not go with the schedule {}", layers,
              stages, ranks, job_.schedule.value_or("1f1b").substr(0, 80));
      return;
    }
    layout().virtual_stages = static_cast<int>(stages / ranks);
    if (layers % stages != 0) layout().layers_per_chunk = even_split(layers, stages);
  }

  void micro_batches() {
    const std::int64_t local = layout().micro_batch;
    const std::int64_t micro = size(job_.pipeline_micro, 1, 1LL << 32);
    if (local % micro != 0)
      return problem(job_.pipeline_micro, "is {}, which does not divide the batch of a GPU, {}",
                     micro, local);
    layout().micro_batch = micro;
    if (layout().schedule == Schedule::one_f_one_b && local / micro < layout().pipeline_parallel)
      return problem(job_.pipeline_micro,
                     "makes {} micro-batches of {} for {} stages; 1F1B takes at least one for each",
                     local / micro, micro, layout().pipeline_parallel);
    runs(local * layout().data_parallel);
  }

  // A call of the schedule for each local batch (recipes/llm/train_ft.py, _forward_backward_step).
  void runs(std::int64_t batch) {
    constexpr std::int64_t most = 1'000'000;
    if (batch <= 0 || layout().global_batch % batch != 0) return;  // told elsewhere
    if (layout().global_batch / batch <= most)
      layout().pipeline_runs = static_cast<int>(layout().global_batch / batch);
    else
      problem(job_.pipeline_micro, "{} local batches in a step; allowed: up to {}",
              layout().global_batch / batch, most);
  }

  const TrainerJob& job_;
  Imported& result_;
};

}  // namespace

void read_trainer_pipeline(const TrainerJob& job, const SettingProblems& problems,
                           Imported& result) {
  if (result.layout.pipeline_parallel > 1) TrainerPipelineReader{job, problems, result}.read();
}

}  // namespace sim
