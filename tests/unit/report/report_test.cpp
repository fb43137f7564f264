#include "sim/report/report.hpp"

#include <algorithm>
#include <sstream>

#include "sim/report/numbers.hpp"
#include "sim/schedule/closed_form.hpp"
#include "tests/catch.hpp"
#include "tests/unit/report/fixture.hpp"

using namespace sim;

namespace {

// Columns on the screen: UTF-8 continuation bytes take none.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Layout pipeline(Schedule schedule, int stages, int micro_batches, int virtual_stages = 1) {
  Layout layout;
  layout.pipeline_parallel = stages;
  layout.virtual_stages = virtual_stages;
  layout.global_batch = micro_batches;
  layout.schedule = schedule;
  return layout;
}

}  // namespace

TEST_CASE("how full rows are, and who waits for whom, is said", "[report][packing]") {
  Report report = small_report();
  CHECK(load_lines(report).empty());
  CHECK(has(to_table(report), "16 sequences of 1,024 tokens per step"));
  report.layout.packing_lengths.name = "lognormal";
  BatchLoads& loads = report.loads.emplace();
  loads.tokens = 1024;
  loads.real_tokens = 768;
  loads.real_attended = 200.4;
  loads.sequences = 4.5;
  loads.imbalance = 1.02;
  loads.attention_imbalance = 1.3;
  CHECK(
      load_lines(report) ==
      std::vector<std::string>{
          "4.5 sequences in a row, 75.0 % of its tokens real; a token's sequence has 200 tokens in "
          "the mean",
          "the slowest of 2 replicas has 1.020 times the FLOPs of the mean one, 1.300 times its "
          "attention; all wait for it"});
  CHECK(has(to_table(report), "16 rows of 1,024 tokens per step"));
  CHECK(has(to_csv(report), "sequences.real_share,0.75"));
  report.layout.packing = Packing::pad_to_longest;
  loads.together = 2;
  loads.cut = 0.011;
  CHECK(load_lines(report) ==
        std::vector<std::string>{
            "rows of 1024 tokens in the mean, 75.0 % of them real; 1.1 % of the sequences are cut",
            "the slowest of 2 replicas, 2 of which go layer by layer together, has 1.020 times the "
            "FLOPs of the mean one, 1.300 times its attention; all wait for it"});
  CHECK(has(to_table(report), "16 rows of up to 1,024 tokens per step"));
}

TEST_CASE("the bubble's closed forms") {
  // GPipe (Huang et al. 2018) with 4 stages and 32 micro-batches: 3/35 of the step.
  CHECK_THAT(bubble_closed_form(pipeline(Schedule::gpipe, 4, 32)).share,
             WithinRel(3.0 / 35, 1e-12));
  CHECK_THAT(bubble_closed_form(pipeline(Schedule::one_f_one_b, 4, 32)).share,
             WithinRel(3.0 / 35, 1e-12));
  // Interleaving by v divides (P-1)/m by v: 3/(2*32) of the ideal time.
  CHECK_THAT(bubble_closed_form(pipeline(Schedule::interleaved, 4, 32, 2)).share,
             WithinRel((3.0 / 64) / (1 + 3.0 / 64), 1e-12));
  CHECK(bubble_closed_form(pipeline(Schedule::one_f_one_b, 1, 32)).share == 0);
  // Four runs of 8 micro-batches: 3/11 of each. Those of zb-v wait for each other in the first.
  Layout runs = pipeline(Schedule::one_f_one_b, 4, 32);
  runs.pipeline_runs = 4;
  CHECK_THAT(bubble_closed_form(runs).share, WithinRel(3.0 / 11, 1e-12));
  runs.schedule = Schedule::zb_v;
  CHECK_THAT(bubble_closed_form(runs).share, WithinRel(3.0 / (6 * 32 + 3), 1e-12));
}

TEST_CASE("no line of the text is wider than 100 columns") {
  std::istringstream text{to_table(small_report())};
  for (std::string line; std::getline(text, line);) {
    CAPTURE(line);
    CHECK(columns(line) <= 100);
  }
}

TEST_CASE("the text names the step, the rates and their units") {
  const std::string text = to_table(small_report());
  CHECK(has(text, "100.0 ms"));
  CHECK(has(text, "20,480"));
  CHECK(has(text, "40.0 %"));
  CHECK(has(text, "GB/s = 1e9 B/s"));
  CHECK(has(text, "3 a step"));
  CHECK(has(text, "(P-1)/(m+P-1) = 11.1 %"));
  CHECK_FALSE(has(text, "\x1b["));
  CHECK(has(to_table(small_report(), {.color = true}), "\x1b["));
}

TEST_CASE("bus bandwidth follows nccl-tests: 2(n-1)/n of the algorithm's for an all-reduce") {
  // 100 MB in 1 ms are 100 GB/s; with two ranks the factor is 1.
  CHECK(has(to_csv(small_report()), "collective.all_reduce.data.100000000.busbw,100,GB/s"));
}

TEST_CASE("CSV quotes what needs it") {
  const std::string csv = to_csv(small_report());
  CHECK(csv.starts_with("scenario,metric,value,unit\n"));
  CHECK(has(csv, "\"a \"\"small\"\" one\",step_time,0.1,s\n"));
}

TEST_CASE("a stage that is too large makes the whole not fit") {
  Report report = small_report();
  CHECK(report.fits());
  report.memory[1].total = Bytes{81LL << 30};
  CHECK_FALSE(report.fits());
  CHECK(has(to_table(report), "DOES NOT FIT"));
}

TEST_CASE("idle GPUs and groups that cross nodes are told in a line each") {
  Report report = small_report();
  CHECK(has(to_table(report), "box, 1 node of 8 GPUs\n"));
  report.ranks = 256;
  report.nodes = 4;
  report.gpus_per_node = 64;
  report.even_gpus_per_node = 64;
  report.room = {.gpus = 72, .trays = 18, .nodes = 4};
  CHECK(has(to_table(report), "box, 4 nodes of 72 GPUs, 64 of each used, 8 idle\n"));
  CHECK_FALSE(has(to_table(report), "!"));
  report.gpus_per_node = 72;
  report.crossing = {{.role = GroupRole::expert,
                      .ranks = 32,
                      .groups = 8,
                      .crossing = 3,
                      .nodes = 2,
                      .remedy = "cluster.gpus_per_node: 64"}};
  CHECK(has(to_table(report),
            "\n! 3 of 8 expert groups (32 ranks) cross nodes of 72 GPUs; set "
            "cluster.gpus_per_node: 64\n"
            "! the last node has 40 ranks, the others 72; set cluster.gpus_per_node: 64\n"));
  const std::string json = to_json(report);
  CHECK(has(json, "\"gpus_per_node\": 72,\n  \"idle_gpus_per_node\": 0,"));
  CHECK(has(json, "\"set\": \"cluster.gpus_per_node: 64\""));
  CHECK(has(json, "\"uneven_nodes\": \"the last node has 40 ranks, the others 72; set"));
}

TEST_CASE("what is left of the memory is told beside the forecast's error") {
  Report report = small_report();  // 48 of 80 GiB
  report.memory_error =
      MemoryError{.fraction = 0.03, .rows = 157, .measured = 157, .of = "megatron"};
  CHECK_FALSE(report.memory_in_doubt());
  CHECK(has(to_table(report), "48.0 of 80.0 GiB: fits\n"));
  CHECK(has(to_table(report),
            "  left                   32.00 GiB   40.0 %  beyond its error, 3.0 % (157 runs, "
            "megatron)\n"));
  // 78 GiB and 3 % are 80.3.
  report.memory[1].total = Bytes{78LL << 30};
  CHECK(report.fits());
  CHECK(report.memory_in_doubt());
  CHECK(has(to_table(report), "78.0 of 80.0 GiB: may not fit\n"));
  CHECK(has(memory_table(report),
            "  left                    2.00 GiB    2.5 %  inside its error, 3.0 % (157 runs, "
            "megatron)\n"));
  CHECK(has(to_csv(report), "memory_in_doubt,true,"));
  CHECK(has(memory_json(report), "\"memory_in_doubt\": true"));
  // 77.6 GiB and 3 % are less than 80.
  report.memory[1].total = Bytes{(77LL << 30) + (6LL << 30) / 10};
  CHECK_FALSE(report.memory_in_doubt());
  report.memory[1].total = Bytes{81LL << 30};
  CHECK_FALSE(report.memory_in_doubt());
  CHECK_FALSE(has(to_table(report), "  left  "));
}

TEST_CASE("without figures of its error a forecast says nothing of it") {
  Report report = small_report();
  report.memory_error.reset();
  report.memory[1].total = Bytes{80LL << 30};
  CHECK_FALSE(report.memory_in_doubt());
  CHECK_FALSE(has(to_table(report), "  left  "));
  CHECK_FALSE(has(memory_json(report), "memory_error"));
}

TEST_CASE("one line says which software is forecast, others what differs from its preset",
          "[report]") {
  Report report = small_report();
  report.import_notes = {{"--deterministic-mode", "kernels are modelled at full speed", true}};
  const std::string line = software_line(*report.software);
  CHECK(line ==
        "torchtitan without a version (preset torchtitan): layers compiled, loss eager, optimizer "
        "eager; attention flash-2 (FlashAttention-2); allocator PyTorch's, expandable segments");
  CHECK(software_differences(*report.software) ==
        std::vector<std::string>{"unlike preset torchtitan: rotary eager",
                                 "framework.version 2026 would have: loss keeps_logits"});
  CHECK(has(to_table(report), "software: torchtitan without a version (preset torchtitan)"));
  CHECK(has(memory_table(report), "software: torchtitan without a version (preset torchtitan)"));
  CHECK(has(to_csv(report), line));
  CHECK(has(to_json(report), "\"preset\": \"torchtitan\""));
  CHECK(note_lines(report).front() == "--deterministic-mode: kernels are modelled at full speed");
  CHECK(has(to_json(report), "kernels are modelled at full speed"));
}

TEST_CASE("facts of a report in words", "[report]") {
  Report report = small_report();
  report.unmoved = {{"cluster.change.node.nics.bandwidth", "x0.5", "no message takes a NIC"}};
  CHECK(note_lines(report) ==
        std::vector<std::string>{"layout.data_parallel follows: 2 instead of 4 (why)",
                                 "cluster.change.node.nics.bandwidth=x0.5 does not change the "
                                 "step: no message takes a NIC"});
  report.counted_flops = CountedFlops::listed;
  CHECK(flop_formula(report) ==
        "forward and backward FLOPs of every layer as the model file lists them");
  report.provenance =
      Provenance{.scenario_path = "s.yaml",
                 .model_path = "m.yaml",
                 .model_source = "a paper",
                 .cluster_path = "c.yaml",
                 .model_notes = {"no dropout"},
                 .cluster_sources = {"a data sheet"},
                 .device_origin = "fitted",
                 .window =
                     AttentionWindow{
                         .tokens = 4, .sequence = 8, .layers = 1, .of_layers = 2, .skipped = false},
                 .jitter = 0.5,
                 .device_spread = 0.01,
                 .stragglers = {{.rank = RankId{3}, .factor = 1.5}},
                 .faults = {{.where = "node 0 nic 1", .factor = 0.5}}};
  std::vector<std::string> lines = provenance_lines(report);
  CHECK(lines.back().starts_with("stepcast  "));
  lines.pop_back();
  CHECK(lines ==
        std::vector<std::string>{
            "scenario  s.yaml", "model     m.yaml (a paper)", "          no dropout",
            "          attention sees a window of 4 of 8 tokens in 1 of 2 layers, which unfused "
            "kernels do not skip",
            "cluster   c.yaml", "          a data sheet", "kernels   H100 SXM: fitted",
            "engine    simulated, fluid collectives, folded, seed 7, jitter 0.5",
            "devices   speed spread 1%: products and attention at the slowest of 8",
            "injected  rank 3 takes 1.5 times as long",
            "injected  node 0 nic 1 at 0.5 of its capacity"});
  report.provenance.reset();
  CHECK(provenance_lines(report).empty());
}
