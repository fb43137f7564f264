// Formats by module in files of Megatron-LM and Megatron-Bridge. All inputs are written for these
// tests.
#include "sim/interop/bridge/module_recipe.hpp"

#include <filesystem>
#include <fstream>

#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/formats.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::from_yaml;
using test::problems;

namespace {

using Lines = std::vector<std::string>;
using Modules = std::vector<LinearModule>;

// Attention and two linears of each layer by pattern, the rest as the job has it.
constexpr const char* patterns = R"(configs:
  wide: {transformer_engine_config_type: TEQuantizationParams, training_recipe: {}}
  eight:
    transformer_engine_config_type: TEQuantizationParams
    training_recipe: {fp8_quantization_recipe: mxfp8}
    evaluation_recipe: {}
matchers:
  off: {config: wide, type: glob, pattern: "*", enabled: False}
  attention: {config: wide, type: glob, pattern: "*.self_attention.linear_*", enabled: True}
  down: {config: eight, type: glob, pattern: "*mlp.linear_fc[2]", enabled: true}
)";

std::string container(const std::string& model, const std::string& precision) {
  return "model:\n  num_layers: 4\n  hidden_size: 1024\n  num_attention_heads: 16\n"
         "  ffn_hidden_size: 4096\n  seq_length: 2048\n  vocab_size: 32000\n"
         "  normalization: RMSNorm\n  position_embedding_type: rope\n"
         "  share_embeddings_and_output_weights: false\n" +
         model + "train: {micro_batch_size: 1, global_batch_size: 8}\nmixed_precision: {" +
         precision + "}\nddp: {use_distributed_optimizer: true}\n";
}

std::string with_recipe(const std::string& matchers, const std::string& formats) {
  return "  quant_recipe: {matchers: [" + matchers + "], config_dict: {" + formats + "}}\n";
}

constexpr const char* te = "transformer_engine_config_type: TEQuantizationParams";
std::string wide() {
  return std::string{"wide: {"} + te + ", training_recipe: {}}";
}
std::string eight(const std::string& recipe) {
  return std::string{"eight: {"} + te + ", training_recipe: {fp8_quantization_recipe: " + recipe +
         "}}";
}

// A file in a folder of its own.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const char* name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream{file} << text;
    return file.string();
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / "stepcast_module_recipe_test";
};

}  // namespace

TEST_CASE("patterns are those of Python's fnmatch", "[interop]") {
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("*.linear_qkv", "decoder.layers.0.self_attention.linear_qkv"));
  CHECK_FALSE(glob_matches("*.linear_qkv", "decoder.linear_qkv.weight"));
  CHECK(glob_matches("*mlp.fc[12]_latent_proj", "decoder.layers.1.mlp.fc2_latent_proj"));
  CHECK_FALSE(glob_matches("*mlp.fc[!12]_latent_proj", "decoder.layers.1.mlp.fc2_latent_proj"));
  CHECK(glob_matches("layers.[0-3].?c", "layers.2.fc"));
  CHECK_FALSE(glob_matches("layers.[0-3].?c", "layers.4.fc"));
  CHECK(glob_matches("a[", "a["));
  CHECK(glob_matches("*a*b*c", "xaybzabc"));
  CHECK_FALSE(glob_matches("mtp.*", "decoder.mtp.x"));
  // Patterns of many stars end.
  CHECK_FALSE(glob_matches("*a*a*a*a*a*a*a*a*b", std::string(5'000, 'a')));
}

TEST_CASE("a recipe file gives linears their formats", "[interop]") {
  const Folder folder;
  const std::string file = folder.write("precision.yaml", patterns);
  const std::string flags = test::decoder("--fp4-format e2m1 --te-precision-config-file " + file);
  const Imported job = test::from_flags(flags);
  CHECK(job.layout.compute_dtype == DType::nvfp4);
  CHECK(job.layout.bf16_modules == Modules{LinearModule::qkv, LinearModule::attention_projection});
  CHECK(job.layout.fp8_modules == Modules{LinearModule::mlp_down});
  CHECK(job.framework.execution.eight_bit == EightBit::transformer_engine_mxfp8);
  // Beside products in 16 bits a recipe changes nothing.
  const Imported plain = test::from_flags(test::decoder("--te-precision-config-file " + file));
  CHECK(plain.layout.compute_dtype == DType::bf16);
  CHECK(plain.layout.bf16_modules.empty());
  const Lines missing = test::flag_problems(
      test::decoder("--fp8-format e4m3 --te-precision-config-file nowhere.yaml"));
  REQUIRE(missing.size() == 1);
  CHECK(missing.front().find("there is no file nowhere.yaml") != std::string::npos);
  // Mistakes have their place in the recipe.
  const std::string wrong = folder.write(
      "wrong.yaml", "configs: {}\nmatchers:\n  a: {config: b, pattern: x, enabled: true}\n");
  const Lines at =
      test::flag_problems(test::decoder("--fp8-format e4m3 --te-precision-config-file " + wrong));
  REQUIRE(at.size() == 1);
  CHECK(at.front().find("3:15: there is no format 'b'") != std::string::npos);
}

TEST_CASE("a container's recipe is read, and written again", "[interop]") {
  const std::string fp8 = "bf16: true, fp8: e4m3, fp8_recipe: mxfp8";
  const auto read = [&](const std::string& matchers, const std::string& formats) {
    return from_yaml(container(with_recipe(matchers, formats), fp8), 8);
  };
  const Imported job = read("{pattern: \"*linear_qkv\", config_key: wide}", wide());
  CHECK(job.layout.bf16_modules == Modules{LinearModule::qkv});
  CHECK(job.layout.fp8_modules.empty());
  CHECK(from_yaml(container("  quant_recipe: null\n", fp8), 8).layout.bf16_modules.empty());
  // The missing part of a model that is not whole is told.
  std::string broken = container(with_recipe(R"({config_key: wide, pattern: "*"})", wide()), fp8);
  broken.replace(broken.find("num_layers"), 10, "numlayers");
  CHECK_FALSE(problems([&] { return from_yaml(broken, 8); }).empty());
  // All of them: there are no products in 8 bits.
  const Imported none = read("{pattern: \"*\", config_key: wide}", wide());
  CHECK(none.layout.compute_dtype == DType::bf16);
  const auto refused = [&](const std::string& matchers, const std::string& formats) {
    const Lines found = problems([&] { return read(matchers, formats); });
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " problems";
  };
  CHECK(refused("{pattern: \"*layers.2.*\", config_key: wide}", wide())
            .find("different formats; modelled: one for all linears of a kind") !=
        std::string::npos);
  CHECK(refused("{pattern: \"*linear_qkv\", config_key: eight}", eight("tensorwise"))
            .find("different recipes in 8 bits") != std::string::npos);
  CHECK(refused("{pattern: x, config_key: eight}", eight("delayed"))
            .find("is 'delayed'; modelled: tensorwise, blockwise, mxfp8") != std::string::npos);
  CHECK(refused("{pattern: x, config_key: k}", "k: {training_recipe: {}}")
            .find("no TEQuantizationParams") != std::string::npos);

  Scenario scenario = load_scenario(test::source_dir() + "/scenarios/llama-3.1-70b-512-h100.yaml");
  scenario.layout.compute_dtype = DType::nvfp4;
  scenario.layout.bf16_modules = {LinearModule::qkv, LinearModule::attention_projection};
  scenario.layout.fp8_modules = {LinearModule::mlp_down};
  scenario.layout.overlap_tensor_products = false;
  scenario.framework.execution.eight_bit = EightBit::transformer_engine_mxfp8;
  const Exported written = export_scenario(scenario, Target::nemo, "");
  CHECK(written.text.find("pattern: \"*.self_attention.linear_qkv\", config_key: bf16") !=
        std::string::npos);
  CHECK_THROWS_AS(export_scenario(scenario, Target::megatron, ""), InputError);
  CHECK_THROWS_AS(export_scenario(scenario, Target::torchtitan, ""), InputError);
}

TEST_CASE("the head in MXFP8, and buckets by number, are read and written", "[interop]") {
  const std::string flags =
      "--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-output-proj "
      "--untie-embeddings-and-output-weights --overlap-grad-reduce "
      "--ddp-num-buckets 12";
  const Imported job = test::from_flags(test::decoder(flags));
  CHECK(job.layout.fp8_modules == Modules{LinearModule::head});
  CHECK(job.layout.buckets == 12);
  const Lines tied =
      test::flag_problems(test::decoder("--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-output-proj"));
  REQUIRE(tied.size() == 1);
  CHECK(tied.front().find("shares the embedding's table") != std::string::npos);
  CHECK(test::flag_problems(test::decoder("--fp8-format e4m3 --fp8-output-proj "
                                          "--untie-embeddings-and-output-weights"))
            .size() == 1);
  CHECK(test::flag_problems(test::decoder("--overlap-grad-reduce --ddp-num-buckets 2 "
                                          "--ddp-bucket-size 100"))
            .size() == 1);
  Scenario scenario = load_scenario(test::source_dir() + "/scenarios/llama-3.1-70b-512-h100.yaml");
  scenario.layout.compute_dtype = DType::fp8;
  scenario.layout.fp8_modules = {LinearModule::head};
  scenario.layout.bucket.reset();
  scenario.layout.first_bucket.reset();
  scenario.layout.buckets = 48;
  scenario.layout.overlap_tensor_products = false;
  scenario.framework.execution.eight_bit = EightBit::transformer_engine_mxfp8;
  const std::string text = export_scenario(scenario, Target::megatron, "").text;
  CHECK(text.find("--fp8-output-proj") != std::string::npos);
  CHECK(text.find("--ddp-num-buckets 48") != std::string::npos);
  CHECK(export_scenario(scenario, Target::nemo, "").text.find("num_buckets: 48") !=
        std::string::npos);
}

TEST_CASE("recipes of Megatron-Bridge in Python load a file beside them, or make a recipe",
          "[interop]") {
  const Folder folder;
  static_cast<void>(folder.write("precision.cfg", patterns));
  const std::string name = "llama3_70b_pretrain_64gpu_gb200_nvfp4_config";
  const auto import = [&](const std::string& recipe) {
    const std::string text =
        "from pathlib import Path\n"
        "from megatron.core.quantization.utils import load_quantization_recipe\n"
        "from megatron.core.quantization.quant_config import RecipeConfig\n"
        "_FILE = Path(__file__).with_name(\"precision.cfg\")\n"
        "def " +
        name +
        "():\n    cfg = _pretrain_common()\n"
        "    cfg.mixed_precision = _perf_precision(\"nvfp4\")\n"
        "    cfg.model.seq_length = 8192\n    cfg.dataset.sequence_length = 8192\n"
        "    cfg.train.global_batch_size = 128\n    cfg.train.micro_batch_size = 1\n"
        "    cfg.model.tensor_model_parallel_size = 2\n"
        "    cfg.model.pipeline_model_parallel_size = 4\n"
        "    cfg.model.virtual_pipeline_model_parallel_size = 5\n"
        "    cfg.model.sequence_parallel = True\n"
        "    cfg.model.quant_recipe = " +
        recipe + "\n    return cfg\n";
    const std::string file = folder.write("recipe.py", text);
    return import_bridge_recipe(evaluate_recipe(text, file, name, true), name, {}).layout;
  };
  const Layout loaded = import("load_quantization_recipe(str(_FILE))");
  CHECK(loaded.compute_dtype == DType::nvfp4);
  CHECK(loaded.bf16_modules == Modules{LinearModule::qkv, LinearModule::attention_projection});
  CHECK(loaded.fp8_modules == Modules{LinearModule::mlp_down});
  const Layout made = import(
      "RecipeConfig.from_config_dict({\"configs\": {\"a\": {\"transformer_engine_config_type\": "
      "\"TEQuantizationParams\", \"training_recipe\": {}}}, \"matchers\": {\"m\": {\"config\": "
      "\"a\", \"type\": \"glob\", \"pattern\": \"*fc1\", \"enabled\": True}}})");
  CHECK(made.bf16_modules == Modules{LinearModule::mlp_up});
  CHECK(import("None").bf16_modules.empty());
}
