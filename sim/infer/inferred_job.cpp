#include "sim/infer/inferred_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/infer/groups_seen.hpp"
#include "sim/infer/model_match.hpp"
#include "sim/model/model.hpp"
#include "sim/topology/cluster.hpp"
#include "sim/topology/device_of_gpu.hpp"

namespace sim {
namespace {

constexpr int most_tensor_ranks = 64;

[[noreturn]] void fail_of(const TracedRun& run, const std::string& what) {
  throw InputError{SourcePosition{run.ranks.empty() ? "trace" : run.ranks.front().source, 0, 0},
                   what};
}

std::string widths_text(const ObservedWork& work) {
  std::string text;
  constexpr std::size_t shown = 6;
  for (std::size_t i = 0; i < std::min(shown, work.linears.size()); ++i)
    text +=
        fmt::format("{}{} x {}", i == 0 ? "" : ", ", work.linears[i].narrow, work.linears[i].wide);
  return text;
}

// A rank whose products tell most: one that computes the head says how many micro-batches there
// are.
struct ReadRank {
  std::size_t rank = 0, step = 0;
  ObservedWork work;
  ModelMatch match;
  std::vector<std::string> others;  // models that match as well
};

class JobReader {
 public:
  JobReader(const TracedRun& run, const RunSteps& steps, const JobHints& hints)
      : run_{run}, steps_{steps}, hints_{hints} {}

  InferredJob read() {
    choose_rank();
    const ModelMatch& match = read_.match;
    const Model model = load_model(find_data_file("models", match.model));
    add("model", match.model, fmt::format("widths {}", widths_text(read_.work)));
    for (const std::string& other : read_.others)
      job_.notes.push_back(fmt::format("the model may be {}: its layers are alike", other));
    machine();
    framework();
    grid(model);
    batch(model);
    sharding(model);
    numbers();
    if (match.recomputed) add("layout.recompute", "full", "forward products run twice");
    return std::move(job_);
  }

 private:
  void add(std::string key, std::string value, std::string from) {
    job_.keys.push_back({std::move(key), std::move(value), std::move(from), false});
  }
  void assume(std::string key, std::string value, std::string from) {
    job_.keys.push_back({std::move(key), std::move(value), std::move(from), true});
  }
  const RunRank& rank() const { return run_.ranks[read_.rank]; }
  const RankSteps& rank_steps() const { return steps_.ranks[read_.rank]; }

  void choose_rank() {
    std::optional<ObservedWork> seen;
    const std::size_t step = steps_.count() - 1;
    const std::vector<ShippedModel> models = shipped_models();
    for (std::size_t r = 0; r < run_.ranks.size(); ++r) {
      std::optional<ObservedWork> work = observed_work(run_.ranks[r], steps_.ranks[r], step);
      if (!work) continue;
      std::vector<ModelMatch> matches = matching_models(*work, models, most_tensor_ranks);
      if (!hints_.model.empty())
        std::erase_if(matches, [&](const ModelMatch& m) { return m.model != hints_.model; });
      if (!matches.empty() &&
          (read_.match.model.empty() || (read_.match.head == 0 && matches.front().head > 0)))
        take(r, step, *work, matches);
      if (!seen) seen = std::move(work);
    }
    if (!read_.match.model.empty()) return;
    if (!seen)
      fail_of(run_,
              "no matrix product has its shape: let the profiler record shapes "
              "(record_shapes=True)");
    fail_of(run_, fmt::format("no shipped model has layers of these widths ({}), with {} tokens a "
                              "micro-batch; `stepcast import hf` reads a config.json",
                              widths_text(*seen), seen->tokens));
  }

  void take(std::size_t rank, std::size_t step, const ObservedWork& work,
            const std::vector<ModelMatch>& matches) {
    read_ = {rank, step, work, matches.front(), {}};
    for (const ModelMatch& match : matches)
      if (match.model != read_.match.model && match.share > read_.match.share - 1e-3 &&
          match.tensor_parallel == read_.match.tensor_parallel)
        read_.others.push_back(match.model);
  }

  void machine() {
    const std::string device = device_of_gpu(run_.device.name);
    if (!hints_.cluster.empty()) {
      cluster_ = hints_.cluster;
      add("cluster.path", cluster_, "as given");
      return;
    }
    for (const std::string& name : data_files("topologies")) {
      if (device.empty() || Cluster::load(find_data_file("topologies", name)).device().name !=
                                load_device(find_data_file("topologies/devices", device)).name)
        continue;
      if (cluster_.empty() || (name.starts_with("dgx") && !cluster_.starts_with("dgx")))
        cluster_ = name;
    }
    if (cluster_.empty() && run_.on_host)
      fail_of(run_, "the trace is of CPUs, and no shipped cluster has those: give --cluster NAME");
    if (cluster_.empty())
      fail_of(run_, fmt::format("the GPU '{}' is in no shipped cluster: give --cluster NAME",
                                run_.device.name));
    assume("cluster.path", cluster_, fmt::format("its GPU is {}", run_.device.name));
  }

  bool names_hold(const char* word) const {
    return std::any_of(run_.names.begin(), run_.names.end(), [&](const std::string& name) {
      return name.find(word) != std::string::npos;
    });
  }

  void framework() {
    struct Sign {
      const char* word;
      const char* preset;
    };
    for (const Sign sign :
         {Sign{"transformer_engine", "megatron"}, Sign{"LayerNormLinear", "megatron"},
          Sign{"deepspeed", "deepspeed"}, Sign{"DeepSpeed", "deepspeed"}, Sign{"FSDP::", "fsdp2"},
          Sign{"FullyShardedDataParallel", "fsdp1"}, Sign{"DistributedDataParallel", "pytorch"}})
      if (names_hold(sign.word))
        return add("framework", sign.preset, fmt::format("'{}' in names", sign.word));
    for (const TracedGroup& group : run_.groups)
      if (group.description.find("_PARALLEL_GROUP") != std::string::npos)
        return add("framework", "megatron", "names of process groups");
    job_.notes.emplace_back("which framework ran it is not told: kernels are Megatron-LM's");
  }

  void grid(const Model& model) {
    const int tensor = read_.match.tensor_parallel;
    world_ = run_.world_size > 0 ? run_.world_size : static_cast<int>(run_.ranks.size());
    if (run_.world_size == 0)
      job_.notes.push_back(
          fmt::format("the traces do not say how many ranks the job had: {} "
                      "were given",
                      world_));
    context_ = size_of_use(run_, GroupUse::context).value_or(1);
    pipeline_ = pipeline_stages(model);
    const int inner = tensor * context_ * pipeline_;
    data_ = world_ / inner;
    if (data_ * inner != world_)
      fail_of(run_, fmt::format("{} ranks are no multiple of tensor {} x context {} x pipeline {}, "
                                "as widths, groups and layers say",
                                world_, tensor, context_, pipeline_));
    assume("cluster.gpus", fmt::format("{}", world_), "all ranks");
    add("layout.tensor_parallel", fmt::format("{}", tensor), "widths over those of the model");
    if (context_ > 1) add("layout.context_parallel", fmt::format("{}", context_), "groups");
    add("layout.pipeline_parallel", fmt::format("{}", pipeline_), pipeline_from_);
    add("layout.data_parallel", fmt::format("{}", data_), "the other ranks");
  }

  // Stages send to each other: fewer layers than the model's, and no messages, are another model.
  int pipeline_stages(const Model& model) {
    const int stages = stages_by_layers(model);
    const bool messages =
        std::any_of(rank().device.begin(), rank().device.end(), [](const DeviceActivity& activity) {
          return activity.kind == OpKind::send || activity.kind == OpKind::recv;
        });
    if (stages > 1 && !messages)
      fail_of(run_, fmt::format("its widths are those of {}, but not its layers ({}), and no "
                                "messages go between stages: no shipped model is this one; "
                                "`stepcast import hf` reads a config.json",
                                read_.match.model, pipeline_from_));
    return stages;
  }

  // Layers of this rank times micro-batches are known; the head, or a group, tells them apart.
  int stages_by_layers(const Model& model) {
    const double repeats = read_.match.repeats;
    if (const std::optional<int> size = size_of_use(run_, GroupUse::pipeline)) {
      pipeline_from_ = "groups";
      micro_batches_ = std::max<std::int64_t>(1, std::llround(repeats * *size));
      return *size;
    }
    if (read_.match.head > 0) {
      const double stages = read_.match.head / repeats;
      pipeline_from_ =
          fmt::format("{:.0f} layers beside the head, of {}",
                      repeats / read_.match.head * static_cast<double>(model.layers.size()),
                      model.layers.size());
      micro_batches_ = std::llround(read_.match.head);
      return static_cast<int>(std::max(1.0, std::round(stages)));
    }
    pipeline_from_ = repeats < 1 ? fmt::format("{:.2g} of all layers are on this rank", repeats)
                                 : "all layers are on this rank";
    micro_batches_ = std::max<std::int64_t>(1, std::llround(repeats));
    return repeats < 1 ? static_cast<int>(std::lround(1 / repeats)) : 1;
  }

  void batch(const Model& model) {
    const std::int64_t tokens = read_.work.tokens * context_;
    std::int64_t length = hints_.sequence_length > 0 ? hints_.sequence_length : tokens;
    if (hints_.sequence_length == 0 && model.max_sequence > 0 && length > model.max_sequence)
      length = model.max_sequence;
    const std::int64_t sequences = std::max<std::int64_t>(1, tokens / length);
    if (sequences * length != tokens)
      fail_of(run_, fmt::format("a micro-batch has {} tokens: no multiple of sequences of {}",
                                tokens, length));
    const std::string from = fmt::format("{} tokens a micro-batch", tokens);
    (hints_.sequence_length > 0
         ? add("layout.sequence_length", fmt::format("{}", length), "as given")
         : assume("layout.sequence_length", fmt::format("{}", length), from));
    assume("layout.micro_batch", fmt::format("{}", sequences), from);
    add("layout.global_batch", fmt::format("{}", sequences * micro_batches_ * data_),
        fmt::format("{} micro-batches on {} data-parallel ranks", micro_batches_, data_));
  }

  // Weights that are sharded are gathered for each layer, forward and backward; an optimizer that
  // is sharded gathers each bucket once, as often as it reduces one.
  void sharding(const Model& model) {
    const DataTraffic traffic = data_traffic(run_, rank(), rank_steps(), read_.step);
    if (read_.match.tensor_parallel > 1 && traffic.tensor_scatters)
      add("layout.sequence_parallel", "true", "reduce-scatters of tensor groups");
    if (data_ == 1) return;
    const std::int64_t layers = static_cast<std::int64_t>(model.layers.size()) / pipeline_;
    if (traffic.all_gathers + traffic.all_reduces + traffic.reduce_scatters == 0)
      job_.notes.emplace_back(
          "no collective between data-parallel ranks is told apart: zero_stage "
          "is not known");
    else if (traffic.all_gathers >= layers &&
             2 * traffic.all_gathers >= 3 * traffic.reduce_scatters)
      add("layout.zero_stage", "3",
          fmt::format("{} all-gathers a step: weights are gathered layer by layer",
                      traffic.all_gathers));
    else if (traffic.reduce_scatters > 0)
      add("layout.zero_stage", "1",
          fmt::format("{} reduce-scatters, {} all-gathers a step", traffic.reduce_scatters,
                      traffic.all_gathers));
    else
      add("layout.zero_stage", "0", fmt::format("{} all-reduces a step", traffic.all_reduces));
  }

  void numbers() {
    if (names_hold("e4m3") || names_hold("_scaled_mm") || names_hold("fp8_gemm"))
      add("layout.compute_dtype", "fp8", "names of kernels");
    else if (!names_hold("bf16") && !names_hold("BFloat16") && names_hold("f16"))
      add("layout.compute_dtype", "fp16", "names of kernels");
    else if (const std::optional<DType> told = type_of_products())
      add("layout.compute_dtype", std::string{word(*told)}, "inputs of products");
    else
      assume("layout.compute_dtype", "bf16", "names of kernels");
  }

  // The type of the shapes with most work.
  std::optional<DType> type_of_products() const {
    std::map<DType, double> flops;
    for (const Kernel& work : rank().works)
      if (work.kind == OpKind::gemm) flops[work.dtype] += work.flops.count();
    const auto most =
        std::max_element(flops.begin(), flops.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == flops.end() ? std::nullopt : std::optional{most->first};
  }

  const TracedRun& run_;
  const RunSteps& steps_;
  const JobHints& hints_;
  InferredJob job_;
  ReadRank read_;
  std::string cluster_, pipeline_from_;
  int world_ = 1, context_ = 1, pipeline_ = 1, data_ = 1;
  std::int64_t micro_batches_ = 1;
};

}  // namespace

InferredJob infer_job(const TracedRun& run, const RunSteps& steps, const JobHints& hints) {
  if (steps.count() == 0) fail_of(run, "it has no step");
  return JobReader{run, steps, hints}.read();
}

std::string inferred_scenario(const InferredJob& job, const std::string& name) {
  std::string text = fmt::format(
      "# What a trace tells of its job. Lines with (assumed) are not in "
      "the trace: check them.\nname: {}\n",
      name);
  for (const std::string& section :
       {std::string{}, std::string{"cluster"}, std::string{"layout"}}) {
    if (!section.empty()) text += section + ":\n";
    for (const InferredKey& key : job.keys) {
      const std::size_t dot = key.key.find('.');
      const std::size_t name_at = dot == std::string::npos ? 0 : dot + 1;
      if (key.key.substr(0, name_at == 0 ? 0 : dot) != section) continue;
      text +=
          fmt::format("{}{}: {}  # {}{}\n", section.empty() ? "" : "  ", key.key.substr(name_at),
                      key.value, key.assumed ? "(assumed) " : "", key.from);
    }
  }
  for (const std::string& note : job.notes)
    text += "# " + note + "\n";
  return text;
}

std::string inferred_table(const InferredJob& job) {
  std::string text;
  for (const InferredKey& key : job.keys)
    text += fmt::format("{:<26} {:<20} {:<8} {}\n", key.key, key.value,
                        key.assumed ? "assumed" : "told", key.from);
  for (const std::string& note : job.notes)
    text += "note: " + note + "\n";
  return text;
}

}  // namespace sim
