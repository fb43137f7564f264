#include "tests/unit/real_cuda/cases.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/catch.hpp"

namespace cuda_test {
namespace {

// Four experts, two for each token, and one that all tokens pass; the first layer has an MLP.
void make_mixture(ToyRun& run) {
  run.shape.mlp_bias = false;
  run.shape.experts = {
      .count = 4, .per_token = 2, .feed_forward = 24, .shared_feed_forward = 16, .first_layer = 1};
}

std::vector<Case> mixtures() {
  return {
      {"mixture, one rank", make_mixture},
      {"mixture, ep 2 of dp 4, ZeRO-1",
       [](ToyRun& r) {
         make_mixture(r);
         r.layout.data_parallel = 4, r.layout.expert_parallel = 2, r.layout.zero_stage = 1;
         r.layout.micro_batch = 1;
       }},
      {"mixture, tp 2 ep 4 over tensor ranks",
       [](ToyRun& r) {
         make_mixture(r);
         r.shape.activation = sim::Activation::relu;
         r.layout.tensor_parallel = r.layout.data_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.expert_parallel = 4, r.layout.expert_tensor_parallel = 1;
       }},
      {"mixture, tp 2 ep 2 etp 2, recomputed",
       [](ToyRun& r) {
         make_mixture(r);
         r.layout.tensor_parallel = r.layout.data_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.expert_parallel = r.layout.expert_tensor_parallel = 2;
         r.layout.recompute = sim::Recompute::full;
       }},
      {"mixture of one expert per token, pp 2 ep 2",
       [](ToyRun& r) {
         make_mixture(r);
         r.shape.experts.per_token = 1;
         r.layout.pipeline_parallel = r.layout.data_parallel = r.layout.expert_parallel = 2;
         r.layout.micro_batch = 1;
       }},
  };
}

std::vector<Case> by_operators() {
  return {
      {"recomputation by operators",
       [](ToyRun& r) {
         r.layout.micro_batch = 1;
         r.layout.recompute = sim::Recompute::operators;
       }},
      {"tensor parallel, recomputation by operators",
       [](ToyRun& r) {
         r.layout.tensor_parallel = r.layout.data_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.recompute = sim::Recompute::operators;
       }},
  };
}

// The kernels of other frameworks; the reference has Megatron-LM's.
std::vector<Case> frameworks() {
  using sim::FrameworkName;
  return {
      {"transformers, DDP",
       [](ToyRun& r) {
         r.framework = sim::framework_of(FrameworkName::transformers);
         r.layout.data_parallel = 2, r.layout.micro_batch = 1;
       }},
      {"torchtitan, FSDP2, tensor parallel, kept logits",
       [](ToyRun& r) {
         r.framework = sim::framework_of(FrameworkName::torchtitan);
         r.framework.loss = sim::LossForm::keeps_logits;
         r.layout.data_parallel = 2, r.layout.zero_stage = 3;
         r.layout.tensor_parallel = 2, r.layout.sequence_parallel = true;
       }},
      {"loss in place, gradients scaled before they are summed",
       [](ToyRun& r) {
         r.framework.loss = sim::LossForm::in_place;
         r.framework.execution.scales_gradients = r.framework.execution.checks_gradients = true;
         r.layout.data_parallel = 2, r.layout.zero_stage = 1;
       }},
  };
}

void make_context(ToyRun& run, int ranks, sim::ContextExchange exchange) {
  run.layout.context_parallel = ranks;
  run.layout.context_exchange = exchange;
}

// Two key/value heads on four tensor ranks.
void share_key_heads(ToyRun& run) {
  run.shape.heads = 4;
  run.shape.kv_heads = 2;
  run.shares_key_heads = true;
  run.layout.tensor_parallel = 4;
}

std::vector<Case> over_context_ranks() {
  using sim::ContextExchange;
  return {
      {"ring of 2, tensor and sequence parallel, ZeRO-1",
       [](ToyRun& r) {
         make_context(r, 2, ContextExchange::ring);
         r.layout.tensor_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.zero_stage = 1;
       }},
      {"ring of 4, recomputed",
       [](ToyRun& r) {
         make_context(r, 4, ContextExchange::ring);
         r.layout.recompute = sim::Recompute::full;
       }},
      {"all-gather of 2, dp 2, ZeRO-3, packed sequences",
       [](ToyRun& r) {
         make_context(r, 2, ContextExchange::all_gather);
         r.layout.data_parallel = 2, r.layout.zero_stage = 3;
         r.layout.packed_length = 4;
       }},
      {"all-to-all of 2, pp 2, attention again",
       [](ToyRun& r) {
         make_context(r, 2, ContextExchange::all_to_all);
         r.layout.pipeline_parallel = 2;
         r.layout.recompute = sim::Recompute::selective;
         r.layout.recompute_modules = {sim::RecomputeModule::core_attn};
       }},
      {"shared key/value heads, sequence parallel",
       [](ToyRun& r) {
         share_key_heads(r);
         r.layout.sequence_parallel = true;
       }},
      {"shared key/value heads, ring of 2, recomputed",
       [](ToyRun& r) {
         share_key_heads(r);
         make_context(r, 2, ContextExchange::ring);
         r.layout.recompute = sim::Recompute::full;
       }},
  };
}

// Beside frozen weights, which the norms and the tables are among.
std::vector<Case> adapters() {
  return {
      {"adapters, full recomputation, ZeRO-1",
       [](ToyRun& r) {
         r.layout.lora_rank = 4;
         r.layout.data_parallel = 2, r.layout.zero_stage = 1;
         r.layout.recompute = sim::Recompute::full;
       }},
      {"adapters of weights in NF4, pp 2",
       [](ToyRun& r) {
         r.layout.lora_rank = 4;
         r.layout.frozen_format = sim::FrozenFormat::nf4;
         r.layout.pipeline_parallel = 2, r.layout.micro_batch = 1;
       }},
  };
}

void drop_everywhere(ToyRun& run) {
  run.shape.embedding_dropout = run.shape.attention_dropout = 0.2;
  run.shape.projection_dropout = run.shape.mlp_dropout = 0.1;
}

std::vector<Case> encoders() {
  return {
      {"dropout, tp 2 sp dp 2, recomputed",
       [](ToyRun& r) {
         drop_everywhere(r);
         r.layout.tensor_parallel = r.layout.data_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.recompute = sim::Recompute::full;
       }},
      {"classifier of padded sentences, dropout, tp 2 ZeRO-1",
       [](ToyRun& r) {
         drop_everywhere(r);
         r.shape.head = sim::Head::classifier;
         r.shape.classes = 3;
         r.shape.mask = sim::AttentionMask::bidirectional;
         r.layout.tensor_parallel = r.layout.data_parallel = 2, r.layout.zero_stage = 1;
       }},
  };
}

// Values narrower than queries and keys.
void attend_latently(ToyRun& run) {
  run.shape.positions = sim::Positions::rotary;
  run.shape.max_sequence = 0;
  run.shape.heads = run.shape.kv_heads = 2;
  run.shape.head_dim = 32;
  run.shape.latent = {.key_value_rank = 12, .plain_dim = 24, .rotary_dim = 8, .value_dim = 16};
}

std::vector<Case> latent() {
  return {
      {"latent attention, dp 2 ZeRO-1, recomputed",
       [](ToyRun& r) {
         attend_latently(r);
         r.layout.data_parallel = 2, r.layout.zero_stage = 1;
         r.layout.recompute = sim::Recompute::full;
       }},
      {"latent attention of compressed queries, LAMB, pp 2",
       [](ToyRun& r) {
         attend_latently(r);
         r.shape.latent.query_rank = 10;
         r.layout.pipeline_parallel = 2;
         r.layout.optimizer = sim::OptimizerKind::lamb;
       }},
  };
}

// Layers of which all but one see a window, with positions of half a head.
void see_windows(ToyRun& run) {
  run.shape.window = 3;
  run.shape.full_attention.layers = {1};
  run.shape.positions = sim::Positions::rotary;
  run.shape.max_sequence = 0;
  run.shape.rotary_share = 0.5;
}

std::vector<Case> windows() {
  return {
      {"windows, tp 2 sp, attention again",
       [](ToyRun& r) {
         see_windows(r);
         r.layout.tensor_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.recompute = sim::Recompute::selective;
         r.layout.recompute_modules = {sim::RecomputeModule::core_attn};
       }},
      {"windows over an all-to-all of 2",
       [](ToyRun& r) {
         see_windows(r);
         make_context(r, 2, sim::ContextExchange::all_to_all);
       }},
  };
}

double relative_error(const std::vector<float>& values, const std::vector<float>& reference) {
  REQUIRE(values.size() == reference.size());
  double largest = 1e-30;
  double error = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(reference[i])));
    error = std::max(error, std::abs(static_cast<double>(values[i] - reference[i])));
  }
  return error / largest;
}

}  // namespace

void require_success(const ToyResult& result) {
  REQUIRE(result.failures == std::vector<std::string>(result.failures.size()));
}

void check_equal(const ToyResult& a, const ToyResult& b, double tolerance) {
  require_success(a);
  REQUIRE(a.loss.size() == b.loss.size());
  for (std::size_t i = 0; i < a.loss.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(a.loss[i] / b.loss[i] - 1) < tolerance);
    CHECK(std::abs(a.norm[i] / b.norm[i] - 1) < 10 * tolerance);
  }
  REQUIRE(a.weights.size() == b.weights.size());
  for (const auto& [name, values] : b.weights) {
    CAPTURE(name);
    CHECK(relative_error(a.weights.at(name), values) < 10 * tolerance);
  }
}

std::vector<Case> cases() {
  using sim::Schedule;
  std::vector<Case> all{
      {"one rank", [](ToyRun&) {}},
      {"micro-batches and recomputation",
       [](ToyRun& r) {
         r.layout.micro_batch = 1;
         r.layout.recompute = sim::Recompute::full;
       }},
      {"data parallel, small buckets",
       [](ToyRun& r) {
         r.layout.data_parallel = 2;
         r.layout.bucket = r.layout.first_bucket = sim::Bytes{2000};
       }},
      {"ZeRO-1", [](ToyRun& r) { r.layout.data_parallel = 2, r.layout.zero_stage = 1; }},
      {"ZeRO-2",
       [](ToyRun& r) {
         r.layout.data_parallel = 2, r.layout.zero_stage = 2;
         r.layout.overlap_parameters = false;
       }},
      {"ZeRO-3", [](ToyRun& r) { r.layout.data_parallel = 2, r.layout.zero_stage = 3; }},
      {"hybrid sharding",
       [](ToyRun& r) {
         r.layout.data_parallel = 4, r.layout.zero_stage = 2, r.layout.shard_group = 2;
         r.layout.micro_batch = 1;
       }},
      {"tensor parallel", [](ToyRun& r) { r.layout.tensor_parallel = 2; }},
      {"tensor and sequence parallel",
       [](ToyRun& r) {
         r.layout.tensor_parallel = 2, r.layout.sequence_parallel = true;
         r.layout.data_parallel = 2, r.layout.zero_stage = 3;
       }},
      {"pipeline 1F1B",
       [](ToyRun& r) { r.layout.pipeline_parallel = 2, r.layout.micro_batch = 1; }},
      {"interleaved",
       [](ToyRun& r) {
         r.shape.layers = 4;
         r.layout.pipeline_parallel = 2, r.layout.virtual_stages = 2;
         r.layout.schedule = Schedule::interleaved;
       }},
      {"ZB-H1 with tensor parallel",
       [](ToyRun& r) {
         r.layout.pipeline_parallel = 2, r.layout.tensor_parallel = 2;
         r.layout.schedule = Schedule::zb_h1;
       }},
      {"tied head over two stages",
       [](ToyRun& r) {
         r.shape.tied_head = true;
         r.layout.pipeline_parallel = 2, r.layout.data_parallel = 2;
       }},
  };
  for (Case& one : mixtures())
    all.push_back(std::move(one));
  for (Case& one : by_operators())
    all.push_back(std::move(one));
  for (Case& one : frameworks())
    all.push_back(std::move(one));
  all.push_back({"packed sequences, tensor and sequence parallel", [](ToyRun& r) {
                   r.layout.packed_length = 4;
                   r.layout.tensor_parallel = 2, r.layout.sequence_parallel = true;
                 }});
  for (Case& one : over_context_ranks())
    all.push_back(std::move(one));
  for (Case& one : adapters())
    all.push_back(std::move(one));
  for (Case& one : encoders())
    all.push_back(std::move(one));
  for (Case& one : latent())
    all.push_back(std::move(one));
  for (Case& one : windows())
    all.push_back(std::move(one));
  all.push_back({"dropout over a ring of 2", [](ToyRun& r) {
                   drop_everywhere(r);
                   r.layout.context_parallel = 2;
                 }});
  return all;
}

ToyRun base(bool llama) {
  ToyRun run{.shape = llama ? llama_shape() : gpt_shape(), .layout = toy_layout()};
  // The gradient of a key's bias is zero but for rounding, which Adam would blow up.
  run.training.epsilon = 1e-5;
  return run;
}

ToyResult reference_of(const ToyRun& run) {
  ToyRun host = run;
  host.host = true;
  host.graphs = false;
  host.framework = {};
  host.layout.context_parallel = 1;  // one rank with all tokens
  return run_toy(host);
}

}  // namespace cuda_test
