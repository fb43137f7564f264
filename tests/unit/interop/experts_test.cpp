// Mixtures of experts and latent attention: from Megatron-LM's flags and Megatron-Bridge's YAML,
// and to them. All inputs are written for these tests.
#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();
using Lines = std::vector<std::string>;

// A decoder of 12 layers with 8 experts; "more" stands in line 6.
std::string mixture(const std::string& more = "", const std::string& experts =
                                                      "--num-experts 8 --moe-grouped-gemm "
                                                      "--moe-token-dispatcher-type alltoall") {
  return "MODEL=( --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048\n"
         "  --position-embedding-type rope --vocab-size 50304 --ffn-hidden-size 4096\n"
         "  --attention-dropout 0.0 --hidden-dropout 0.0 --micro-batch-size 1 --bf16\n"
         "  --moe-permute-fusion --disable-bias-linear --normalization RMSNorm --swiglu\n"
         "  " +
         experts + "\n" + more + "\n)\n";
}

std::string latent(const std::string& more,
                   const std::string& ranks = "--q-lora-rank 384 --kv-lora-rank 256") {
  return mixture("--multi-latent-attention " + ranks + " " + more, "");
}

Imported from_flags(const std::string& text, int gpus = 8) {
  return import_megatron(parse_flags(text, "a.sh"), {.gpus = gpus});
}
Imported from_yaml(const std::string& text, int gpus = 8) {
  return import_nemo(Document::parse(text, "a.yaml", Syntax::yaml), {.gpus = gpus});
}

template <class Import>
Lines problems(Import import) {
  try {
    static_cast<void>(import());
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}
Lines flag_problems(const std::string& text) {
  return problems([&] { return from_flags(text); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
Lines note_keys(const std::vector<Note>& notes) {
  Lines keys;
  for (const Note& note : notes)
    keys.push_back(note.key);
  return keys;
}

std::vector<bool> pattern(const std::string& bits) {
  std::vector<bool> result;
  for (const char bit : bits)
    result.push_back(bit == '1');
  return result;
}

// A job on 64 H100s.
Scenario job(const std::string& model) {
  Scenario scenario = load_scenario(
      root + "/scenarios/llama-3.1-70b-512-h100.yaml",
      {"cluster.nodes=8", "layout.tensor_parallel=2", "layout.pipeline_parallel=2",
       "layout.data_parallel=16", "layout.virtual_stages=1", "layout.schedule=1f1b",
       "layout.sequence_length=4096", "layout.global_batch=64", "layout.overlap.pipeline=false"});
  scenario.model = load_model(root + "/models/" + model + ".yaml");
  return scenario;
}

Lines refusals(const Scenario& scenario, Target target) {
  try {
    static_cast<void>(export_scenario(scenario, target, ""));
  } catch (const InputError& error) {
    Lines lines;
    for (const Problem& problem : error.problems())
      lines.push_back(problem.what);
    return lines;
  }
  return {};
}

}  // namespace

TEST_CASE("Megatron-LM's defaults for experts", "[interop]") {
  const Imported plain = from_flags(mixture());
  CHECK(plain.shape.experts ==
        Experts{.count = 8, .per_token = 2, .feed_forward = 4096, .every = 1});
  CHECK(plain.layout.expert_parallel == 1);
  CHECK(plain.layout.expert_tensor() == 1);
  CHECK(plain.notes.empty());

  const Imported given = from_flags(
      mixture("--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4 "
              "--expert-tensor-parallel-size 1 --moe-router-topk 4 --moe-ffn-hidden-size 1024 "
              "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*9)' "
              "--moe-aux-loss-coeff 1e-2 --moe-router-score-function sigmoid"));
  CHECK(given.shape.experts == Experts{.count = 8,
                                       .per_token = 4,
                                       .feed_forward = 1024,
                                       .shared_feed_forward = 2048,
                                       .first_layer = 3,
                                       .every = 1});
  CHECK(given.shape.feed_forward == 4096);
  CHECK(given.layout.expert_parallel == 4);
  CHECK(given.layout.expert_tensor() == 1);
  CHECK(note_keys(given.notes) == Lines{"layout.expert_imbalance"});
  CHECK(given.ignored == Lines{"--moe-aux-loss-coeff", "--moe-router-score-function"});
  // As many tensor ranks share an expert as share the rest.
  CHECK(from_flags(mixture("--tensor-model-parallel-size 2 --sequence-parallel"))
            .layout.expert_tensor() == 2);
}

TEST_CASE("experts without grouped products or fused permutation are told", "[interop]") {
  const std::string text = mixture("", "--num-experts 8 --moe-token-dispatcher-type alltoall");
  CHECK(note_keys(from_flags(text).notes) == Lines{"moe-grouped-gemm"});
  const Imported fused = from_flags(mixture("--moe-router-dtype fp32 --moe-router-fusion"));
  CHECK(note_keys(fused.notes) == Lines{"--moe-router-dtype", "moe_router_fusion"});
  CHECK_FALSE(fused.framework.execution.router_fusion);
  CHECK(from_flags(mixture("--moe-router-fusion --cuda-graph-impl local --cuda-graph-scope full"))
            .framework.execution.router_fusion);
  CHECK_FALSE(from_flags(mixture("--moe-router-fusion --cuda-graph-impl local "
                                 "--cuda-graph-scope attn"))
                  .framework.execution.router_fusion);
}

TEST_CASE("which layers have experts, in Megatron-LM's words", "[interop]") {
  const auto layers = [](const std::string& text, std::int64_t count) {
    const ExpertLayers parsed = parse_expert_layers(text, count);
    CAPTURE(text, parsed.problem);
    CHECK(parsed.problem.empty());
    return parsed.pattern;
  };
  CHECK(layers("1", 3) == pattern("111"));
  CHECK(layers("2", 5) == pattern("10101"));
  CHECK(layers("9", 3) == pattern("100"));
  CHECK(layers("[1,1,0]", 3) == pattern("110"));
  CHECK(layers("([0]*3+[1]*4)", 7) == pattern("0001111"));
  CHECK(layers("([0]*1+[1]*3)*2", 8) == pattern("01110111"));
  CHECK(layers("[0]+([1]+[0]*2)*2+[1]", 8) == pattern("01001001"));
  CHECK(layers("[0, 1] * 2 * 2", 8) == pattern("01010101"));
  CHECK(layers("[]+[1]", 1) == pattern("1"));

  const auto problem = [](const std::string& text) { return parse_expert_layers(text, 3).problem; };
  const std::string known = "; known: a number, or lists of 0 and 1, as ([0]*3+[1]*58)";
  CHECK(problem("0") == "is 0; allowed: 1 to 10000");
  CHECK(problem("99999999999999999999") == "is 99999999999999999999; allowed: 1 to 10000");
  CHECK(problem("[0]*2") == "describes 2 layers; the model has 3");
  CHECK(problem("[0]*99999999999999999999") == "describes more than 10000 layers");
  CHECK(problem("([1]*5000)*5000") == "describes more than 10000 layers");
  CHECK(problem("") == "ends too early" + known);
  CHECK(problem("([0]") == "ends too early" + known);
  CHECK(problem("[0]*") == "ends too early" + known);
  CHECK(problem("[2]") == "has '2' at 2" + known);
  CHECK(problem("[10]") == "has '0' at 3" + known);
  CHECK(problem("[0])") == "has ')' at 4" + known);
  CHECK(problem("-1") == "has '-' at 1" + known);
  CHECK(problem("__import__('os')") == "has '_' at 1" + known);
  CHECK(problem(std::string(1000, '(')) == "has '(' at 33" + known);
  CHECK(problem(std::string(40'000, '(')) == "has more than 32768 characters");
}

TEST_CASE("layers with experts are written and read back", "[interop]") {
  const auto text = [](std::int64_t first, std::int64_t every, std::int64_t layers) {
    return expert_layers_text({.count = 8, .first_layer = first, .every = every}, layers);
  };
  CHECK(text(0, 2, 12) == "2");
  CHECK(text(3, 1, 61) == "([0]*3+[1]*58)");
  CHECK(text(1, 4, 10) == "([0]+([1]+[0]*3)*2+[1])");
  CHECK(text(1, 2, 4) == "([0]+([1]+[0])+[1])");
  for (std::int64_t layers = 1; layers < 12; ++layers)
    for (std::int64_t first = 0; first < layers; ++first)
      for (std::int64_t every = 1; every < 14; ++every) {
        CAPTURE(layers, first, every);
        const Experts experts{.count = 8, .first_layer = first, .every = every};
        for (const std::string& written :
             {expert_layers_text(experts, layers), expert_layers_list(experts, layers)}) {
          const ExpertLayers read = parse_expert_layers(written, layers);
          REQUIRE(read.problem.empty());
          for (std::int64_t layer = 0; layer < layers; ++layer)
            REQUIRE(read.pattern[static_cast<std::size_t>(layer)] == experts.in_layer(layer));
        }
      }
}

TEST_CASE("what Megatron-LM can do with experts and is not modelled is refused", "[interop]") {
  CHECK(flag_problems(mixture("--moe-layer-freq ([0]*5+[1]*7)*2")) ==
        Lines{"6:18: describes 24 layers; the model has 12"});
  CHECK(flag_problems(mixture("--moe-layer-freq ([1]*2+[0]*2)*3")) ==
        Lines{"6:18: the layers with experts are no regular row; modelled: each n-th layer from "
              "some layer on"});
  CHECK(flag_problems(mixture("--moe-layer-freq [0]*12")) ==
        Lines{"6:18: the layers with experts are no regular row; modelled: each n-th layer from "
              "some layer on"});
  CHECK(flag_problems(mixture("", "--num-experts 1 --moe-token-dispatcher-type alltoall")) ==
        Lines{"5:17: is 1; allowed: 2 to 65536"});
  CHECK(flag_problems(mixture("--moe-router-topk 9")) ==
        Lines{"6:19: 9 experts for each token; there are 8"});
  CHECK(flag_problems(mixture("--moe-shared-expert-gate")).size() == 1);  // no shared experts
  CHECK(flag_problems(mixture("--mtp-num-layers 17")) == Lines{"6:18: is 17; allowed: 0 to 16"});
  CHECK(flag_problems(mixture("--mtp-num-layers 1")).empty());
}

TEST_CASE("a capacity of experts is read, padded or dropping", "[interop]") {
  const std::string padded = "--moe-pad-expert-input-to-capacity --expert-model-parallel-size 8";
  const Imported even = from_flags(mixture("--moe-expert-capacity-factor 1.25 " + padded));
  CHECK(even.notes.empty());
  CHECK(even.layout.expert_capacity == 1.25);
  CHECK(even.layout.pad_to_capacity);
  const Imported drops =
      from_flags(mixture("--moe-expert-capacity-factor 2 --expert-model-parallel-size 8"));
  CHECK(drops.layout.expert_capacity == 2);
  CHECK_FALSE(drops.layout.pad_to_capacity);
  CHECK(note_keys(drops.notes) == Lines{"layout.expert_imbalance"});
  CHECK(from_flags(mixture()).layout.expert_capacity == 0);
  // Negative is none.
  CHECK(note_keys(from_flags(mixture("--moe-expert-capacity-factor -1 "
                                     "--expert-model-parallel-size 8"))
                      .notes) == Lines{"layout.expert_imbalance"});
  CHECK(flag_problems(mixture(padded)) == Lines{"6:1: needs a capacity factor of the experts"});
}

TEST_CASE("token dispatchers and what overlaps with them are read", "[interop]") {
  const auto of = [](const std::string& flags) {
    return from_flags(
               mixture("--expert-model-parallel-size 8 --expert-tensor-parallel-size 1", flags))
        .layout;
  };
  const std::string experts = "--num-experts 8 --moe-token-dispatcher-type ";
  CHECK(of("--num-experts 8").token_dispatcher == TokenDispatcher::allgather);  // the default
  CHECK(of(experts + "allgather").token_dispatcher == TokenDispatcher::allgather);
  CHECK(of(experts + "alltoall").token_dispatcher == TokenDispatcher::alltoall);
  CHECK(of(experts + "flex --moe-enable-deepep").token_dispatcher == TokenDispatcher::deepep);
  const Layout hybrid =
      of(experts + "flex --moe-flex-dispatcher-backend hybridep --moe-hybridep-num-sms 32");
  CHECK(hybrid.token_dispatcher == TokenDispatcher::hybridep);
  CHECK(hybrid.dispatch_sms == 32);
  const Layout merged =
      of(experts + "alltoall --overlap-moe-expert-parallel-comm --delay-wgrad-compute");
  CHECK(merged.overlap_expert_exchange);
  CHECK(merged.delay_weight_gradients);
  CHECK(of(experts + "alltoall --moe-shared-expert-intermediate-size 64 "
                     "--moe-shared-expert-overlap")
            .overlap_shared_experts);
  const Imported grouped =
      from_flags(mixture("--moe-router-num-groups 4 --moe-router-group-topk 2"));
  CHECK(grouped.shape.experts.groups == 4);
  CHECK(grouped.shape.experts.groups_per_token == 2);
  CHECK(flag_problems(mixture("--moe-router-num-groups 3 --moe-router-group-topk 2")) ==
        Lines{"6:25: 3 groups do not divide 8 experts"});
  CHECK(flag_problems(mixture("", experts + "alltoall_seq")) ==
        Lines{"5:47: is 'alltoall_seq'; modelled: alltoall, allgather, flex"});
  CHECK(flag_problems(mixture("--delay-wgrad-compute")) ==
        Lines{"1:1: overlap.delay_wgrad needs overlap.expert_exchange"});
}

TEST_CASE("expert parallelism is checked against the model", "[interop]") {
  CHECK(flag_problems(mixture("--expert-model-parallel-size 2", "")) ==
        Lines{"6:30: is 2, but the model has no experts"});
  CHECK(from_flags(mixture("--expert-model-parallel-size 1 --expert-tensor-parallel-size 1 "
                           "--moe-token-dispatcher-type allgather",
                           ""))
            .shape.experts.count == 0);
  CHECK(note_keys(from_flags(mixture("--delay-wgrad-compute", "")).notes) ==
        Lines{"delay-wgrad-compute"});
  REQUIRE(flag_problems(mixture("--expert-model-parallel-size 3")).size() == 2);
  CHECK(has(flag_problems(mixture("--expert-model-parallel-size 3")).front(),
            "expert_parallel is 3, which does not divide 8 experts"));
  CHECK(has(flag_problems(mixture("--tensor-model-parallel-size 2")).front(),
            "a mixture of experts needs it"));
}

TEST_CASE("Megatron-LM's latent attention", "[interop]") {
  const Imported job = from_flags(latent("--qk-layernorm --mscale 1.0 --rope-type yarn"));
  CHECK(job.shape.latent == LatentAttention{.query_rank = 384,
                                            .key_value_rank = 256,
                                            .plain_dim = 128,
                                            .rotary_dim = 64,
                                            .value_dim = 128});
  CHECK(job.shape.head_dim == 192);
  CHECK(job.shape.kv_heads == 16);
  CHECK_FALSE(job.shape.qk_norm);
  const Imported sized = from_flags(latent(
      "--qk-layernorm --qk-head-dim 64 --qk-pos-emb-head-dim 32 --v-head-dim 48 --kv-channels 99",
      "--kv-lora-rank 128"));
  CHECK(sized.shape.latent == LatentAttention{.query_rank = 0,
                                              .key_value_rank = 128,
                                              .plain_dim = 64,
                                              .rotary_dim = 32,
                                              .value_dim = 48});
  CHECK(flag_problems(latent("")) ==
        Lines{"6:1: latent attention is modelled with its norms: add --qk-layernorm "
              "(model.qk_layernorm)"});
  CHECK(flag_problems(latent("--qk-layernorm", "")) ==
        Lines{"1:1: the rank of keys and values is missing (--kv-lora-rank, model.kv_lora_rank): "
              "releases differ in its default"});
  CHECK(flag_problems(latent("--qk-layernorm --group-query-attention --num-query-groups 4")) ==
        Lines{"6:121: does not go with latent attention"});
  std::string learned = latent("--qk-layernorm --max-position-embeddings 2048");
  learned.replace(learned.find("rope"), 4, "learned_absolute");
  CHECK(flag_problems(learned) == Lines{"2:29: modelled with latent attention: rope"});
  std::string biases = latent("--qk-layernorm");
  biases.replace(biases.find("--disable-bias-linear"), 21, "");
  CHECK(flag_problems(biases) ==
        Lines{"6:1: latent attention is modelled without biases: add --disable-bias-linear "
              "(model.add_bias_linear false)"});
  // Without the switch the ranks say nothing.
  CHECK_FALSE(from_flags(mixture("--kv-lora-rank 32", "")).shape.latent.exists());
}

TEST_CASE("Megatron-Bridge: experts and latent attention", "[interop]") {
  const auto text = [](const std::string& more) {
    return "model:\n"
           "  _target_: megatron.bridge.models.mla_provider.MLAModelProvider\n"
           "  activation_func: {_target_: torch.nn.functional.silu}\n  gated_linear_unit: true\n"
           "  num_layers: 4\n  hidden_size: 1024\n  num_attention_heads: 16\n"
           "  num_query_groups: 16\n  ffn_hidden_size: 4096\n  vocab_size: 50304\n"
           "  normalization: RMSNorm\n  add_bias_linear: false\n  hidden_dropout: 0.0\n"
           "  attention_dropout: 0.0\n  position_embedding_type: rope\n  seq_length: 2048\n"
           "  num_moe_experts: 16\n  moe_router_topk: 4\n  moe_ffn_hidden_size: 512\n"
           "  moe_shared_expert_intermediate_size: 1024\n  moe_token_dispatcher_type: alltoall\n"
           "  moe_grouped_gemm: true\n  moe_permute_fusion: true\n"
           "  moe_expert_capacity_factor: null\n  expert_model_parallel_size: 4\n"
           "  expert_tensor_parallel_size: null\n  multi_latent_attention: true\n"
           "  q_lora_rank: null\n  kv_lora_rank: 256\n  qk_layernorm: true\n" +
           more + "train: {micro_batch_size: 1, global_batch_size: 16}\n";
  };
  const Imported job = from_yaml(text("  moe_layer_freq: [0, 1, 1, 1]\n"));
  CHECK(job.shape.experts == Experts{.count = 16,
                                     .per_token = 4,
                                     .feed_forward = 512,
                                     .shared_feed_forward = 1024,
                                     .first_layer = 1,
                                     .every = 1});
  CHECK(job.shape.latent.query_rank == 0);
  CHECK(job.shape.latent.key_value_rank == 256);
  CHECK(job.layout.expert_parallel == 4);
  CHECK(note_keys(job.notes) == Lines{"layout.expert_imbalance"});
  CHECK(from_yaml(text("  moe_layer_freq: 2\n")).shape.experts.every == 2);
  const auto yaml_problems = [&](const std::string& more) {
    return problems([&] { return from_yaml(text(more)); });
  };
  CHECK(yaml_problems("  moe_layer_freq: [0, 2]\n") ==
        Lines{"31:19: has '2' at 4; known: a number, or lists of 0 and 1, as ([0]*3+[1]*58)"});
  CHECK(from_yaml(text("  moe_shared_expert_gate: true\n")).shape.experts.shared_gate);
  const Imported merged = from_yaml(
      text("comm_overlap: {overlap_moe_expert_parallel_comm: true, delay_wgrad_compute: true}\n"));
  CHECK(merged.layout.overlap_expert_exchange);
}

TEST_CASE("other frameworks have their experts on every GPU, or refuse them", "[interop]") {
  const TransformerShape mixtral = *load_model(root + "/models/mixtral-8x7b.yaml").shape;
  const ImportRequest request{.gpus = 8, .model = mixtral, .sequence_length = 4096};
  const Document json = Document::parse(
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 3}})",
      "a.json", Syntax::json);
  const Imported sharded = import_deepspeed(json, nullptr, request);
  CHECK(sharded.framework.execution.experts == ExpertForm::torchtitan);
  CHECK(sharded.layout.expert_parallel == 1);
  CHECK_FALSE(sharded.framework.execution.waits_for_counts);
  CHECK(std::ranges::any_of(sharded.notes, [](const Note& one) { return one.key == "experts"; }));

  const Document dense = Document::parse(
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}})",
      "a.json", Syntax::json);
  const auto with_flags = [&](const std::string& text) {
    const Document flags = parse_flags(text, "a.sh");
    ImportRequest other = request;
    other.model = load_model(root + "/models/llama-3.1-8b.yaml").shape;
    return problems([&] { return import_deepspeed(dense, &flags, other); });
  };
  CHECK(with_flags("--num-experts 1").empty());
  CHECK(with_flags("--num-experts 8") ==
        Lines{"1:15: a mixture of experts is modelled only as Megatron-LM and torchtitan run it"});
  CHECK(problems([] {
          return from_yaml(
              "trainer: {devices: 8}\nmodel:\n  num_moe_experts: 8\n  expert_model_parallel_size: "
              "2\n");
        }) == Lines{"3:20: model.num_moe_experts: a mixture of experts is not read from files of "
                    "NeMo 1.x",
                    "4:31: model.expert_model_parallel_size: a mixture of experts is not read from "
                    "files of NeMo 1.x"});
}

TEST_CASE("experts and latent attention are written with their exact names", "[interop]") {
  Scenario scenario = job("deepseek-v3");
  scenario.layout.expert_parallel = 32;
  scenario.layout.expert_tensor_parallel = 1;
  scenario.layout.layers_per_chunk = {31, 30};
  const Exported flags = export_scenario(scenario, Target::megatron, "");
  for (const char* line :
       {"  --multi-latent-attention\n", "  --q-lora-rank 1536\n", "  --kv-lora-rank 512\n",
        "  --qk-head-dim 128\n", "  --qk-pos-emb-head-dim 64\n", "  --v-head-dim 128\n",
        "  --qk-layernorm\n", "  --num-experts 256\n", "  --moe-router-topk 8\n",
        "  --moe-ffn-hidden-size 2048\n", "  --moe-shared-expert-intermediate-size 2048\n",
        "  --moe-layer-freq '([0]*3+[1]*58)'\n", "  --expert-model-parallel-size 32\n",
        "  --expert-tensor-parallel-size 1\n", "  --moe-token-dispatcher-type alltoall\n",
        "  --moe-grouped-gemm\n", "  --moe-permute-fusion\n", "  --moe-router-num-groups 8\n",
        "  --moe-router-group-topk 4\n"})
    CHECK(has(flags.text, line));
  CHECK(flags.notes.empty());
  const Exported yaml = export_scenario(scenario, Target::nemo, "");
  for (const char* line :
       {"  num_moe_experts: 256\n", "  moe_layer_freq: [0, 0, 0, 1, 1,",
        "  moe_token_dispatcher_type: \"alltoall\"\n", "  expert_model_parallel_size: 32\n",
        "  multi_latent_attention: true\n", "  q_lora_rank: 1536\n"})
    CHECK(has(yaml.text, line));

  scenario.layout.token_dispatcher = TokenDispatcher::hybridep;
  scenario.layout.dispatch_sms = 32;
  const Exported flex = export_scenario(scenario, Target::megatron, "");
  for (const char* line :
       {"  --moe-token-dispatcher-type flex\n", "  --moe-flex-dispatcher-backend hybridep\n",
        "  --moe-hybridep-num-sms 32\n"})
    CHECK(has(flex.text, line));

  scenario = job("mixtral-8x7b");
  scenario.layout.expert_imbalance = 1.5;
  scenario.layout.expert_parallel = 8;
  const Exported noted = export_scenario(scenario, Target::megatron, "");
  CHECK(has(noted.text, "  --moe-layer-freq 1\n"));
  CHECK_FALSE(has(noted.text, "--moe-shared-expert"));
  CHECK_FALSE(has(noted.text, "--multi-latent-attention"));
  CHECK(note_keys(noted.notes) == Lines{"layout.expert_imbalance"});
  // Whether a host asks how many tokens go where: not where experts are padded.
  for (const bool asks : {false, true}) {
    scenario.framework.execution.waits_for_counts = asks;
    const std::string text = export_scenario(scenario, Target::megatron, "").text;
    CHECK(has(text, "  --moe-expert-capacity-factor 1") == !asks);
    CHECK(has(text, "  --moe-pad-expert-input-to-capacity\n") == !asks);
  }
  CHECK(has(export_scenario(scenario, Target::nemo, "").text,
            "  moe_shared_expert_intermediate_size: null\n  moe_layer_freq: 1\n"));

  CHECK(refusals(scenario, Target::deepspeed) ==
        Lines{"not for deepspeed: the model mixtral-8x7b: experts and latent attention are "
              "modelled only as Megatron-LM and torchtitan run them"});
  CHECK(has(refusals(scenario, Target::torchtitan).front(), "torchtitan's flavors"));
}

// export_scenario() reads back what it wrote and compares.
TEST_CASE("random mixtures of experts come back from Megatron-LM and Megatron-Bridge",
          "[interop]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Dice dice{seed};
    Scenario scenario = job("mixtral-8x7b");
    TransformerShape shape = *scenario.model.shape;
    shape.layers = 2 * (2 + dice.below(8));
    shape.experts.count = 8 << dice.below(4);
    shape.experts.per_token = 1 + dice.below(8);
    shape.experts.feed_forward = 256 * (1 + dice.below(8));
    shape.experts.shared_feed_forward = 256 * dice.below(3);
    shape.experts.first_layer = dice.below(static_cast<int>(shape.layers));
    shape.experts.every = 1 + dice.below(5);
    if (dice.below(4) == 0) shape.experts = {};
    if (dice.coin()) {
      shape.latent = {.query_rank = 128 * dice.below(3),
                      .key_value_rank = 64 * (1 + dice.below(4)),
                      .plain_dim = 64,
                      .rotary_dim = 16 * (1 + dice.below(4)),
                      .value_dim = 32 * (1 + dice.below(4))};
      shape.head_dim = shape.latent.plain_dim + shape.latent.rotary_dim;
      shape.kv_heads = shape.heads;
    }
    scenario.model = build_transformer(shape);
    Layout& layout = scenario.layout;
    if (shape.experts.count > 0) {
      layout.expert_parallel = 1 << dice.below(4);
      layout.expert_tensor_parallel = dice.below(3);
      if (layout.expert_parallel > 1 && dice.coin()) layout.expert_imbalance = 1.25;
    }
    CAPTURE(seed);
    REQUIRE(layout_problems(layout, scenario.model).empty());
    for (const Target target : {Target::megatron, Target::nemo})
      CHECK_FALSE(export_scenario(scenario, target, "").text.empty());
  }
}

TEST_CASE("the check of what was written sees differences in experts", "[interop]") {
  Scenario scenario = job("deepseek-v3");
  scenario.layout.expert_parallel = 16;
  scenario.layout.layers_per_chunk = {31, 30};
  const std::string text = export_scenario(scenario, Target::megatron, "").text;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    REQUIRE(at != std::string::npos);
    other.replace(at, from.size(), to);
    return differences(scenario, from_flags(other, 64));
  };
  CHECK(with("--bf16", "--bf16").empty());
  CHECK(with("[0]*3+[1]*58", "[0]*4+[1]*57") == Lines{"model"});
  CHECK(with("--num-experts 256", "--num-experts 128") == Lines{"model"});
  CHECK(with("--kv-lora-rank 512", "--kv-lora-rank 256") == Lines{"model"});
  CHECK(with("--expert-model-parallel-size 16", "--expert-model-parallel-size 8") ==
        Lines{"layout.expert_parallel"});
  CHECK(with("--expert-tensor-parallel-size 2", "--expert-tensor-parallel-size 1") ==
        Lines{"layout.expert_tensor_parallel"});
}
