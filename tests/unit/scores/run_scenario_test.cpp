// Tables of runs: what is refused as malformed, what is listed as not simulated and why, and by
// which rules the rest becomes a model, a machine and a layout.
#include "sim/rows/run_scenario.hpp"

#include <filesystem>
#include <fstream>

#include "sim/engine/simulate.hpp"
#include "sim/framework/bucket_sizes.hpp"
#include "sim/framework/framework.hpp"
#include "sim/plan/plan.hpp"
#include "sim/rows/measured_rows.hpp"
#include "sim/scores/predict.hpp"
#include "sim/scores/row_yaml.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;

using test::cells_with, test::header, test::reason, test::sound;

std::string problems_of(const std::string& text) {
  try {
    read_runs(CsvTable::parse(text, "t.csv"));
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems())
      all += std::to_string(problem.where.line) + ": " + problem.what + "\n";
    return all;
  }
  return "";
}

TEST_CASE("a table of runs is read by the names of its columns", "[scores]") {
  const std::vector<MeasuredRow> rows =
      read_runs(CsvTable::parse(header + sound +
                                    "fit,r1,OOM,A100-80GB,8,200,16,GPT,4,1024,16,4096,50257,1024,"
                                    "flash,2,2,4,1,16,bf16,none,\n",
                                "t.csv"));
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].id == "r0");
  REQUIRE(rows[0].has_time());
  REQUIRE(rows[0].measured == std::chrono::milliseconds{1500});
  REQUIRE(rows[1].use == RowUse::fit);
  REQUIRE(rows[1].outcome == Outcome::out_of_memory);
  REQUIRE_FALSE(rows[1].has_time());
}

TEST_CASE("a malformed table of runs is refused with all its problems", "[scores]") {
  REQUIRE(problems_of("use,row_id,layer\nscore,r,1\n")
              .find("1: there is no column 'layer'; did you mean 'layers'?\n") == 0);
  REQUIRE(problems_of("use,row_id,zzz\n") ==
          "1: there is no column 'zzz'; allowed: use, row_id, source and 66 more\n"
          "1: the columns gpu, gpus_per_node, num_gpus, model, layers, hidden, heads, ffn, vocab, "
          "seq_len, precision, step_time_s are missing\n");
  REQUIRE(problems_of(header) == "0: has no rows\n");
  std::string bad = sound;
  bad.replace(bad.find("score"), 5, "maybe");
  bad.replace(bad.find(",4,1024,16,"), 3, ",x,");
  REQUIRE(problems_of(header + sound + bad) ==
          "3: use is 'maybe'; allowed: score, fit\n"
          "3: a row above has the row_id 'r0' too\n"
          "3: layers is 'x'; allowed: a whole number from 0 to 2147483647\n");
  std::string timed = sound;
  timed.replace(timed.find(",ok,"), 4, ",OOM,");
  REQUIRE(problems_of(header + timed) == "2: a run that ended out of memory has no step_time_s\n");
}

TEST_CASE("what cannot be simulated is told with its reason", "[scores]") {
  REQUIRE(reason({}).empty());
  REQUIRE(reason({{"ep", "2"}}) == "expert_parallel is given, but GPT has no experts");
  REQUIRE(reason({{"moe_experts", "8"}}) == "moe_topk is empty");
  REQUIRE(reason({{"moe_experts", "8"}, {"moe_topk", "2"}, {"moe_dense_layers", "99"}}) ==
          "moe_dense_layers is 99; allowed: 0 to 3");
  REQUIRE(reason({{"gpu", "MI250X"}}) == "no device file for the GPU 'MI250X'");
  REQUIRE(reason({{"gpu", "H100 NVL 80GB"}}) ==
          "no device file for the GPU 'H100 NVL 80GB' with 80 GB");
  REQUIRE(reason({{"gpu_mem_gb", "64"}}) == "no device file for the GPU 'A100-80GB' with 64 GB");
  REQUIRE(reason({{"inter_node_gbps_per_gpu", ""}}) ==
          "inter_node_gbps_per_gpu is empty, and the run left its node");
  REQUIRE(reason({{"recompute", "full, block, 4 layers"}}) ==
          "recompute is 'full, block, 4 layers': recomputing a part of a stage's layers is not "
          "modelled");
  REQUIRE(reason({{"layers", ""}}) == "layers is empty");
  REQUIRE(reason({{"recompute", ""}}) == "recompute is empty");
  REQUIRE(reason({{"precision", "int4"}})
              .starts_with("precision is 'int4', which is not known; allowed: "));
  REQUIRE(reason({{"num_gpus", "8"}}) == "tp 2 x cp 1 x pp 2 x dp 4 is 16 GPUs, num_gpus is 8");
  REQUIRE(reason({{"heads", "48"}}) ==
          "heads is 48, which does not divide hidden 1024, and head_dim is empty");
  REQUIRE(reason({{"gpus_per_node", "4"}}) ==
          "gpus_per_node is 4, the nodes of topologies/dgx-a100-80.yaml have 8");
  REQUIRE(reason({{"precision", "fp8"}}) == "the A100 SXM4 80 GB does not compute in fp8");
}

TEST_CASE("names of GPUs that hold each other are told apart", "[scores]") {
  const auto file = [](const char* gpu) { return run_machine(cells_with({{"gpu", gpu}})).file; };
  REQUIRE(file("NVIDIA H200 141GB") == "topologies/dgx-h200.yaml");
  REQUIRE(file("H20 96GB") == "topologies/h20-8.yaml");
  REQUIRE(file("GH200 96GB") == "topologies/gh200-4.yaml");
  REQUIRE(file("H100 NVL 94GB") == "topologies/h100-nvl.yaml");
  REQUIRE(file("NVIDIA B300 SXM6 AC") == "topologies/dgx-b300.yaml");
  REQUIRE(file("AMD Instinct MI300X") == "topologies/mi300x-8.yaml");
  REQUIRE(file("AMD Instinct MI325X 256GB") == "topologies/mi325x-8.yaml");
  REQUIRE(file("NVIDIA GeForce RTX 5090") == "topologies/rtx5090-8.yaml");
  REQUIRE(reason({{"gpu", "H20-3e 141GB"}}) ==
          "no device file for the GPU 'H20-3e 141GB' with 141 GB");
}

TEST_CASE("context parallelism goes round a ring", "[scores]") {
  const Layout ring = run_layout(cells_with({{"cp", "2"}, {"num_gpus", "32"}}));
  REQUIRE(ring.context_parallel == 2);
  REQUIRE(ring.world_size() == 32);
  REQUIRE(ring.context_exchange == ContextExchange::ring);
  // torchtitan's default rotate method is allgather.
  const Layout gathered =
      run_layout(cells_with({{"cp", "2"}, {"num_gpus", "32"}, {"shard_strategy", "FSDP2"}}));
  REQUIRE(gathered.context_exchange == ContextExchange::all_gather);
  const auto said = [](const char* column, const char* text) {
    return run_layout(cells_with({{"cp", "2"}, {"num_gpus", "32"}, {column, text}}))
        .context_exchange;
  };
  REQUIRE(said("notes", "TE 2.8, CP a2a, cuDNN") == ContextExchange::all_to_all);
  REQUIRE(said("overlap", "cp a2a") == ContextExchange::all_to_all);
  REQUIRE(said("notes", "cp all-gather") == ContextExchange::all_gather);
  REQUIRE(said("notes", "a2a of experts") == ContextExchange::ring);
}

TEST_CASE("embedding and loss take the places of layers that are missing", "[scores]") {
  const auto split = [](const char* layers, const char* vpp) {
    return run_layout(cells_with({{"layers", layers}, {"pp", "2"}, {"vpp", vpp}})).layers_per_chunk;
  };
  REQUIRE(split("4", "2").empty());
  REQUIRE(split("6", "2") == std::vector<int>{1, 2, 2, 1});
  REQUIRE(split("2", "2") == std::vector<int>{0, 1, 1, 0});
  REQUIRE(split("5", "2").empty());  // refused later
}

TEST_CASE("the family comes from the name, else from the width of the MLP", "[scores]") {
  const Model named = run_model(cells_with({{"model", "LLaMA-13B"}, {"ffn", "2752"}}));
  REQUIRE(named.family == "llama");
  REQUIRE_FALSE(named.tied_embedding);
  REQUIRE(run_model(cells_with({{"model", "ours"}})).family == "gpt");
  // 4 (4 h^2 + 3 h f) + 2 v h + norms: no biases, a gated MLP, an untied head.
  const Model gated = run_model(cells_with({{"model", "ours"}, {"ffn", "2752"}}));
  REQUIRE(gated.parameters() ==
          4 * (4 * 1024 * 1024 + 3 * 1024 * 2752 + 2 * 1024) + 2LL * 50257 * 1024 + 1024);
}

TEST_CASE("the fabric is the one with the row's bandwidth per GPU", "[scores]") {
  REQUIRE(run_machine(cells_with({})).file == "topologies/dgx-a100-80.yaml");
  REQUIRE(run_machine(cells_with({})).changes.cluster.empty());
  REQUIRE(run_machine(cells_with({{"inter_node_gbps_per_gpu", "100"}})).file ==
          "validation/machines/a100-80-4x200g.yaml");
  REQUIRE(
      run_machine(
          cells_with({{"gpu", "H100-80GB"}, {"num_gpus", "8"}, {"inter_node_gbps_per_gpu", ""}}))
          .file == "topologies/dgx-h100.yaml");
}

TEST_CASE("NICs of another rate are those of the nearest fabric, changed", "[scores]") {
  const auto machine = [](const char* gpu, const char* net, const char* gbps) {
    return run_machine(
        cells_with({{"gpu", gpu}, {"inter_node_net", net}, {"inter_node_gbps_per_gpu", gbps}}));
  };
  const RunMachine slow = machine("H100-80GB", "", "100");
  REQUIRE(slow.file == "topologies/dgx-h100.yaml");
  REQUIRE(slow.changes.cluster.size() == 1);
  REQUIRE(slow.changes.cluster[0].key == "node.nics.bandwidth");
  REQUIRE(slow.changes.cluster[0].value == "x0.25");
  REQUIRE(machine("H100-80GB", "RoCE", "400").file == "topologies/h100-roce.yaml");
  REQUIRE(machine("H100-80GB", "TCPX", "100").file == "topologies/gcp-a3-high.yaml");
  REQUIRE(machine("H100-80GB", "GPUDirect-TCPXO", "200").file == "topologies/gcp-a3-mega.yaml");
  REQUIRE(machine("H100 PCIe 80GB", "", "100").file == "topologies/h100-pcie.yaml");
  REQUIRE(reason({{"inter_node_gbps_per_gpu", "0"}}) ==
          "inter_node_gbps_per_gpu is 0; allowed: up to 100000");
  // The changed cell is what is simulated.
  const Scenario changed =
      run_scenario(cells_with({{"inter_node_gbps_per_gpu", "50"}}), sim::test::source_dir());
  const Scenario plain =
      run_scenario(cells_with({{"inter_node_gbps_per_gpu", "100"}}), sim::test::source_dir());
  const auto rate = [](const Scenario& run) {
    return run.cluster.route(GpuId{0}, GpuId{8}).bandwidth.in_bytes_per_second();
  };
  REQUIRE(rate(changed) == Approx(12.5e9));  // a NIC of 100 Gb/s between two GPUs
  REQUIRE(rate(plain) > 1.5 * rate(changed));
}

TEST_CASE("a row that is written as a scenario is simulated as the row", "[scores]") {
  const auto same_time = [](const std::vector<std::pair<std::string, std::string>>& changes) {
    MeasuredSet set;
    set.source = "here";
    set.data_folder = sim::test::source_dir();
    MeasuredRow row;
    row.id = "r0";
    row.cells = cells_with(changes);
    row.measured = std::chrono::milliseconds{1500};
    const std::filesystem::path file = test::temporary_path("row.yaml");
    const std::string text = row_yaml(set, row, file.parent_path().string());
    std::ofstream{file} << text;
    CHECK(text.find("measured: 1.5 s of a step") != std::string::npos);
    const Scenario read = load_scenario(file.string());
    const Simulation simulation =
        simulate(make_plan(read.model, read.layout), read.cluster, read.options);
    const RowResult result = predict(set, row);
    REQUIRE(result.prediction);
    CHECK(simulation.timeline.end.time_since_epoch() == result.prediction->time);
    std::filesystem::remove(file);
  };
  same_time({});
  same_time({{"inter_node_gbps_per_gpu", "50"}, {"recompute", "full"}});
  same_time({{"model", "llama"},
             {"ffn", "2752"},
             {"host_issue_us", "30"},
             {"shard_strategy", "FSDP2"},
             {"zero_stage", "3"},
             {"pp", "1"},
             {"tp", "1"},
             {"dp", "16"}});
}

TEST_CASE("a file is named after a row only where the name is one everywhere", "[scores]") {
  CHECK(names_a_file("sc21_table1-0000"));
  CHECK_FALSE(names_a_file(""));
  CHECK_FALSE(names_a_file("../r0"));
  CHECK_FALSE(names_a_file(".r0"));
  CHECK_FALSE(names_a_file("a b"));
}

TEST_CASE("trays of an NVL72 make racks with the same share of a job", "[scores]") {
  const auto cells = [](const char* gpus, const char* dp) {
    return cells_with({{"gpu", "GB200"},
                       {"gpus_per_node", "4"},
                       {"inter_node_gbps_per_gpu", "400"},
                       {"num_gpus", gpus},
                       {"gbs", "80640"},
                       {"dp", dp}});
  };
  const auto cluster = [&](const char* gpus, const char* dp) {
    return run_scenario(cells(gpus, dp), sim::test::source_dir()).cluster;
  };
  REQUIRE(cluster("128", "32").nodes() == 2);
  REQUIRE(cluster("128", "32").gpus_per_node() == 64);
  REQUIRE(cluster("16", "").gpus() == 16);
  // Each pipeline stage, 2 x 20 ranks, has a rack.
  REQUIRE(cluster("80", "20").gpus_per_node() == 40);
  // 1,008 GPUs are 14 full racks.
  REQUIRE(cluster("1008", "252").gpus_per_node() == 72);
  // 1,024 fill no number of racks that just holds them; 15 of 72 are used.
  REQUIRE(cluster("1024", "256").nodes() == 15);
  REQUIRE(reason({{"gpu", "GB200"},
                  {"gpus_per_node", "4"},
                  {"inter_node_gbps_per_gpu", "400"},
                  {"num_gpus", "74"},
                  {"pp", "1"},
                  {"dp", "37"},
                  {"gbs", "37"}}) == "74 GPUs are no whole trays");
}

TEST_CASE("a table may count racks as nodes, full ones or with trays to spare", "[scores]") {
  const auto cluster = [](const char* per_node, const char* gpus, const char* dp,
                          const char* tp = "2") {
    return run_scenario(cells_with({{"gpu", "GB200"},
                                    {"gpus_per_node", per_node},
                                    {"inter_node_gbps_per_gpu", "400"},
                                    {"num_gpus", gpus},
                                    {"gbs", "80640"},
                                    {"dp", dp},
                                    {"tp", tp}}),
                        sim::test::source_dir())
        .cluster;
  };
  REQUIRE(cluster("64", "128", "32").gpus_per_node() == 64);
  REQUIRE(cluster("64", "128", "32").nodes() == 2);
  REQUIRE(cluster("72", "144", "36").gpus_per_node() == 72);
  REQUIRE(cluster("72", "128", "4", "16").gpus_per_node() == 64);  // groups of 16 stay whole
  REQUIRE_THROWS_WITH(cluster("6", "144", "36"),
                      "gpus_per_node is 6, the racks of topologies/gb200-nvl72.yaml have 72 in "
                      "trays of 4");
}

TEST_CASE("what runs beside what follows the overlap column, else the generation", "[scores]") {
  const Layout old = run_layout(cells_with({}));
  REQUIRE(old.overlap_gradients);
  REQUIRE_FALSE(old.overlap_pipeline);
  REQUIRE_FALSE(old.overlap_tensor_wgrad);
  const Layout modern = run_layout(
      cells_with({{"dist_optimizer", "True"}, {"vpp", "2"}, {"pp_schedule", "interleaved-1F1B"}}));
  REQUIRE(modern.zero_stage == 1);
  REQUIRE(modern.schedule == Schedule::interleaved);
  REQUIRE(modern.overlap_pipeline);
  REQUIRE(modern.overlap_tensor_wgrad);
  const std::pair<std::string, std::string> buffers{"overlap", "TP comm overlap (userbuffers)"};
  REQUIRE_FALSE(modern.overlap_tensor_products);
  REQUIRE(run_layout(cells_with({buffers, {"seq_parallel", "True"}})).overlap_tensor_products);
  REQUIRE_FALSE(run_layout(cells_with({buffers})).overlap_tensor_products);
  const auto titan = [](const char* overlap) {
    return run_layout(
        cells_with({{"shard_strategy", "FSDP2"}, {"overlap", overlap}, {"seq_parallel", "True"}}));
  };
  REQUIRE(titan("AsyncTP").overlap_tensor_products);
  REQUIRE_FALSE(titan("AsyncTP").overlap_tensor_wgrad);
  REQUIRE_FALSE(titan("").overlap_tensor_products);
  const Layout local = run_layout(cells_with({{"overlap", "grad all-reduce not overlapped"}}));
  REQUIRE_FALSE(local.overlap_gradients);
  REQUIRE(bucket_sizes(local, framework_of(FrameworkName::megatron).execution).first == one_bucket);
}

TEST_CASE("FSDP reduces in fp32 unless it is pure", "[scores]") {
  REQUIRE(run_layout(cells_with({{"shard_strategy", "FSDP FULL_SHARD"}})).reduce_dtype ==
          DType::fp32);
  REQUIRE(run_layout(cells_with({{"shard_strategy", "FSDP mixed_precision=PURE"}})).reduce_dtype ==
          DType::bf16);
}

TEST_CASE("an H100 with HBM2e is a part of its own, found by its name or its memory", "[scores]") {
  const std::string file = "validation/machines/h100-hbm2e-400g.yaml";
  const std::pair<std::string, std::string> net{"inter_node_gbps_per_gpu", "400"};
  REQUIRE(run_machine(cells_with({net, {"gpu", "H100 HBM2e 96GB"}})).file == file);
  REQUIRE(run_machine(cells_with({net, {"gpu", "H100"}, {"gpu_mem_gb", "96"}})).file == file);
  REQUIRE(run_machine(cells_with({net, {"gpu", "H100-80GB"}})).file == "topologies/dgx-h100.yaml");
}

TEST_CASE("gradients may be fp32, and parameters gathered behind the optimizer", "[scores]") {
  const Layout plain = run_layout(cells_with({}));
  CHECK(plain.gradient_dtype == DType::bf16);
  CHECK(plain.overlap_parameters);
  const Layout layout =
      run_layout(cells_with({{"precision", "bf16, fp32 gradients"},
                             {"overlap", "gradients and parameters not overlapped"}}));
  CHECK(layout.gradient_dtype == DType::fp32);
  CHECK(layout.reduce_dtype == DType::fp32);
  CHECK_FALSE(layout.overlap_parameters);
  CHECK_FALSE(layout.overlap_gradients);
}

TEST_CASE("Scaling waits for every message, and splits a pipeline by parameters", "[scores]") {
  // 13 billion parameters: a layer has 317 million, embedding and head 655 million each.
  const auto layout = [](const char* stages) {
    return run_layout(cells_with({{"framework", "scaling"},
                                  {"attn_kernel", "flash_attention2 + RMS kernel"},
                                  {"model", "LLaMA-13B"},
                                  {"layers", "40"},
                                  {"hidden", "5120"},
                                  {"heads", "40"},
                                  {"kv_heads", "40"},
                                  {"ffn", "13824"},
                                  {"vocab", "128000"},
                                  {"tp", "1"},
                                  {"dp", "1"},
                                  {"pp", stages},
                                  {"num_gpus", stages}}));
  };
  REQUIRE(layout("1").layers_per_chunk.empty());
  REQUIRE(layout("2").layers_per_chunk == std::vector<int>{20, 20});
  REQUIRE(layout("4").layers_per_chunk == std::vector<int>{9, 11, 11, 9});
  REQUIRE_FALSE(layout("2").overlap_gradients);
  REQUIRE_FALSE(layout("2").overlap_tensor_wgrad);
  REQUIRE(layout("2").reduce_dtype == DType::fp32);
}

TEST_CASE("DeepSpeed overlaps what its engine would", "[scores]") {
  const auto overlaps = [](const char* stage, const char* stages, const char* overlap) {
    return run_layout(cells_with({{"framework", "deepspeed"},
                                  {"zero_stage", stage},
                                  {"overlap", overlap},
                                  {"tp", "1"},
                                  {"dp", "2"},
                                  {"pp", stages},
                                  {"num_gpus", stages == std::string{"1"} ? "2" : "4"}}))
        .overlap_gradients;
  };
  CHECK_FALSE(overlaps("2", "1", ""));
  CHECK(overlaps("2", "1", "overlap_comm"));
  CHECK_FALSE(overlaps("1", "2", "overlap_comm"));
  CHECK_FALSE(overlaps("0", "1", "overlap_comm"));
  CHECK(overlaps("3", "1", ""));
  CHECK_FALSE(overlaps("3", "1", "not overlapped"));
  for (const char* overlap : {"", "no bucketed DP overlap"}) {
    const Layout any = run_layout(cells_with({{"framework", "deepspeed"}, {"overlap", overlap}}));
    CHECK(bucket_sizes(any, framework_of(FrameworkName::deepspeed).execution).others ==
          Bytes{1'000'000'000});
  }
  const Layout layout = run_layout(cells_with({{"framework", "deepspeed"}}));
  CHECK_FALSE(layout.overlap_parameters);
  CHECK_FALSE(layout.overlap_pipeline);
}

TEST_CASE("a row may say what its host needs to issue a kernel", "[scores]") {
  REQUIRE_FALSE(run_framework(cells_with({})).host_issue);
  REQUIRE(run_framework(cells_with({{"host_issue_us", "12.5"}})).host_issue ==
          Duration{std::chrono::nanoseconds{12'500}});
  REQUIRE_THROWS_WITH(run_framework(cells_with({{"host_issue_us", "1001"}})),
                      "host_issue_us is 1001; allowed: 0 to 1000");
}

TEST_CASE("torchtitan's selective recomputation is by operators", "[scores]") {
  for (const char* text : {"selective (per-op)", "selective, torchtitan default"}) {
    const Layout layout = run_layout(cells_with({{"recompute", text}}));
    REQUIRE(layout.recompute == Recompute::operators);
  }
  REQUIRE(run_layout(cells_with({{"recompute", "selective"}})).recompute == Recompute::selective);
}

TEST_CASE("torchtitan's pipelines keep what they gathered and wait for messages", "[scores]") {
  const auto layout = [](const char* stages, const char* gpus) {
    return run_layout(cells_with(
        {{"shard_strategy", "FSDP2"}, {"zero_stage", "3"}, {"pp", stages}, {"num_gpus", gpus}}));
  };
  const Layout alone = layout("1", "8"), pipeline = layout("2", "16");
  REQUIRE(alone.reshard_after_forward);
  REQUIRE_FALSE(pipeline.reshard_after_forward);
  REQUIRE_FALSE(pipeline.overlap_pipeline);
}

TEST_CASE("what casts a row's products to 8 bits is said by its precision", "[scores]") {
  const auto software = [](const char* strategy, const char* precision) {
    return run_framework(cells_with({{"shard_strategy", strategy}, {"precision", precision}}))
        .execution.eight_bit;
  };
  REQUIRE(software("FSDP2", "fp8 tensorwise") == EightBit::torchao);
  REQUIRE(software("FSDP2", "fp8 rowwise") == EightBit::torchao_rowwise);
  REQUIRE(software("FSDP2", "fp8 rowwise_with_gw_hp") == EightBit::torchao_rowwise_with_gw_hp);
  REQUIRE(software("FSDP FULL_SHARD", "fp8 (TE amp_fp8)") == EightBit::transformer_engine_linear);
  REQUIRE(software("", "fp8 (TE hybrid)") == EightBit::transformer_engine);
}

TEST_CASE("recipes with Transformer Engine keep their parameters in 8 bits", "[scores]") {
  REQUIRE(run_layout(cells_with({{"precision", "fp8 (TE hybrid delayed scaling)"}}))
              .eight_bit_parameters);
  REQUIRE_FALSE(run_layout(cells_with({{"precision", "fp8 tensorwise"}})).eight_bit_parameters);
  REQUIRE(run_layout(cells_with({{"precision", "fp8 tensorwise"},
                                 {"notes", "torch.compile; float8 all-gather in FSDP"}}))
              .eight_bit_parameters);
}

TEST_CASE("FlashAttention 1 and the Triton kernel of its time have rates of their own",
          "[scores]") {
  const auto attention = [](const char* text) {
    return run_layout(cells_with({{"attn_kernel", text}})).attention;
  };
  REQUIRE(attention("flash_attentionv1.0.8") == AttentionKernel::flash_1);
  REQUIRE(attention("triton") == AttentionKernel::flash_1);
  REQUIRE(attention("flash_attention2") == AttentionKernel::flash_2);
}

// Full recomputation keeps 2 of 34 + 5 a s / h bytes of a layer, and its working set besides: less
// than half of it all, and a share is that of the peaks.
TEST_CASE("memory is compared without what the device reserves, activations as a share",
          "[scores]") {
  MeasuredSet set;
  set.data_folder = sim::test::source_dir();
  MeasuredRow row;
  row.id = "r0";
  row.outcome = Outcome::analytic;
  row.activation_share = 0.5;
  row.cells = cells_with({{"recompute", "full"}, {"attn_kernel", "unfused"}, {"vocab", "512"}});
  const RowResult result = predict(set, row);
  REQUIRE(result.skipped.empty());
  REQUIRE(result.memory_scored());
  REQUIRE_FALSE(result.scored());
  REQUIRE(result.prediction->activation_share > 0);
  REQUIRE(result.prediction->activation_share < 0.5);
  REQUIRE(result.prediction->plan_memory < result.prediction->peak_memory);
}

}  // namespace
