// torchtitan's TOML as scenarios: what it means, and the exact text of what is refused. All inputs
// are written for these tests.
#include "tests/catch.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::from_toml;
using test::notes;
using test::problems;

TEST_CASE("torchtitan: flavors, degrees and stages", "[interop]") {
  const Imported job = from_toml(R"([model]
name = "llama3"
flavor = "405B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model", "loss"]
[metrics]
log_freq = 10
)",
                                 128);
  CHECK(job.shape.layers == 126);
  CHECK(job.layout.data_parallel == 16);
  CHECK(job.layout.zero_stage == 3);
  CHECK(job.layout.reshard_after_forward);
  CHECK(job.layout.sequence_parallel);
  CHECK(job.layout.overlap_tensor_products);
  CHECK_FALSE(job.layout.overlap_tensor_wgrad);
  CHECK(job.framework == torchtitan_framework(true, true, true));
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.global_batch == 32);
  CHECK(job.layout.reduce_dtype == DType::fp32);
  CHECK(job.layout.recompute == Recompute::full);
  CHECK(job.ignored == std::vector<std::string>{"metrics.log_freq"});

  // 32 layers and one more at each end over 2 x 2 stages: 9, 9, 8, 8 less the two ends.
  const Imported pipeline = from_toml(R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
)",
                                      2);
  CHECK(pipeline.layout.layers_per_chunk == std::vector<int>{8, 9, 8, 7});
  CHECK(pipeline.layout.micro_batch == 1);
  CHECK(pipeline.layout.micro_batches() == 8);
  CHECK(pipeline.layout.pipeline_runs == 1);
  CHECK(pipeline.layout.recompute_every == 2);
  // Gradient accumulation is around the schedule.
  const Imported runs = from_toml(R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
global_batch_size = 48
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
)",
                                  4);
  CHECK(runs.layout.pipeline_runs == 3);
  CHECK(runs.layout.run_batches() == 8);
  Framework eager = torchtitan_framework(false, false, true);
  eager.execution.stops_recomputation = false;  // early_stop is off by default
  CHECK(pipeline.framework == eager);
}

TEST_CASE("torchtitan: schedules that are not modelled, and what 1F1B asks for", "[interop]") {
  const auto pipeline = [](const std::string& schedule, int batch) {
    return problems([&] {
      return from_toml(
          "[model]\nflavor = \"8B\"\n[training]\nlocal_batch_size = " + std::to_string(batch) +
              "\n[parallelism]\npipeline_parallel_degree = 4\n"
              "pipeline_parallel_schedule = \"" +
              schedule + "\"\n",
          8);
    });
  };
  using Lines = std::vector<std::string>;
  CHECK(pipeline("LoopedBFS", 8) ==
        Lines{"7:30: the schedule LoopedBFS is not modelled; available: 1F1B, GPipe, "
              "Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble, DualPipeV"});
  CHECK(pipeline("1F1B", 4).empty());
  CHECK(pipeline("1F1B", 2) ==
        Lines{"4:20: makes 2 micro-batches of 1 for 4 stages; 1F1B takes at least one for each "
              "stage: a larger local_batch_size, or GPipe"});
  CHECK(pipeline("GPipe", 2).empty());
}

TEST_CASE("torchtitan: schedules that split the backward pass send beside compute", "[interop]") {
  const auto pipeline = [](const std::string& schedule) {
    return from_toml(
               "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\n"
               "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"" +
                   schedule + "\"\n",
               4)
        .layout;
  };
  const Layout v = pipeline("ZBVZeroBubble");
  CHECK(v.schedule == Schedule::zb_v);
  CHECK(v.virtual_stages == 2);
  CHECK(v.overlap_pipeline);
  CHECK(v.layers_per_chunk.size() == 8);
  CHECK(pipeline("DualPipeV").schedule == Schedule::dual_pipe_v);
  const Layout interleaved = pipeline("InterleavedZeroBubble");
  CHECK(interleaved.schedule == Schedule::interleaved_zb);
  CHECK(interleaved.virtual_stages == 2);
  CHECK_FALSE(pipeline("Interleaved1F1B").overlap_pipeline);
}

TEST_CASE("torchtitan: parameters in bfloat16 keep 6 bytes of states and weights", "[interop]") {
  const auto job = [](const std::string& more) {
    return from_toml("[model]\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n" + more, 8);
  };
  const Layout layout = job("dtype = \"bfloat16\"\n").layout;
  CHECK_FALSE(layout.master_weights);
  CHECK(layout.moment_dtype == DType::bf16);
  CHECK(layout.master_bytes() + layout.moment_bytes() == 4);
  CHECK(layout.reduce_dtype == DType::fp32);
  CHECK(job("").layout.master_bytes() + job("").layout.moment_bytes() == 12);
  using Lines = std::vector<std::string>;
  CHECK(problems([&] { return job("[optimizer]\nearly_step_in_backward = true\n"); }) ==
        Lines{"6:26: optimizer.early_step_in_backward: steps within the backward pass, which keep "
              "no gradients, are not modelled; false forecasts the job with all gradients held to "
              "the end of the step"});
  CHECK(problems([&] { return job("[optimizer]\nname = \"Muon\"\n"); }) ==
        Lines{"6:8: the optimizer Muon is not modelled; torchtitan has Adam, AdamW"});
  CHECK(problems([&] { return job("[fault_tolerance]\nenable = true\n"); }) ==
        Lines{"6:10: fault_tolerance.enable: torchft's replicas are not modelled"});
  CHECK(
      notes(job("[parallelism]\ntensor_parallel_degree = 8\n"), "training.mixed_precision_param"));
  CHECK(notes(job("[parallelism]\ndata_parallel_replicate_degree = 8\n"), "layout.gradient_dtype"));
  const Imported told = job("[compile]\nenable = true\nbackend = \"aot_eager\"\n");
  CHECK(notes(told, "compile.backend"));
}

TEST_CASE("torchtitan: recomputation by operator, an early end of it, kernels of AdamW",
          "[interop]") {
  const auto job = [](const std::string& keys) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + keys, 8);
  };
  CHECK(job("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n")
            .layout.recompute == Recompute::operators);
  const auto stops = [&](const std::string& keys) {
    return job("[activation_checkpoint]\nmode = \"full\"\n" + keys)
        .framework.execution.stops_recomputation;
  };
  CHECK_FALSE(stops(""));
  CHECK(stops("early_stop = true\n"));
  CHECK(stops("[compile]\nenable = true\n"));
  CHECK(problems([&] {
          job("[parallelism]\ntensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n");
        })
            .front()
            .find("needs [compile]") != std::string::npos);
  const auto kernels = [&](const std::string& name) {
    return job("[optimizer]\nimplementation = \"" + name + "\"\n");
  };
  CHECK(kernels("foreach").framework.optimizer == OptimizerForm::eager);
  CHECK(kernels("fused").framework.optimizer == OptimizerForm::fused);
  CHECK(problems([&] { kernels("for-loop"); }).front().find("fused, foreach") != std::string::npos);
}

TEST_CASE("torchtitan: attention over context ranks is PyTorch's", "[interop]") {
  const auto job = [](const std::string& compile, const std::string& method) {
    return from_toml(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
        "context_parallel_degree = 8\n" +
            method + "[compile]\nenable = " + compile + "\n",
        8);
  };
  const Imported compiled = job("true", "");
  CHECK(compiled.layout.context_exchange == ContextExchange::all_gather);
  CHECK(compiled.framework.execution.context == ContextForm::compiled);
  const Imported eager = job("false", "context_parallel_rotate_method = \"alltoall\"\n");
  CHECK(eager.layout.context_exchange == ContextExchange::ring);
  CHECK(eager.framework.execution.context == ContextForm::eager);
}

TEST_CASE("torchtitan: the renamed keys of its head", "[interop]") {
  const Imported job = from_toml(R"([model]
name = "qwen3"
flavor = "8B"
[training]
max_context_length = 4096
num_tokens_per_microbatch_per_dp_rank = 8192
num_tokens_per_train_step = 131072
[parallelism]
tensor_parallel_degree = 2
enable_sequence_parallel = false
)",
                                 8);
  CHECK(job.layout.sequence_length == 4096);
  CHECK(job.layout.micro_batch == 2);
  CHECK(job.layout.global_batch == 32);
  CHECK_FALSE(job.layout.sequence_parallel);
  CHECK(job.shape.qk_norm);
}

TEST_CASE("torchtitan: torchao's recipes", "[interop]") {
  const auto job = [](const std::string& converters, const std::string& float8) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + converters +
                         "[training]\nseq_len = 8192\n[float8]\n" + float8 + "\n",
                     8);
  };
  const std::string on = "converters = [\"float8\"]\n", rows = "recipe_name = \"rowwise\"";
  const auto software = [&](const std::string& float8) {
    return job(on, float8).framework.execution.eight_bit;
  };
  CHECK(software("recipe_name = \"tensorwise\"") == EightBit::torchao);
  CHECK(software(rows) == EightBit::torchao_rowwise);
  CHECK(software("recipe_name = \"rowwise_with_gw_hp\"") == EightBit::torchao_rowwise_with_gw_hp);
  CHECK(job("", rows).layout.compute_dtype == DType::bf16);
  CHECK_THROWS_WITH(job(on, "recipe_name = \"blockwise\""),
                    Catch::Contains("8:15") &&
                        Catch::Contains("allowed: tensorwise, rowwise, rowwise_with_gw_hp"));
  CHECK_THROWS_WITH(job(on, rows + "\nenable_fsdp_float8_all_gather = true"),
                    Catch::Contains("torchao allows it with tensorwise"));
}

TEST_CASE("torchtitan: weights that FSDP gathers in 8 bits", "[interop]") {
  const auto job = [](const std::string& converters, const std::string& section, bool at_once,
                      int gpus) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + converters +
                         "[training]\nseq_len = 8192\nlocal_batch_size = 8\n[" + section +
                         "]\nenable_fsdp_float8_all_gather = true\n"
                         "precompute_float8_dynamic_scale_for_fsdp = " +
                         (at_once ? "true" : "false") + "\n",
                     gpus);
  };
  const std::string float8 = "converters = [\"float8\"]\n";
  for (const char* section : {"float8", "quantize.linear.float8"}) {
    CHECK(job(float8, section, true, 8).layout.eight_bit_parameters);
    CHECK(job(float8, section, true, 8).notes.empty());
    CHECK(notes(job(float8, section, false, 8),
                std::string{section} + ".precompute_float8_dynamic_scale_for_fsdp"));
  }
  for (const Imported& none : {job(float8, "float8", false, 1), job("", "float8", false, 8)}) {
    CHECK_FALSE(none.layout.eight_bit_parameters);
    CHECK(none.notes.empty());
  }
}

TEST_CASE("torchtitan: what is wrong has its place", "[interop]") {
  CHECK(problems([] {
          return from_toml(
              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
              "tensor_paralel_degree = 2\n",
              8);
        }) == std::vector<std::string>{"5:1: unknown key 'tensor_paralel_degree'; did you mean "
                                       "'tensor_parallel_degree'?"});
  CHECK(problems([] {
          return from_toml("[model]\nname = \"llama4\"\nflavor = \"17bx17e\"\n", 8);
        }).size() == 1);
  CHECK(problems([] { return from_toml("[model\n", 8); }).size() == 1);
}

TEST_CASE("torchtitan: sizes that a file does not give are told", "[interop]") {
  const auto job = [](const std::string& training) {
    return test::from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n" + training,
                           8);
  };
  const Imported open = job("");
  CHECK(open.layout.sequence_length == 2048);
  CHECK(test::notes(open, "training.seq_len"));
  CHECK(test::notes(open, "training.local_batch_size"));
  const Imported given = job("seq_len = 4096\nlocal_batch_size = 1\n");
  CHECK_FALSE(test::notes(given, "training.seq_len"));
  CHECK_FALSE(test::notes(given, "training.local_batch_size"));
}
