// Mixtures of experts in torchtitan's files: TOML to v0.2, Python since.
#include <algorithm>

#include "sim/interop/torchtitan/torchtitan.hpp"
#include "sim/interop/torchtitan/torchtitan_registry.hpp"
#include "sim/model/model.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::from_toml;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

Imported from_registry(const std::string& text, const std::string& name, int gpus = 8) {
  const Document python = parse_python(text, "config_registry.py");
  return import_torchtitan_registry(python, registry_function(python, name), {.gpus = gpus});
}

std::string mixture(const std::string& parallelism, const std::string& more = "") {
  return "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[training]\nlocal_batch_size = 4\n"
         "seq_len = 4096\n[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = "
         "\"op\"\n[parallelism]\n" +
         parallelism + more;
}

// A registry in the manner of torchtitan's, written for these tests.
const char* const registry = R"(from torchtitan.trainer import Trainer

def deepseek_v3_16b() -> Trainer.Config:
    """Sixteen billion."""
    model_spec = model_registry("16B", attn_backend="flex")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(
            loss_fn=CrossEntropyLoss.Config(size=decoder_vocab_size(model_spec)),
        ),
        hf_assets_path="./assets",
        model_spec=model_spec,
        dataloader=GrainDataLoader.Config(dataset=DATASETS["c4"], key=lambda x: x),
        optimizer=default_adamw(lr=2.2e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=4 * 4096,
            max_context_length=4096,
            disable_cuda_graphs=True,
        ),
        parallelism=ParallelismConfig(
            pipeline_parallel_schedule="Interleaved1F1B",
            expert_parallel_degree=8,
        ),
        activation_checkpoint=SelectiveAC.Config(),
        compile=CompileConfig(enable=True, components=["loss"]),
    )


def deepseek_v3_16b_float8() -> Trainer.Config:
    config = deepseek_v3_16b()
    assert config.model_spec is not None
    on = (
        config.compile.enable and "model" in config.compile.components
    )
    config.model_spec = model_registry(
        "16B",
        moe_comm_backend="hybridep",
        non_blocking_capacity_factor=1.0,
        converters=[
            Float8LinearConverter.Config(filter_fqns=["lm_head"], model_compile_enabled=on),
            Float8GroupedExpertsConverter.Config(model_compile_enabled=on),
        ],
    )
    config.training.disable_cuda_graphs = False
    config.activation_checkpoint = None
    enable_fused_swiglu(config)
    return config
)";

}  // namespace

TEST_CASE("torchtitan: flavors with experts are the models we ship", "[interop]") {
  const auto same = [](const char* model, const char* flavor, const char* file) {
    const auto shape = torchtitan_shape(model, flavor);
    REQUIRE(shape);
    return same_shape(*shape, *load_model(test::source_dir() + "/models/" + file).shape);
  };
  CHECK(same("deepseek_v3", "671B", "deepseek-v3.yaml"));
  CHECK(same("deepseek_v3", "236B", "deepseek-v2.yaml"));
  CHECK(same("qwen3", "30B-A3B", "qwen3-30b-a3b.yaml"));
  CHECK(same("qwen3", "235B-A22B", "qwen3-235b-a22b.yaml"));
  CHECK(same("qwen3_5", "9B", "qwen3.5-9b.yaml"));
  CHECK(same("qwen3_5", "27B", "qwen3.5-27b.yaml"));
  CHECK(same("qwen3_5", "35B-A3B", "qwen3.5-35b-a3b.yaml"));
  CHECK(same("qwen3_5", "122B-A10B", "qwen3.5-122b-a10b.yaml"));
  CHECK(same("qwen3_5", "397B-A17B", "qwen3.5-397b-a17b.yaml"));
  const auto billions = [](const char* model, const char* flavor) {
    return static_cast<double>(build_transformer(*torchtitan_shape(model, flavor)).parameters()) /
           1e9;
  };
  CHECK(billions("deepseek_v3", "16B") == Approx(15.7).margin(0.1));
  CHECK(billions("llama4", "17bx16e") == Approx(107.8).margin(0.5));   // "109B", with vision
  CHECK(billions("llama4", "17bx128e") == Approx(400.7).margin(1.5));  // "400B"
  CHECK(billions("gpt_oss", "20b") == Approx(20.9).margin(0.1));
  CHECK(billions("gpt_oss", "120b") == Approx(116.8).margin(0.2));
  CHECK(torchtitan_flavor(*torchtitan_shape("gpt_oss", "20b"))->name == "20b");
}

TEST_CASE("torchtitan: degrees of expert parallelism", "[interop]") {
  const Imported job = from_toml(mixture("expert_parallel_degree = 4\n"), 8);
  CHECK(job.shape.experts.count == 64);
  CHECK(job.shape.latent.query_rank == 0);
  CHECK(job.layout.expert_parallel == 4);
  CHECK(job.layout.expert_tensor() == 1);
  CHECK(job.layout.zero_stage == 3);
  CHECK(job.layout.recompute == Recompute::operators);
  CHECK(job.framework.execution.experts == ExpertForm::torchtitan);
  CHECK(job.framework.execution.expert_rows == 8);
  CHECK(job.framework.execution.waits_for_counts);

  const std::string tensor = "tensor_parallel_degree = 2\n";
  CHECK(from_toml(mixture(tensor), 8).layout.expert_tensor() == 2);  // as everything else
  CHECK(from_toml(mixture(tensor + "expert_parallel_degree = 4\n"), 8).layout.expert_tensor() == 1);
  const std::string both = tensor + "expert_parallel_degree = 4\nexpert_tensor_parallel_degree = ";
  CHECK(from_toml(mixture(both + "2\n"), 8).layout.expert_tensor() == 2);
  CHECK(problems([&] { return from_toml(mixture(both + "4\n"), 8); }) ==
        Lines{"13:33: is 4; allowed: 1, or tensor_parallel_degree = 2"});
  const auto backend = [](const std::string& word) {
    return mixture("expert_parallel_degree = 8\nexpert_parallel_comm_backend = \"" + word + "\"\n");
  };
  CHECK(from_toml(backend("deepep"), 8).layout.token_dispatcher == TokenDispatcher::deepep);
  CHECK(problems([&] { return from_toml(backend("nvshmem"), 8); }) ==
        Lines{"12:32: 'nvshmem' is not modelled; known: standard, deepep, hybridep"});
  CHECK(problems([&] { return from_toml(mixture("expert_parallel_degree = 3\n"), 8); }).size() >=
        1);
  CHECK(problems([&] {
          return from_toml(mixture("enable_async_tensor_parallel = false\n"), 8);
        }).empty());  // read where it has no meaning, too
  const std::string converters = "[quantize.linear.float8]\nrecipe_name = \"rowwise\"\n";
  CHECK_FALSE(notes(job, "layout.compute_dtype"));
  CHECK(problems([&] {
          return from_toml(mixture("expert_parallel_degree = 4\n", converters), 8);
        }).empty());
}

TEST_CASE("torchtitan: without experts their degrees mean nothing", "[interop]") {
  const Imported job = from_toml(
      "[model]\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n[parallelism]\n"
      "expert_parallel_degree = 8\n",
      8);
  CHECK(job.layout.expert_parallel == 1);
}

TEST_CASE("torchtitan: configurations in Python", "[interop]") {
  const Imported job = from_registry(registry, "deepseek_v3_16b");
  CHECK(job.shape.experts.count == 64);
  CHECK(job.layout.expert_parallel == 8);
  CHECK(job.layout.sequence_length == 4096);
  CHECK(job.layout.micro_batch == 4);
  CHECK(job.layout.global_batch == 32);
  CHECK(job.layout.recompute == Recompute::operators);
  CHECK(job.layout.zero_stage == 3);
  CHECK_FALSE(job.graphs);
  CHECK(job.framework.execution.expert_rows == 1);
  CHECK(job.framework.loss == LossForm::keeps_logits);
  CHECK(job.framework.gate == KernelForm::eager);
  CHECK(notes(job, "model_spec.attn_backend"));
  CHECK(job.layout.loss_chunks == 8);
  CHECK(job.framework.execution.loss_chunks == LossChunks::at_once_fp32);
  CHECK_FALSE(notes(job, "loss"));

  // Starts from the other one.
  const Imported float8 = from_registry(registry, "deepseek_v3_16b_float8");
  CHECK(float8.layout.compute_dtype == DType::fp8);
  CHECK(float8.framework.execution.eight_bit == EightBit::torchao_rowwise);
  CHECK(float8.layout.token_dispatcher == TokenDispatcher::hybridep);
  CHECK_FALSE(float8.framework.execution.waits_for_counts);
  CHECK(float8.graphs);
  CHECK(float8.layout.recompute == Recompute::none);
  CHECK(float8.layout.expert_parallel == 8);
  CHECK(notes(float8, "config"));  // the helper
}

TEST_CASE("torchtitan: what a configuration in Python is refused for", "[interop]") {
  const auto refused = [](const std::string& from, const std::string& to, const char* name) {
    std::string text = registry;
    text.replace(text.find(from), from.size(), to);
    return problems([&] { return from_registry(text, name); });
  };
  CHECK(refused("disable_cuda_graphs=True", "disable_cuda_graphs=False", "deepseek_v3_16b") ==
        Lines{"17:33: disable_cuda_graphs is false, and torchtitan captures no pipelines and no "
              "experts whose counts the host waits for; allowed: true"});
  CHECK(refused("SelectiveAC", "MemoryBudgetAC", "deepseek_v3_16b") ==
        Lines{"23:31: the policy MemoryBudgetAC.Config is not modelled; known: SelectiveAC, "
              "FullAC, None"});
  CHECK(refused("Float8LinearConverter", "NVFP4LinearConverter", "deepseek_v3_16b_float8").size() ==
        1);
  CHECK(refused("4 * 4096", "4 * 4095", "deepseek_v3_16b") ==
        Lines{"15:51: is 16380, no multiple of the context length 4096"});
  CHECK(problems([] { return from_registry(registry, "deepseek_v3_15b"); }).size() == 1);
  // Names that double with every line end as names that are not known.
  std::string doubling = "def llama3_8b() -> Trainer.Config:\n    a0 = [1, 1]\n";
  for (int i = 0; i < 64; ++i)
    doubling += "    a" + std::to_string(i + 1) + " = [a" + std::to_string(i) + ", a" +
                std::to_string(i) + "]\n";
  doubling += "    return Trainer.Config(model_spec=model_registry(\"8B\"), hf_assets_path=a64)\n";
  CHECK(from_registry(doubling, "llama3_8b").shape.layers == 32);
  CHECK(problems([] { return from_registry(registry, ""); }).size() == 1);  // which?
}

TEST_CASE("torchtitan: what cannot be evaluated is refused where a step depends on it",
          "[interop]") {
  const auto problem = [](const std::string& from, const std::string& to) {
    std::string text = registry;
    text.replace(text.find(from), from.size(), to);
    const Lines all = problems([&] { return from_registry(text, "deepseek_v3_16b"); });
    return all.empty() ? "" : all.front();
  };
  CHECK(problem("expert_parallel_degree=8", "expert_parallel_degree=[8, 4][0]").find("[8, 4][0]") !=
        std::string::npos);
  CHECK(problem("SelectiveAC.Config()", "policies[0]").find("cannot be evaluated here") !=
        std::string::npos);
  CHECK(problem("max_context_length=4096,", "max_context_length=lengths()[1],") != "");
}
