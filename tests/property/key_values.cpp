#include "tests/property/key_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/catalog/catalog.hpp"

namespace sim::test {
namespace {

// Lists, texts, and numbers whose range says little about them. An empty entry: not drawn.
const std::map<std::string, std::vector<std::string>, std::less<>>& own_values() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> values{
      {"layout.sequence_length", {"128", "256"}},
      {"layout.global_batch", {"16", "32", "96"}},
      {"layout.micro_batch", {"1", "2", "4"}},
      {"layout.data_parallel", {}},  // what is left of the GPUs
      {"layout.pipeline_runs", {"1", "2"}},
      {"layout.images", {"0", "1", "2"}},
      {"layout.image_tokens", {"0", "16"}},
      {"layout.packed_length", {"0", "3", "64"}},
      {"layout.placement", {"[dp, tp, cp, pp]", "[tp, pp, cp, dp]"}},
      {"layout.layers_per_chunk", {"{first: 1, last: 1}", "even"}},
      {"layout.replica_batches", {"[1, 3]", "[5, 3]", "[2, 1, 1, 4]", "even"}},
      {"layout.packing.lengths", {"none", "lognormal"}},
      {"layout.packing.mean", {"0", "32"}},
      {"layout.packing.multiple", {"0", "8"}},
      {"layout.packing.seed", {"1"}},
      {"layout.servers.partition", {"auto", "1 MiB"}},
      {"layout.recompute_modules",
       {"[core_attn]", "[mlp]", "[layernorm]", "[moe]", "[moe_act, layernorm]", "[shared_experts]",
        "[mla_up_proj]"}},
      {"layout.mlp_tiles", {"1", "2", "4", "8"}},
      {"layout.loss_chunks", {"1", "2", "8"}},
      {"layout.context_heads", {"0", "2"}},
      {"layout.bf16_modules", {"[qkv]", "[mlp_up]"}},
      {"layout.fp8_modules", {"[head]", "[qkv]"}},
      {"layout.moe.load", {"even", "[4, 3, 2, 2, 1, 1, 1, 2]"}},
      {"layout.moe.load_seed", {"1"}},
      {"layout.bucket", {"auto", "64 KiB", "8 MiB"}},
      {"layout.first_bucket", {"auto", "32 KiB"}},
      {"layout.buckets", {"0", "3"}},
      {"layout.lora.rank", {"0", "8"}},
      {"layout.lora.modules", {"[linear_qkv]", "[linear_fc1, linear_fc2]"}},
      {"layout.offload.delay_after", {"0", "2"}},
      {"layout.offload.modules", {"[qkv_linear]", "[moe_act]", "[core_attn, attn_proj]"}},
      {"layout.offload.least", {"0", "4096"}},
      {"layout.compression.rank", {"2"}},
      {"layout.local_steps.every", {"1", "4"}},
      {"layout.local_steps.overlap", {"0", "1"}},
      {"framework.version", {}},  // drawn with framework.name
      {"framework.name", {}},
      {"framework.host_issue", {"5 us"}},
      {"framework.host_update", {"10 GB/s"}},
      {"framework.max_split_size", {"0 B", "128 MiB"}},
      {"framework.workspaces", {"0 B", "160 MiB"}},
  };
  return values;
}

std::vector<std::string> numbers_of(const Key& key) {
  static constexpr std::array whole{0, 1, 2, 3, 4, 8};
  static constexpr std::array real{0.0, 0.01, 0.5, 1.0, 1.5};
  std::vector<std::string> values;
  const auto keep = [&](double value) {
    if (key.least && value < *key.least) return;
    if (key.greatest && value > *key.greatest) return;
    values.push_back(fmt::format("{:g}", value));
  };
  if (key.type == KeyType::integer)
    for (const int value : whole)
      keep(value);
  else
    for (const double value : real)
      keep(value);
  return values;
}

std::vector<std::string> values_of(const Key& key) {
  if (const auto own = own_values().find(key.path); own != own_values().end()) return own->second;
  if (key.type == KeyType::word || key.type == KeyType::boolean)
    return {key.words.begin(), key.words.end()};
  if (key.type == KeyType::integer || key.type == KeyType::number) return numbers_of(key);
  return {};
}

template <class Take>
void for_each_key(Take take) {
  for (const Key& key : key_catalog())
    if (key.path.starts_with("layout.") || key.path.starts_with("framework."))
      take(key, values_of(key));
}

std::string model(const std::string& name, const std::string& transformer) {
  return fmt::format("{{name: {}, source: none, transformer: {{{}}}}}", name, transformer);
}

const std::string sizes =
    "layers: 8, hidden: 256, heads: 8, feed_forward: 512, vocabulary: 1000, max_sequence: 4096";
const std::string llama =
    sizes + ", norm: rms, activation: swiglu, positions: rotary, biases: none";
const std::string experts = ", experts: {count: 8, per_token: 2, feed_forward: 256";

}  // namespace

std::vector<KeyValues> drawn_keys() {
  std::vector<KeyValues> keys;
  for_each_key([&](const Key& key, std::vector<std::string> values) {
    if (!values.empty()) keys.push_back({key.path, std::move(values)});
  });
  return keys;
}

std::vector<std::string> keys_not_drawn() {
  std::vector<std::string> keys;
  for_each_key([&](const Key& key, const std::vector<std::string>& values) {
    if (values.empty()) keys.push_back(key.path);
  });
  return keys;
}

const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models{
      {"gpt", model("gpt", sizes + ", norm: layer, activation: gelu, positions: learned, "
                                   "biases: all")},
      {"llama", model("llama", llama + ", kv_heads: 4")},
      {"windows", model("windows", llama + ", kv_heads: 4, window: 64, full_attention: [1, 3]")},
      {"mixture", model("mixture", llama + experts + "}")},
      {"sinks", model("sinks", llama +
                                   ", kv_heads: 4, window: 64, full_attention: [1, 3, 5, 7], "
                                   "family: gpt_oss" +
                                   experts + "}")},
      {"shared", model("shared", llama + experts + ", shared_feed_forward: 256}")},
      {"latent", model("latent", llama +
                                     ", latent_attention: {query_rank: 64, key_value_rank: 32, "
                                     "plain_dim: 32, rotary_dim: 16, value_dim: 32}" +
                                     experts + ", shared_feed_forward: 256}")},
      {"vision", model("vision", llama + ", kv_heads: 4, vision: {layers: 2, hidden: 64, heads: 8, "
                                         "feed_forward: 128, norm: layer, activation: gelu, "
                                         "patch: 8, image_size: 64, positions: 64, rotary: true, "
                                         "window: 16, full_attention: [1]}, projector: {merge: 2, "
                                         "norm: layer, widths: [256], deepstack: 1}")},
      {"hybrid", model("hybrid", llama + ", mamba2: {heads: 16}, gated_delta_net: {key_heads: 4, "
                                         "value_heads: 8}, layer_pattern: \"M*G-M*G-\"")},
      {"encoder",
       model("encoder", sizes + ", norm: layer, norm_placement: post, embedding_norm: true, "
                                "activation: gelu, positions: learned, biases: all, family: bert, "
                                "token_types: 2, attention: bidirectional, head: masked_lm, "
                                "hidden_dropout: 0.1, attention_dropout: 0.1")},
  };
  return models;
}

}  // namespace sim::test
