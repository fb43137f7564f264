// A report made by hand: every figure is known.
#pragma once

#include "sim/report/report.hpp"

namespace sim {

inline StageMemory small_stage(int stage) {
  StageMemory memory{.stage = stage,
                     .use = {},
                     .reserved = Bytes{2LL << 30},
                     .fragments = Bytes{1LL << 30},
                     .retries = 3,
                     .replayed = true,
                     .total = {},
                     .capacity = Bytes{80LL << 30},
                     .peak_operator = "mlp_up"};
  memory.use.at_peak = {Bytes{10LL << 30},          Bytes{5LL << 30}, Bytes{20LL << 30},
                        Bytes{(8LL + stage) << 30}, Bytes{0},         Bytes{1LL << 30}};
  for (const Bytes bytes : memory.use.at_peak)
    memory.use.peak += bytes;
  memory.total = memory.use.peak + memory.fragments + memory.reserved;
  return memory;
}

inline Report small_report() {
  Report report;
  report.scenario = "a \"small\" one";
  report.model = "gpt2";
  report.cluster = "box";
  report.device = "H100 SXM";
  report.ranks = 8;
  report.nodes = 1;
  report.gpus_per_node = 8;
  report.room = {.gpus = 8, .trays = 1, .nodes = 1};
  report.even_gpus_per_node = 8;
  report.layout.tensor_parallel = 2;
  report.layout.pipeline_parallel = 2;
  report.layout.data_parallel = 2;
  report.layout.sequence_length = 1024;
  report.layout.global_batch = 16;
  report.parameters = 124'439'808;
  report.tokens = 16 * 1024;
  report.step_time = std::chrono::milliseconds{100};
  report.tokens_per_second = 163'840;
  report.tokens_per_second_per_gpu = 20'480;
  report.model_rate_per_gpu = FlopRate::per_second(395.6e12);
  report.hardware_rate_per_gpu = FlopRate::per_second(494.5e12);
  report.peak_rate = FlopRate::per_second(989e12);
  report.mfu = 0.4;
  report.hfu = 0.5;
  report.counted_flops = CountedFlops::full;
  report.software = Software{.framework = "torchtitan",
                             .version = "",
                             .preset = "torchtitan",
                             .kernels = "layers compiled, loss eager, optimizer eager",
                             .attention = "flash-2 (FlashAttention-2)",
                             .allocator = "PyTorch's, expandable segments",
                             .unlike_preset = {"rotary eager"},
                             .newest = "2026",
                             .newest_has = {"loss keeps_logits"}};
  report.followed = {{"layout.data_parallel", "4", "2", "why"}};
  report.breakdown = {.compute = std::chrono::milliseconds{60},
                      .exposed_tensor = std::chrono::milliseconds{12},
                      .exposed_data = std::chrono::milliseconds{8},
                      .exposed_pipeline = std::chrono::milliseconds{4},
                      .bubble = std::chrono::milliseconds{15},
                      .host = std::chrono::milliseconds{1}};
  report.stage_breakdown = {report.breakdown, report.breakdown};
  report.bubble_share = 0.15;
  report.bubble_closed_form = 1.0 / 9;
  report.collectives = {{.kind = CollectiveKind::all_reduce,
                         .group = GroupRole::data,
                         .algorithm = "ring/simple",
                         .ranks = 2,
                         .count = 3,
                         .bytes = Bytes{100'000'000},
                         .mean_time = std::chrono::milliseconds{1}}};
  report.busiest_links = {{.link = LinkId{0},
                           .represents = 8,
                           .carried = Bytes{1'000'000'000},
                           .busy = std::chrono::milliseconds{10}}};
  report.link_names = {"node 0 gpu 0 -> nvswitch"};
  report.link_capacities = {Bandwidth::bytes_per_second(400e9)};
  for (int stage = 0; stage < 2; ++stage)
    report.memory.push_back(small_stage(stage));
  report.worst_stage = 1;
  report.what_if = {{FreedResource::compute, std::chrono::milliseconds{45}}};
  report.provenance.emplace();
  report.provenance->scenario_path = "small.yaml";
  report.engine = "simulated";
  report.seed = 7;
  report.stats = {.rank_classes = 2, .activities = 10, .events = 20};
  report.memory_error =
      MemoryError{.fraction = 0.05, .rows = 100, .measured = 60, .of = "megatron 1f1b"};
  return report;
}

}  // namespace sim
