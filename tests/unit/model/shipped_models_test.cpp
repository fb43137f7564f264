// Every file under models/ loads, says where its figures come from, and has the published number of
// parameters.
#include <filesystem>

#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string folder = sim::test::source_dir() + "/models/";

Model shipped(const std::string& name) {
  return load_model(folder + name + (name == "llama-3.1-405b" ? "/config.json" : ".yaml"));
}

// Megatron-LM's formula without the padding of the vocabulary (Narayanan et al. 2021, equation 2):
// P = 12 L h^2 (1 + 13 / (12 h) + (V + S) / (12 L h)), the final norm's 2 h left out by it.
std::int64_t megatron_parameters(std::int64_t layers, std::int64_t h) {
  return 12 * layers * h * h + 13 * layers * h + (51'200 + 2'048) * h;
}

}  // namespace

TEST_CASE("parameter counts equal the published ones to the last parameter", "[model]") {
  struct Published {
    const char* name;
    std::int64_t parameters;
  };
  const Published published = GENERATE(
      Published{"llama-3.1-8b", 8'030'261'248}, Published{"llama-3.1-70b", 70'553'706'496},
      Published{"llama-3.1-405b", 405'853'388'800}, Published{"llama-2-7b", 6'738'415'616},
      Published{"llama-2-13b", 13'015'864'320}, Published{"llama-2-70b", 68'976'648'192},
      Published{"mistral-7b", 7'241'732'096}, Published{"llama-3.2-1b", 1'235'814'400},
      Published{"llama-3.2-3b", 3'212'749'824}, Published{"qwen2.5-1.5b", 1'543'714'304},
      Published{"qwen2.5-3b", 3'085'938'688}, Published{"qwen2.5-7b", 7'615'616'512},
      Published{"qwen2.5-14b", 14'770'033'664}, Published{"qwen2.5-32b", 32'763'876'352},
      Published{"qwen2.5-72b", 72'706'203'648}, Published{"qwen3-1.7b", 1'720'574'976},
      Published{"qwen3-4b", 4'022'468'096}, Published{"qwen3-14b", 14'768'307'200},
      Published{"qwen3-32b", 32'762'123'264}, Published{"tinyllama-1.1b", 1'100'048'384},
      Published{"mistral-nemo-12b", 12'247'782'400},
      // Checkpoints; of Nemotron 3 Nano without the 23 x 128 correction biases of routers.
      Published{"nemotron-h-8b", 8'100'852'736},
      Published{"nemotron-3-nano", 31'577'940'288 - 23 * 128},
      Published{"qwen3-next-80b-a3b", 79'674'391'296},
      Published{"llama-3.3-nemotron-super-49b", 49'867'145'216},
      Published{"gpt-oss-20b", 20'914'757'184}, Published{"gpt-oss-120b", 116'829'156'672},
      // V3's and an indexer in each of 61 layers.
      Published{"deepseek-v3.2", 671'026'404'352 + 61 * 13'959'424}, Published{"gpt2", 124'439'808},
      Published{"qwen2-0.5b", 494'032'768}, Published{"qwen3-8b", 8'190'735'360},
      Published{"bert-base", 109'482'240}, Published{"bert-large", 335'141'888},
      Published{"bert-base-pretraining", 110'106'428}, Published{"distilbert", 66'362'880},
      // The encoder, and a row of the hidden size with a bias for each of two classes.
      Published{"distilbert-classifier", 66'362'880 + 2 * 768 + 2},
      Published{"vit-b16", 86'567'656}, Published{"vit-l16", 304'326'632},
      Published{"resnet50", 25'557'032}, Published{"mixtral-8x7b", 46'702'792'704},
      Published{"deepseek-v2", 235'741'434'880},
      // Published with 58 x 256 correction biases of the routers, which are not trained.
      Published{"deepseek-v3", 671'026'419'200 - 14'848},
      Published{"qwen3-235b-a22b", 235'093'634'560}, Published{"phi-4", 14'659'507'200},
      Published{"olmo-2-32b", 32'234'279'936}, Published{"gemma-3-1b", 999'885'952},
      Published{"smollm3-3b", 3'075'098'624}, Published{"ernie-4.5-0.3b", 360'748'032},
      Published{"granite-3.3-8b", 8'170'864'640}, Published{"gpt-oss-20b", 20'914'757'184},
      Published{"gpt-oss-120b", 116'829'156'672}, Published{"gemma-2-2b", 2'614'341'888},
      Published{"gemma-2-9b", 9'241'705'984}, Published{"gemma-2-27b", 27'227'128'320},
      Published{"deepseek-v2-lite", 15'706'484'224}, Published{"glm-5.2", 743'377'000'704},
      Published{"qwen2.5-vl-7b", 8'292'166'656}, Published{"qwen3-vl-8b", 8'767'123'696},
      Published{"qwen3.8-27b-vl", 27'356'728'560},
      Published{"flux.1-dev", 11'901'408'320}, Published{"flux.1-schnell-256", 11'891'178'560},
      // Without the vision encoder and its projector.
      Published{"llama-4-scout", 108'641'793'536 - 871'932'416},
      Published{"llama-4-maverick", 401'583'781'376 - 871'932'416},
      // Without the vision encoder and a depth of multi-token prediction.
      Published{"qwen3.8-27b", 27'781'427'952 - 460'730'096 - 424'699'392});
  CAPTURE(published.name);
  REQUIRE(shipped(published.name).parameters() == published.parameters);
}

TEST_CASE("language models of several modalities, and rounded counts", "[model]") {
  struct Rounded {
    const char* name;
    double billions;  // in the model's name or its report
  };
  const Rounded rounded = GENERATE(
      Rounded{"kimi-k2", 1026}, Rounded{"qwen3.5-397b-a17b", 396.3},
      Rounded{"qwen3.5-122b-a10b", 122.1}, Rounded{"qwen3.5-35b-a3b", 34.7},
      Rounded{"qwen3.5-27b", 26.9}, Rounded{"qwen3.5-9b", 9.0}, Rounded{"qwen3.5-4b", 4.2},
      Rounded{"qwen3.5-2b", 1.9}, Rounded{"qwen3.5-0.8b", 0.75}, Rounded{"gemma-3-4b", 3.88},
      Rounded{"gemma-3-12b", 11.77}, Rounded{"gemma-3-27b", 27.0}, Rounded{"ministral-3-3b", 3.4},
      Rounded{"ministral-3-8b", 8.4}, Rounded{"ministral-3-14b", 13.5});
  CAPTURE(rounded.name);
  REQUIRE_THAT(static_cast<double>(shipped(rounded.name).parameters()),
               WithinRel(rounded.billions * 1e9, 0.03));
}

// The vision encoder of the class: 34 layers of 1,408 with biases, patches, positions, norms, two
// products behind pixel shuffling, and the projector.
TEST_CASE("the encoder that is left out of Llama 4 has the rest of its parameters", "[model]") {
  const std::int64_t h = 1'408, mlp = 5'632, out = 4'096;
  const std::int64_t layer = 4 * (h * h + h) + h * mlp + mlp + mlp * h + h + 4 * h;
  const std::int64_t ends = 3 * 14 * 14 * h + h + 577 * h + 4 * h;
  REQUIRE(34 * layer + ends + 4 * h * out + out * out + out * 5'120 == 871'932'416);
}

// Printed with 24 x 128 correction biases of routers.
TEST_CASE("Nemotron 3.5 Lightning has its parameters with a depth of prediction", "[model]") {
  TransformerShape shape = *shipped("nemotron-3.5-lightning").shape;
  shape.mtp_layers = 1;
  REQUIRE(build_transformer(shape).parameters() == 32'913'266'240 - 24 * 128);
}

TEST_CASE("a token passes the published number of parameters", "[model]") {
  REQUIRE(shipped("mixtral-8x7b").active_parameters() == 12'879'925'248);
  REQUIRE(shipped("qwen3-235b-a22b").active_parameters() == 22'190'763'520);
  REQUIRE(shipped("deepseek-v3").active_parameters() == 37'552'297'472 - 14'848);
  REQUIRE(shipped("gpt2").active_parameters() == shipped("gpt2").parameters());
}

TEST_CASE("Megatron shapes have the parameters of their paper's formula", "[model]") {
  struct Shape {
    const char* name;
    std::int64_t layers, hidden;
    double billions;  // as printed in the paper
  };
  const Shape shape = GENERATE(
      Shape{"megatron-1.7b", 24, 2'304, 1.7}, Shape{"megatron-3.6b", 30, 3'072, 3.6},
      Shape{"megatron-7.5b", 36, 4'096, 7.5}, Shape{"megatron-18b", 40, 6'144, 18.4},
      Shape{"megatron-39b", 48, 8'192, 39.1}, Shape{"megatron-76b", 60, 10'240, 76.1},
      Shape{"megatron-145b", 80, 12'288, 145.6}, Shape{"megatron-310b", 96, 16'384, 310.1},
      Shape{"megatron-530b", 105, 20'480, 529.6}, Shape{"megatron-1t", 128, 25'600, 1'008.0},
      Shape{"korthikanti-22b", 48, 6'144, 22}, Shape{"korthikanti-175b", 96, 12'288, 175},
      Shape{"korthikanti-530b", 105, 20'480, 530}, Shape{"korthikanti-1t", 128, 25'600, 1'008},
      Shape{"turing-nlg-530b", 105, 20'480, 530});
  CAPTURE(shape.name);
  const Model model = shipped(shape.name);
  REQUIRE(model.parameters() == megatron_parameters(shape.layers, shape.hidden) + 2 * shape.hidden);
  REQUIRE_THAT(static_cast<double>(model.parameters()), WithinRel(shape.billions * 1e9, 0.03));
}

TEST_CASE("Nemotron-4 and MPT have the published numbers of parameters", "[model]") {
  // Nemotron-4 340B: 9.4 B in the embeddings, 331.6 B in the rest (arXiv:2406.11704, section 2.1);
  // 15B: 3.2 B and 12.5 B (arXiv:2402.16819, section 2).
  REQUIRE_THAT(static_cast<double>(shipped("nemotron-4-340b").parameters()),
               WithinRel(341.0e9, 1e-3));
  REQUIRE_THAT(static_cast<double>(shipped("nemotron-4-15b").parameters()),
               WithinRel(15.7e9, 5e-3));
  // llm-foundry's benchmark prints 6.659, 29.975 and 64.862 B parameters for 7B, 30B and 70B at
  // sequence 2048, of which 2048 rows are the learned positions that the files leave out.
  const auto benchmarked = [](const char* name, std::int64_t hidden) {
    return static_cast<double>(shipped(name).parameters() + 2'048 * hidden);
  };
  REQUIRE_THAT(benchmarked("mpt-7b", 4'096), WithinAbs(6.659e9, 0.5e6));
  REQUIRE_THAT(benchmarked("mpt-30b", 7'168), WithinAbs(29.975e9, 0.5e6));
  REQUIRE_THAT(benchmarked("mpt-70b", 8'192), WithinAbs(64.862e9, 0.5e6));
}

TEST_CASE("every shipped model loads, is named like its file and names its source", "[model]") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml" && !entry.is_directory()) continue;
    CAPTURE(entry.path().string());
    const Model model = load_model(entry.path().string());
    REQUIRE(model.name ==
            entry.path()
                .filename()
                .replace_extension(entry.is_directory() ? entry.path().extension() : "")
                .string());
    REQUIRE(model.source.size() > 20);
    REQUIRE(model.parameters() > 0);
    REQUIRE(!model.layers.empty());
    ++count;
  }
  REQUIRE(count >= 40);
}
