// Values of recipes that a reader can evaluate only in part: read, or refused with the place.
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "tests/catch.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::from_flags;
using test::notes;
using test::problems;

namespace {

// A recipe of Megatron-Bridge's common settings, a small decoder, then `lines`.
std::string recipe(const std::string& lines, const std::string& before = {}) {
  std::string text = before + R"(
def small_pretrain_8gpu_config():
    cfg = _pretrain_common()
    cfg.model = GPTModelProvider(num_layers=8, hidden_size=1024, num_attention_heads=16)
    cfg.model.normalization = "RMSNorm"
    cfg.model.position_embedding_type = "rope"
    cfg.model.vocab_size = 50304
    cfg.model.seq_length = 2048
    cfg.model.hidden_dropout = cfg.model.attention_dropout = 0.0
)";
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += "    " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text + "    return cfg\n";
}

Imported from_recipe(const std::string& text, const std::vector<Change>& set = {}) {
  const std::string name = "small_pretrain_8gpu_config";
  EvaluatedPython made = evaluate_recipe(text, "a.py", name, false);
  made.change(set);
  return import_bridge_recipe(made, name, {});
}
Imported with_lines(const std::string& lines, const std::vector<Change>& set = {}) {
  return from_recipe(recipe(lines), set);
}
std::string first_problem(const std::string& lines) {
  const std::vector<std::string> all = problems([&] { return with_lines(lines); });
  return all.empty() ? "" : all.front();
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a recipe's precision is read in every way that it is called by", "[interop]") {
  const auto format = [](const std::string& lines) { return with_lines(lines).layout; };
  CHECK(format("").compute_dtype == DType::bf16);
  for (const char* line :
       {"cfg.mixed_precision = get_mixed_precision_config('bf16_mixed')",
        "cfg.mixed_precision = get_mixed_precision_config('bf16-mixed')",
        "cfg.mixed_precision = get_mixed_precision_config(cfg.mixed_precision)",
        "cfg.mixed_precision = bf16_mixed()", "cfg.mixed_precision = 'bf16-mixed'",
        "cfg.mixed_precision = MixedPrecisionConfig(bf16=True)"}) {
    CAPTURE(line);
    CHECK(format(line).compute_dtype == DType::bf16);
    CHECK(format(line).gradient_dtype == DType::fp32);
    const std::string narrow = "\ncfg.mixed_precision.grad_reduce_in_fp32 = False";
    if (line[std::string_view{line}.size() - 1] == ')')
      CHECK(format(line + narrow).gradient_dtype == DType::bf16);
  }
  const Layout eight = format(
      "cfg.mixed_precision = get_mixed_precision_config("
      "'bf16_with_fp8_current_scaling_mixed')");
  CHECK(eight.compute_dtype == DType::fp8);
  CHECK(eight.first_bf16_layers == 1);
  const std::string super = "nemotron_3_super_bf16_with_nvfp4_mixed";
  CHECK(format("cfg.model.num_layers = 32\ncfg.mixed_precision = get_mixed_precision_config('" +
               super + "')")
            .last_bf16_layers == 14);
  CHECK(has(first_problem("cfg.mixed_precision = get_mixed_precision_config('bf61_mixed')"),
            "mixed_precision is 'bf61_mixed'"));
  CHECK(has(first_problem("cfg.mixed_precision = my_own_precision()"), "my_own_precision"));
  CHECK(has(first_problem("cfg.mixed_precision = torch.my_precision()"),
            "mixed_precision depends on"));
}

TEST_CASE("what a recipe sets and nobody can evaluate is an error where a step depends on it",
          "[interop]") {
  const std::string power = first_problem("n = 10 ** 10 ** 8\ncfg.model.num_layers = n");
  CHECK(has(power, "model.num_layers depends on 'n = 10 ** 10 ** 8', which cannot be evaluated"));
  CHECK(has(power, "--set model.num_layers=VALUE"));
  const std::string branch = first_problem(
      "if os.environ.get('BIG'):\n"
      "    cfg.model.tensor_model_parallel_size = 2");
  CHECK(has(branch, "model.tensor_model_parallel_size depends on 'if os.environ.get('BIG'):'"));
  CHECK(has(first_problem("for n in sizes():\n    cfg.train.micro_batch_size = n"),
            "train.micro_batch_size depends on"));
  CHECK(has(first_problem("cfg.model.recompute_modules = ['mlp', os.getcwd()]"),
            "model.recompute_modules depends on"));
  CHECK(has(first_problem("cfg.train.micro_batch_size = a_size()"), "is what a_size gives"));
  CHECK(has(first_problem("cfg.model.num_layers = [8, 4][0:1][0]"), "is not read"));
  CHECK(has(first_problem("set_my_batch(cfg)"), "set_my_batch() is neither in the file"));
  std::string other = recipe("");
  other.replace(other.find("_pretrain_common"), 16, "base_config");
  CHECK(has(problems([&] { return from_recipe(other); }).front(), "begins from base_config()"));
  // A value that is given, and one that no step depends on.
  CHECK(with_lines("cfg.model.num_layers = 10 ** 10 ** 8", {{"model.num_layers", "4"}})
            .shape.layers == 4);
  CHECK(from_recipe(other, {{"_base", "pretrain_common"}}).layout.global_batch == 32);
  CHECK(with_lines("set_my_batch(cfg)", {{"_calls", "none"}}).layout.global_batch == 32);
  const Imported harmless = with_lines(
      "cfg.checkpoint.save = os.getcwd()\ncfg.model.init_method_std = os.cpu_count()\n"
      "if os.environ.get('A'):\n    cfg.logger.log_interval = 1\n"
      "if hasattr(cfg.model, 'some_field'):\n    cfg.model.num_layers = 4");
  CHECK(harmless.shape.layers == 4);
  CHECK_FALSE(notes(harmless, "recipe"));
}

TEST_CASE("a function's optimizer is its own", "[interop]") {
  const auto of = [](const std::string& function) {
    return with_lines("cfg.optimizer, cfg.scheduler = " + function + "(max_lr=1e-4)").layout;
  };
  CHECK(of("distributed_fused_adam_with_cosine_annealing").optimizer == OptimizerKind::adam);
  CHECK(of("distributed_muon_with_cosine_annealing").optimizer == OptimizerKind::muon);
}

TEST_CASE("lists in brackets, over lines, of one word are lists", "[interop]") {
  const auto yaml = [](const std::string& more) {
    const std::string text =
        "MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 1024\n"
        "  --num-attention-heads: 16\n  --seq-length: 2048\n"
        "  --position-embedding-type: rope\n  --vocab-size: 50257\n"
        "  --attention-dropout: 0.0\n  --hidden-dropout: 0.0\n"
        "  --micro-batch-size: 1\n  --global-batch-size: 8\n  --bf16: true\n"
        "  --num-experts: 8\n  --moe-ffn-hidden-size: 512\n"
        "  --moe-grouped-gemm: true\n" +
        more;
    return from_flags(text);
  };
  const std::string again = "  --recompute-granularity: selective\n  --recompute-modules: ";
  for (const char* list :
       {"'[layernorm moe_act]'", "[layernorm, moe_act]", "'[layernorm\n    moe_act]'",
        "layernorm moe_act", "\"['layernorm', 'moe_act']\""}) {
    CAPTURE(list);
    CHECK(yaml(again + list + "\n").layout.recompute_modules ==
          std::vector{RecomputeModule::layernorm, RecomputeModule::moe_act});
  }
  CHECK(yaml(again + "'[moe_act]'\n").layout.recompute_modules ==
        std::vector{RecomputeModule::moe_act});
  CHECK(yaml("  --fine-grained-activation-offloading: true\n"
             "  --offload-modules: '[moe_act\n    attn_norm]'\n")
            .layout.offload_modules.size() == 2);
  CHECK(yaml("  --cuda-graph-impl: transformer_engine\n"
             "  --cuda-graph-modules: '[attn moe_router]'\n")
            .graph_scope.size() == 2);
}

TEST_CASE("recomputation by a number of layers is that of the first of each chunk", "[interop]") {
  const std::string block = "--recompute-granularity full --recompute-method block ";
  const auto layout = [&](const std::string& more) {
    return from_flags(test::decoder(block + more)).layout;
  };
  CHECK(layout("--recompute-num-layers 5").recompute == Recompute::full);
  CHECK(layout("--recompute-num-layers 5").recompute_layers == 5);
  CHECK(layout("--recompute-num-layers 24").recompute_layers == 0);
  CHECK(layout("--recompute-num-layers 12 --pipeline-model-parallel-size 2").recompute_layers == 0);
  CHECK(layout("--recompute-num-layers 5 --pipeline-model-parallel-size 2").recompute_layers == 5);
  CHECK_FALSE(test::flag_problems(test::decoder(block + "--recompute-num-layers 0")).empty());
}

TEST_CASE("what Megatron-Bridge runs and Megatron-LM stops at is read from a recipe", "[interop]") {
  // Without the overlap of gradients there is one bucket, which is gathered at once.
  const std::string alone =
      "cfg.ddp.use_distributed_optimizer = True\ncfg.ddp.overlap_param_gather = True\n"
      "cfg.ddp.overlap_grad_reduce = False";
  const Imported gathers = with_lines(alone);
  CHECK_FALSE(gathers.layout.overlap_parameters);
  CHECK(notes(gathers, "overlap_param_gather"));
  CHECK_FALSE(test::flag_problems(test::decoder("--overlap-param-gather")).empty());
  // Parts of matrices that are orthogonal each: whole ones bound them.
  const Imported muon = with_lines(
      "cfg.model.tensor_model_parallel_size = 2\n"
      "cfg.optimizer, cfg.scheduler = distributed_muon_with_cosine_annealing(max_lr=1e-4)");
  CHECK(muon.layout.optimizer == OptimizerKind::muon);
  CHECK(muon.layout.zero_stage == 1);
  const auto note = std::ranges::find(muon.notes, "muon_tp_mode", &Note::key);
  REQUIRE(note != muon.notes.end());
  CHECK(note->unmodelled);
  // 8-bit parameters are gathered by Muon's distributed optimizer, too.
  CHECK(with_lines("cfg.mixed_precision = 'bf16_with_fp8_current_scaling_mixed'\n"
                   "cfg.ddp.use_distributed_optimizer = False\n"
                   "cfg.optimizer, cfg.scheduler = distributed_muon_with_cosine_annealing()")
            .layout.eight_bit_parameters);
}

TEST_CASE("a value of a recipe that is not known and that nothing reads is no error", "[interop]") {
  // The model has a vocabulary of its own.
  CHECK(with_lines("cfg.tokenizer.vocab_size = os.cpu_count()").shape.vocabulary == 50304);
  // A key beside it is known, and read by nobody.
  CHECK(notes(with_lines("cfg.dataset.offline_packing_specs = PackedSequenceSpecs("
                         "packed_sequence_size=2048)\n"
                         "cfg.dataset.offline_packing_specs.pad_seq_to_mult = os.cpu_count()"),
              "dataset"));
}
