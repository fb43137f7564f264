// Backends run and refuse what the table says (real/engine/support.hpp), and what the page
// docs/run-on-real-hardware.md shows.
//   STEPCAST_WRITE_PAGES=1 build/release/tests/unit/real_jobs/test_real_jobs "[support]"   writes
//   it
#include "real/engine/support.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "real/cuda/cuda_backend.hpp"
#include "real/engine/bound_program.hpp"
#include "real/host/host_backend.hpp"
#include "sim/framework/framework.hpp"
#include "sim/layout/layout_fields.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace real {
namespace {

using sim::test::source_dir;

// A plan in fp32 that every backend runs, to which a sample adds one feature.
struct Sample {
  sim::TransformerShape shape;
  sim::Execution execution;
  sim::Layout layout;
  bool by_scores = false;
};

Sample plain_sample() {
  Sample made;
  sim::TransformerShape& shape = made.shape;
  shape.name = "tiny";
  shape.layers = 4;
  shape.hidden = 64;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 16;
  shape.feed_forward = 96;
  shape.vocabulary = 256;
  shape.max_sequence = 16;
  sim::Layout& layout = made.layout;
  layout.sequence_length = 16;
  layout.global_batch = 8;
  layout.compute_dtype = layout.activation_dtype = sim::DType::fp32;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  return made;
}

void add_experts(Sample& s) {
  s.shape.experts = {.count = 4, .per_token = 2, .feed_forward = 32};
}

void set_formats(Sample& s, sim::DType dtype) {
  s.layout.compute_dtype = s.layout.activation_dtype = dtype;
}

using Change = void (*)(Sample&);

const std::map<Feature, Change>& samples() {
  using enum Feature;
  static const std::map<Feature, Change> all{
      {transformer, [](Sample&) {}},
      {dropout, [](Sample& s) { s.shape.mlp_dropout = 0.1; }},
      {dropout_of_all, [](Sample& s) { s.shape.mlp_dropout = 1; }},
      {classifier,
       [](Sample& s) {
         s.shape.head = sim::Head::classifier;
         s.shape.classes = 3;
         s.shape.mask = sim::AttentionMask::bidirectional;
       }},
      {classifier_slices,
       [](Sample& s) {
         s.shape.head = sim::Head::classifier;
         s.shape.classes = 3;
         s.shape.mask = sim::AttentionMask::bidirectional;
         s.layout.tensor_parallel = 2;
         s.layout.sequence_parallel = true;
       }},
      {classifier_context,
       [](Sample& s) {
         s.shape.head = sim::Head::classifier;
         s.shape.classes = 3;
         s.shape.mask = sim::AttentionMask::bidirectional;
         s.layout.context_parallel = 2;
       }},
      {causal_classifier,
       [](Sample& s) {
         s.shape.head = sim::Head::classifier;
         s.shape.classes = 3;
       }},
      {bidirectional_tokens, [](Sample& s) { s.shape.mask = sim::AttentionMask::bidirectional; }},
      {operators, [](Sample& s) { s.shape.positions = sim::Positions::alibi; }},
      {layer_forms, [](Sample& s) { s.shape.norm_placement = sim::NormPlacement::reordered; }},
      {windows, [](Sample& s) { s.shape.window = 8; }},
      {window_slices,
       [](Sample& s) {
         s.shape.window = 8;
         s.layout.context_parallel = 2;
         s.layout.context_exchange = sim::ContextExchange::all_gather;
       }},
      {partial_rotary,
       [](Sample& s) {
         s.shape.positions = sim::Positions::rotary;
         s.shape.rotary_share = 0.5;
       }},
      {latent_attention,
       [](Sample& s) {
         s.shape.positions = sim::Positions::rotary;
         s.shape.latent = {.key_value_rank = 8, .plain_dim = 8, .rotary_dim = 8, .value_dim = 16};
       }},
      {latent_layouts,
       [](Sample& s) {
         s.shape.positions = sim::Positions::rotary;
         s.shape.latent = {.key_value_rank = 8, .plain_dim = 8, .rotary_dim = 8, .value_dim = 16};
         s.layout.tensor_parallel = 2;
       }},
      {hybrid, [](Sample& s) { s.shape.hybrid.layers.assign(4, {.width = 32}); }},
      {no_loss, [](Sample& s) { s.shape.head = sim::Head::none; }},
      {data_parallel, [](Sample& s) { s.layout.data_parallel = 2; }},
      {zero,
       [](Sample& s) {
         s.layout.data_parallel = 4;
         s.layout.zero_stage = 3;
         s.layout.shard_group = 2;
       }},
      {tensor_parallel,
       [](Sample& s) {
         s.layout.tensor_parallel = 2;
         s.layout.sequence_parallel = true;
       }},
      {shared_key_heads,
       [](Sample& s) {
         s.shape.kv_heads = 2;
         s.execution.shares_key_heads = true;
         s.layout.tensor_parallel = 4;
       }},
      {shared_heads_again,
       [](Sample& s) {
         s.shape.kv_heads = 2;
         s.execution.shares_key_heads = true;
         s.layout.tensor_parallel = 4;
         s.layout.recompute = sim::Recompute::selective;
         s.layout.recompute_modules = {sim::RecomputeModule::core_attn};
       }},
      {tensor_products,
       [](Sample& s) {
         s.layout.tensor_parallel = 2;
         s.layout.sequence_parallel = s.layout.overlap_tensor_products = true;
       }},
      {context_parallel, [](Sample& s) { s.layout.context_parallel = 2; }},
      {context_form,
       [](Sample& s) {
         s.layout.context_parallel = 2;
         s.execution.context = sim::ContextForm::eager;
       }},
      {context_rings,
       [](Sample& s) {
         s.layout.context_parallel = 4;
         s.layout.context_exchange = sim::ContextExchange::all_to_all_ring;
         s.layout.context_heads = 2;
       }},
      {context_apart,
       [](Sample& s) {
         s.layout.context_parallel = s.layout.data_parallel = 2;
         s.layout.local_steps = 4;
         s.layout.local_ranks = 2;
       }},
      {context_shared_heads,
       [](Sample& s) {
         s.shape.kv_heads = 2;
         s.execution.shares_key_heads = true;
         s.layout.tensor_parallel = 4;
         s.layout.context_parallel = 2;
         s.layout.context_exchange = sim::ContextExchange::all_gather;
       }},
      {Feature::pipeline, [](Sample& s) { s.layout.pipeline_parallel = 2; }},
      {recompute, [](Sample& s) { s.layout.recompute = sim::Recompute::full; }},
      {kept_parts,
       [](Sample& s) {
         s.layout.recompute = sim::Recompute::operators;
         s.execution.keeps_unread_outputs = true;
       }},
      {unfused_attention, [](Sample& s) { s.layout.attention = sim::AttentionKernel::unfused; }},
      {cuda_heads,
       [](Sample& s) {
         s.shape.head_dim = 12;
         s.shape.hidden = 48;
       }},
      {cuda_norm_heads, [](Sample& s) { s.shape.qk_norm = true; }},
      {cuda_norm_width,
       [](Sample& s) {
         s.shape.layers = 1;
         s.shape.hidden = 16'448;
       }},
      {odd_heads,
       [](Sample& s) {
         s.shape.positions = sim::Positions::rotary;
         s.shape.head_dim = 15;
         s.shape.hidden = 60;
       }},
      {experts,
       [](Sample& s) {
         add_experts(s);
         s.layout.data_parallel = s.layout.expert_parallel = 2;
       }},
      {expert_scores,
       [](Sample& s) {
         add_experts(s);
         s.by_scores = true;
       }},
      {expert_capacity,
       [](Sample& s) {
         add_experts(s);
         s.by_scores = true;
         s.layout.expert_capacity = 1;
       }},
      {even_capacity,
       [](Sample& s) {
         add_experts(s);
         s.layout.expert_capacity = 1;
       }},
      {expert_places,
       [](Sample& s) {
         add_experts(s);
         s.by_scores = true;
         s.layout.expert_capacity = 1.01;
       }},
      {expert_imbalance,
       [](Sample& s) {
         add_experts(s);
         s.layout.expert_imbalance = 1.5;
       }},
      {expert_load,
       [](Sample& s) {
         add_experts(s);
         s.layout.expert_load_cv = 0.5;
       }},
      {expert_shares,
       [](Sample& s) {
         add_experts(s);
         s.layout.sequence_length = 15;
       }},
      {expert_sharding,
       [](Sample& s) {
         add_experts(s);
         s.layout.data_parallel = 2;
         s.layout.zero_stage = 2;
       }},
      {expert_dispatcher,
       [](Sample& s) {
         add_experts(s);
         s.layout.token_dispatcher = sim::TokenDispatcher::allgather;
       }},
      {expert_latent,
       [](Sample& s) {
         add_experts(s);
         s.shape.experts.latent = 32;
       }},
      {expert_biases,
       [](Sample& s) {
         add_experts(s);
         s.shape.mlp_bias = true;
       }},
      {expert_forms,
       [](Sample& s) {
         add_experts(s);
         s.execution.experts = sim::ExpertForm::torchtitan;
       }},
      {formats, [](Sample& s) { set_formats(s, sim::DType::bf16); }},
      {mixed_formats, [](Sample& s) { s.layout.activation_dtype = sim::DType::bf16; }},
      {half_precision, [](Sample& s) { set_formats(s, sim::DType::fp16); }},
      {bf16_masters,
       [](Sample& s) {
         set_formats(s, sim::DType::bf16);
         s.layout.master_weights = false;
       }},
      {eight_bit, [](Sample& s) { s.layout.compute_dtype = sim::DType::fp8; }},
      {eight_bit_blocks,
       [](Sample& s) {
         s.layout.compute_dtype = sim::DType::fp8;
         s.layout.micro_batch = 2;
         s.execution.eight_bit = sim::EightBit::transformer_engine_mxfp8;
       }},
      {eight_bit_sizes,
       [](Sample& s) {
         s.layout.compute_dtype = sim::DType::fp8;
         s.execution.eight_bit = sim::EightBit::transformer_engine_blockwise;
       }},
      {eight_bit_rest,
       [](Sample& s) {
         s.layout.compute_dtype = sim::DType::fp8;
         s.execution.eight_bit = sim::EightBit::torchao_rowwise;
       }},
      {optimizer, [](Sample&) {}},
      {lamb, [](Sample& s) { s.layout.optimizer = sim::OptimizerKind::lamb; }},
      {bf16_moments, [](Sample& s) { s.layout.moment_dtype = sim::DType::bf16; }},
      {other_optimizers, [](Sample& s) { s.layout.moment_dtype = sim::DType::fp16; }},
      {state_format, [](Sample& s) { s.layout.state_format = sim::StateFormat::torchao_8bit; }},
      {muon, [](Sample& s) { s.layout.optimizer = sim::OptimizerKind::muon; }},
      {master_format, [](Sample& s) { s.layout.master_format = sim::MasterFormat::fp16; }},
      {adapters, [](Sample& s) { s.layout.lora_rank = 4; }},
      {frozen_nf4,
       [](Sample& s) {
         s.layout.lora_rank = 4;
         s.layout.frozen_format = sim::FrozenFormat::nf4;
       }},
      {adapter_forms,
       [](Sample& s) {
         s.layout.lora_rank = 4;
         s.layout.lora_dropout = 0.1;
       }},
      {adapter_layouts,
       [](Sample& s) {
         s.layout.lora_rank = 4;
         s.layout.data_parallel = 2;
         s.layout.zero_stage = 3;
       }},
      {lengths,
       [](Sample& s) {
         s.layout.packing_lengths.name = "lognormal";
         s.layout.packing_mean = 8;
       }},
      {packed_length, [](Sample& s) { s.layout.packed_length = 4; }},
      {packed_rest, [](Sample& s) { s.layout.packed_length = 7; }},
      {packed_chunks,
       [](Sample& s) {
         s.layout.sequence_length = 24;
         s.layout.packed_length = 6;
         s.layout.context_parallel = 2;
       }},
      {vision,
       [](Sample& s) {
         s.layout.images = 1;
         s.shape.vision.layers = 1;
         s.shape.vision.hidden = s.shape.hidden;
         s.shape.vision.heads = 4;
         s.shape.vision.feed_forward = 96;
         s.shape.vision.image_size = 8;
         s.shape.vision.patch = 4;
       }},
      {mlp_tiles, [](Sample& s) { s.layout.mlp_tiles = 2; }},
      {loss_chunks, [](Sample& s) { s.layout.loss_chunks = 2; }},
      {compression,
       [](Sample& s) {
         s.layout.data_parallel = 2;
         s.layout.compression = sim::GradientCompression::power_sgd;
       }},
      {offload, [](Sample& s) { s.layout.offload_optimizer = sim::OffloadTarget::cpu; }},
      {offload_fraction,
       [](Sample& s) {
         s.layout.offload_optimizer = sim::OffloadTarget::cpu;
         s.layout.offload_fraction = 0.5;
       }},
      {offload_gradients,
       [](Sample& s) {
         s.layout.offload_parameters = sim::OffloadTarget::cpu;
         s.layout.reduce_dtype = sim::DType::bf16;
       }},
      {local_steps,
       [](Sample& s) {
         s.layout.data_parallel = 2;
         s.layout.local_steps = 4;
       }},
      {outer_wire,
       [](Sample& s) {
         s.layout.data_parallel = 2;
         s.layout.local_steps = 4;
         s.layout.outer_dtype = sim::DType::bf16;
       }},
      {servers,
       [](Sample& s) {
         s.layout.data_parallel = 2;
         s.layout.servers = sim::Servers::synchronous;
       }},
      {framework_kernels, [](Sample& s) { s.execution.separate_products = true; }},
      {framework_forms, [](Sample& s) { s.execution.gathers_logits = true; }},
      {gradient_passes,
       [](Sample& s) {
         s.execution.scales_gradients = true;
         s.layout.data_parallel = 2;
         s.layout.local_steps = 4;
       }},
      {host_operators, [](Sample& s) { s.layout.offload_optimizer = sim::OffloadTarget::cpu; }},
  };
  return all;
}

std::vector<std::string> problems_of(Feature feature, const Sample& sample, BackendName backend) {
  sim::Model model = sim::build_transformer(sample.shape);
  model.execution = sample.execution;
  sim::Plan plan;
  plan.layout = sample.layout;
  const auto illegal = sim::layout_problems(sample.layout, model);
  // Some that are refused are no plans at all.
  if (illegal.empty())
    plan = sim::make_plan(model, sample.layout);
  else
    CHECK(!support_row(feature).of(backend).runs());
  std::vector<std::string> problems = engine_problems(plan, model, sample.by_scores);
  if (backend == BackendName::cuda && sample.by_scores)
    problems.push_back(refusal(BackendName::cuda, Feature::expert_scores, "softmax"));
  for (std::string& more :
       backend == BackendName::host ? host_problems(plan, model) : cuda_problems(plan, model, {}))
    problems.push_back(std::move(more));
  return problems;
}

// Whether a sentence has the pieces of the format, in their order.
bool is_made_of(const std::string& sentence, std::string_view format) {
  std::size_t at = 0;
  for (std::size_t begin = 0; begin <= format.size();) {
    const std::size_t end = std::min(format.find("{}", begin), format.size());
    const std::size_t found = sentence.find(format.substr(begin, end - begin), at);
    if (found == std::string::npos) return false;
    at = found + end - begin;
    begin = end + 2;
  }
  return true;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  std::stringstream in{std::string{list}};
  for (std::string part; std::getline(in, part, ',');)
    parts.push_back(part.substr(part.find_first_not_of(' ')));
  return parts;
}

// Keys of sections of a scenario; of others the row tells in words.
std::vector<std::string> keys_of(const SupportRow& row) {
  return row.keys.find(':') == std::string_view::npos ? split(row.keys)
                                                      : std::vector<std::string>{};
}

std::string cell(const Support& support) {
  if (!support.runs()) return "refused";
  const std::string_view file = support.test.substr(support.test.rfind('/') + 1);
  return fmt::format("runs ([{}](../tests/{}))", file.substr(0, file.size() - 4), support.test);
}

// The rows of the page.
std::string table() {
  std::string text;
  for (const SupportRow& row : support_rows()) {
    std::string actions;
    for (const ActionSupport& action : action_support())
      if (action.feature == row.feature)
        actions += fmt::format("{}`{}`", actions.empty() ? "" : ", ", action.name);
    std::string keys{keys_of(row).empty() ? row.keys : ""};
    for (const std::string& key : keys_of(row))
      keys += fmt::format("{}`{}`", keys.empty() ? "" : ", ", key);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.title, keys, actions, cell(row.host),
                        cell(row.cuda));
  }
  return text;
}

constexpr std::string_view head =
    "| feature | keys of `layout`, or of others | actions | host | CUDA |\n|---|---|---|---|---|\n";

TEST_CASE("the page shows what backends run and refuse", "[support]") {
  const std::string path = source_dir() + "/docs/run-on-real-hardware.md";
  std::stringstream read;
  read << std::ifstream{path}.rdbuf();
  std::string page = read.str();
  const std::size_t at = page.find(head);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + head.size(), end = page.find("\n\n", begin) + 1;
  if (std::getenv("STEPCAST_WRITE_PAGES") != nullptr)
    std::ofstream{path} << page.replace(begin, end - begin, table());
  else
    CHECK(page.substr(begin, end - begin) == table());
}

TEST_CASE("every key of a layout is in the table of what backends run", "[support]") {
  std::set<std::string> keys;
  for (const SupportRow& row : support_rows())
    for (const std::string& key : keys_of(row))
      keys.insert(key);
  for (const sim::LayoutField& field : sim::layout_fields()) {
    CAPTURE(field.key.path);
    CHECK(keys.contains(field.key.path));
  }
  for (const std::string& key : keys) {
    if (key.starts_with("framework.") || key.starts_with("training.")) continue;
    CAPTURE(key);
    CHECK(sim::layout_field(key).key.path == key);
  }
}

TEST_CASE("what runs is held by a test", "[support]") {
  for (const SupportRow& row : support_rows())
    for (const Support& support : {row.host, row.cuda}) {
      CAPTURE(row.title);
      CHECK(support.runs() != support.test.empty());
      if (support.runs())
        CHECK(std::filesystem::exists(source_dir() + "/tests/" + std::string{support.test}));
    }
}

TEST_CASE("backends run and refuse what the table says", "[support]") {
  for (const SupportRow& row : support_rows()) {
    CAPTURE(row.title);
    if (row.feature == Feature::layer_list || row.feature == Feature::diffusion)
      continue;  // engine_problems_test.cpp
    REQUIRE(samples().contains(row.feature));
    Sample sample = plain_sample();
    samples().at(row.feature)(sample);
    for (const BackendName backend : {BackendName::host, BackendName::cuda}) {
      const std::vector<std::string> problems = problems_of(row.feature, sample, backend);
      const Support& support = row.of(backend);
      CAPTURE(static_cast<int>(backend), problems);
      if (support.runs())
        CHECK(problems.empty());
      else
        CHECK(std::any_of(problems.begin(), problems.end(), [&](const std::string& problem) {
          return is_made_of(problem, support.refusal);
        }));
    }
  }
}

}  // namespace
}  // namespace real
