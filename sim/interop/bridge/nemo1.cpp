// NeMo 1.x: megatron_gpt_config.yaml (examples/nlp/language_modeling/conf), with OmegaConf's
// interpolations ${a.b}, ${.sibling} and NeMo's resolvers multiply, sum and int_div.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/scalars.hpp"
#include "sim/interop/bridge/nemo.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

// Values with their interpolations resolved.
class Resolver {
 public:
  explicit Resolver(const ObjectReader& root) : root_{root} {}

  // The text of `section`.key, or nullopt where it is absent or null. Problems are recorded.
  std::optional<std::string> text(const ObjectReader& section, std::string_view key) {
    const std::optional<ValueReader> value = section.find(key);
    if (!value) return std::nullopt;
    const std::optional<std::string> raw = value->peek_text();
    if (!raw) {
      value->problem(fmt::format("{} takes a single value", key));
      return std::nullopt;
    }
    if (*raw == "\?\?\?") {
      value->problem(fmt::format("{} is '\?\?\?': NeMo wants it to be filled in", key));
      return std::nullopt;
    }
    steps_ = 0;
    const std::optional<std::string> result = resolve(*raw, section);
    if (!result)
      value->problem(fmt::format("'{}' cannot be resolved: write the value in its place", *raw));
    return result && *result != "null" ? result : std::nullopt;
  }

  template <class T>
  void read(const ObjectReader& section, std::string_view key, Setting<T>& into) {
    const std::optional<ValueReader> value = section.find(key);
    const std::optional<std::string> found = text(section, key);
    if (!found) return;
    const std::optional<T> parsed = parse<T>(*found);
    if (parsed)
      into = {*parsed, value, std::string{key}};
    else
      value->problem(fmt::format("{} is '{}', which is no value for it", key, *found));
  }

 private:
  template <class T>
  static std::optional<T> parse(const std::string& text) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text;
    } else if constexpr (std::is_same_v<T, bool>) {
      if (text == "true" || text == "True") return true;
      if (text == "false" || text == "False") return false;
      return std::nullopt;
    } else {
      const auto parsed = [&] {
        if constexpr (std::is_same_v<T, double>)
          return parse_real(text);
        else
          return parse_integer(text, true);
      }();
      const T* number = std::get_if<T>(&parsed);
      return number ? std::optional<T>{*number} : std::nullopt;
    }
  }

  // Replaces the innermost "${...}" until there is none.
  std::optional<std::string> resolve(std::string text, const ObjectReader& section) {
    while (true) {
      const std::size_t begin = text.rfind("${");
      if (begin == std::string::npos) return text;
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos || ++steps_ > most_steps) return std::nullopt;
      const std::optional<std::string> value =
          evaluate(std::string_view{text}.substr(begin + 2, end - begin - 2), section);
      if (!value) return std::nullopt;
      text.replace(begin, end - begin + 1, *value);
    }
  }

  std::optional<std::string> evaluate(std::string_view inner, const ObjectReader& section) {
    const std::size_t colon = inner.find(':');
    if (colon != std::string_view::npos)
      return call(inner.substr(0, colon), inner.substr(colon + 1));
    if (inner.starts_with('.')) return refer(section, inner.substr(1));
    return refer(root_, inner);
  }

  std::optional<std::string> refer(const ObjectReader& from, std::string_view path) {
    const std::size_t dot = path.find('.');
    const std::optional<ValueReader> value = from.find(path.substr(0, dot));
    if (!value) return std::nullopt;
    if (dot != std::string_view::npos)
      return value->is_object() ? refer(value->object(), path.substr(dot + 1)) : std::nullopt;
    const std::optional<std::string> text = value->peek_text();
    return text ? resolve(*text, from) : std::nullopt;
  }

  static std::optional<std::string> call(std::string_view name, std::string_view arguments) {
    const std::size_t comma = arguments.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    const auto number = [](std::string_view text) -> std::optional<std::int64_t> {
      while (text.starts_with(' '))
        text.remove_prefix(1);
      while (text.ends_with(' '))
        text.remove_suffix(1);
      const ParsedNumber<std::int64_t> parsed = parse_integer(text, false);
      const auto* value = std::get_if<std::int64_t>(&parsed);
      // Sizes of models and jobs are far below; products stay within range.
      constexpr std::int64_t most = 1LL << 31;
      if (!value || *value < -most || *value > most) return std::nullopt;
      return *value;
    };
    const std::optional<std::int64_t> a = number(arguments.substr(0, comma));
    const std::optional<std::int64_t> b = number(arguments.substr(comma + 1));
    if (!a || !b) return std::nullopt;
    if (name == "multiply") return fmt::format("{}", *a * *b);
    if (name == "sum") return fmt::format("{}", *a + *b);
    if (name == "int_div" && *b != 0) return fmt::format("{}", *a / *b);
    return std::nullopt;
  }

  static constexpr int most_steps = 64;
  const ObjectReader& root_;
  int steps_ = 0;
};

class NemoReader {
 public:
  NemoReader(const ObjectReader& root, ImportRequest& request, Imported& result)
      : root_{root}, request_{request}, result_{result}, resolver_{root} {}

  MegatronConfig read() {
    const ObjectReader trainer = root_.object("trainer");
    trainer.ignore_unknown();
    gpus(trainer);
    precision(trainer);
    const ObjectReader model = root_.object("model");
    shape(model);
    parallelism(model);
    optimizer(model);
    kernels(model);
    judge_keys(model, known_keys("nemo1", "model"), "model.", result_);
    note_unknown_keys(model, "model.", result_);
    root_.ignore_unknown();
    return config_;
  }

 private:
  void gpus(const ObjectReader& trainer) {
    Whole devices, nodes;
    resolver_.read(trainer, "devices", devices);
    resolver_.read(trainer, "num_nodes", nodes);
    const std::int64_t count = devices.value_or(0);
    const std::int64_t on = nodes.value_or(1);
    // Lightning's -1: all GPUs of a node.
    if (devices && count < 1 && count != -1)
      devices.place->problem(fmt::format("is {}; allowed: -1, or 1 to 1024", count));
    if (on < 1) nodes.place->problem(fmt::format("is {}; allowed: 1 to 65536", on));
    if (count < 1 || on < 1 || count > 1024 || on > 65'536) return;
    // A shipped configuration says one device and is overridden where it is started.
    const auto named = static_cast<int>(count * on);
    if (request_.gpus > 0 && request_.gpus != named)
      result_.notes.push_back(
          {"trainer", fmt::format("{} GPUs as asked for, not {} x {}", request_.gpus, on, count)});
    else
      request_.gpus = named;
  }

  void precision(const ObjectReader& trainer) {
    const std::string text = resolver_.text(trainer, "precision").value_or("32");
    if (text.starts_with("bf16"))
      config_.bf16 = true;
    else if (text.starts_with("16"))
      config_.fp16 = true;
    else if (!text.starts_with("32"))
      trainer.problem("precision", fmt::format("precision is '{}'; known: bf16, 16, 32", text));
  }

  void shape(const ObjectReader& model) {
    resolver_.read(model, "num_layers", config_.num_layers);
    resolver_.read(model, "hidden_size", config_.hidden_size);
    resolver_.read(model, "ffn_hidden_size", config_.ffn_hidden_size);
    resolver_.read(model, "num_attention_heads", config_.num_attention_heads);
    resolver_.read(model, "num_query_groups", config_.num_query_groups);
    resolver_.read(model, "kv_channels", config_.kv_channels);
    resolver_.read(model, "encoder_seq_length", config_.seq_length);
    resolver_.read(model, "max_position_embeddings", config_.max_position_embeddings);
    resolver_.read(model, "override_vocab_size", config_.vocab_size);
    resolver_.read(model, "position_embedding_type", config_.position_embedding_type);
    resolver_.read(model, "share_embeddings_and_output_weights", config_.share_embeddings);
    resolver_.read(model, "cross_entropy_loss_fusion", config_.fused_loss);
    resolver_.read(model, "qk_layernorm", config_.qk_layernorm);
    resolver_.read(model, "bias", config_.add_bias_linear);
    resolver_.read(model, "hidden_dropout", config_.hidden_dropout);
    resolver_.read(model, "attention_dropout", config_.attention_dropout);
    const std::string norm = resolver_.text(model, "normalization").value_or("layernorm");
    config_.normalization = norm == "rmsnorm" ? "RMSNorm" : "LayerNorm";
    if (norm != "rmsnorm" && norm.find("layernorm") == std::string::npos)
      model.problem("normalization", fmt::format("'{}' is not modelled", norm));
    activation(model);
  }

  void activation(const ObjectReader& model) {
    std::string name = resolver_.text(model, "activation").value_or("gelu");
    if (name.starts_with("fast-")) name.erase(0, 5);
    if (name == "squared-relu") name = "squared_relu";
    for (const char* known : {"gelu", "geglu", "swiglu", "squared_relu"})
      if (name == known) {
        config_.activation = name;
        return;
      }
    model.problem("activation", fmt::format("'{}' is not modelled", name));
  }

  void parallelism(const ObjectReader& model) {
    resolver_.read(model, "micro_batch_size", config_.micro_batch_size);
    resolver_.read(model, "global_batch_size", config_.global_batch_size);
    resolver_.read(model, "tensor_model_parallel_size", config_.tensor_parallel);
    resolver_.read(model, "pipeline_model_parallel_size", config_.pipeline_parallel);
    resolver_.read(model, "context_parallel_size", config_.context_parallel);
    // A field of Megatron-LM's TransformerConfig, which NeMo fills by name.
    resolver_.read(model, "cp_comm_type", config_.cp_comm_type);
    resolver_.read(model, "virtual_pipeline_model_parallel_size", config_.virtual_stages);
    resolver_.read(model, "sequence_parallel", config_.sequence_parallel);
    config_.overlap_p2p = false;  // NeMo's default, unlike Megatron-LM's
    resolver_.read(model, "overlap_p2p_comm", config_.overlap_p2p);
    resolver_.read(model, "ub_tp_comm_overlap", config_.tp_comm_overlap);
    resolver_.read(model, "activations_checkpoint_granularity", config_.recompute_granularity);
    resolver_.read(model, "activations_checkpoint_num_layers", config_.recompute_num_layers);
    const std::string granularity = config_.recompute_granularity.value_or("");
    if (granularity == "full")
      resolver_.read(model, "activations_checkpoint_method", config_.recompute_method);
    else
      static_cast<void>(model.has("activations_checkpoint_method"));
  }

  // distributed_fused_adam shards like ZeRO-2; its gradients are fp32 unless grad_sync_dtype says
  // otherwise, its buckets bucket_cap_mb large (apex, DistributedFusedAdam: 100).
  void optimizer(const ObjectReader& model) {
    Flag fsdp;
    resolver_.read(model, "fsdp", fsdp);
    config_.grads_in_fp32 = true;
    if (fsdp.value_or(false)) {
      config_.torch_fsdp2 = true;
      config_.overlap_grad_reduce = config_.overlap_param_gather = true;
      Text strategy;
      resolver_.read(model, "fsdp_sharding_strategy", strategy);
      config_.torch_fsdp2_reshard = strategy.value_or("full") != "grad";
      const std::string word = strategy.value_or("full");
      if (word == "hybrid")
        strategy.place->problem("hybrid sharding without the size of its groups");
      else if (word != "full" && word != "grad")
        strategy.place->problem(fmt::format("is '{}'; modelled: full, grad", word.substr(0, 80)));
    }
    const std::optional<ObjectReader> optim = section_at(model, "optim");
    if (!optim || fsdp.value_or(false)) return;
    const ObjectReader& section = *optim;
    section.ignore_unknown();
    const std::string name = resolver_.text(section, "name").value_or("");
    if (!name.empty() && name.find("adam") == std::string::npos)
      section.problem("name", fmt::format("model.optim.name is '{}': only Adam is modelled; to "
                                          "forecast the job with it, write adam",
                                          name));
    if (name != "distributed_fused_adam") return;
    config_.distributed_optimizer = true;
    resolver_.read(section, "overlap_grad_sync", config_.overlap_grad_reduce);
    resolver_.read(section, "overlap_param_sync", config_.overlap_param_gather);
    Text dtype;
    resolver_.read(section, "grad_sync_dtype", dtype);
    const std::string word = dtype.value_or("fp32");
    constexpr std::array<std::string_view, 10> formats{
        "fp32",     "float32",        "torch.float32", "32",      "bf16",
        "bfloat16", "torch.bfloat16", "fp16",          "float16", "16"};
    if (std::ranges::find(formats, word) == formats.end())
      dtype.place->problem(fmt::format("is '{}'; allowed: fp32, bf16, fp16", word.substr(0, 80)));
    config_.grads_in_fp32 = word.find("16") == std::string::npos;
    Whole cap;
    resolver_.read(section, "bucket_cap_mb", cap);
    const std::int64_t mib = std::clamp<std::int64_t>(cap.value_or(100), 1, 1 << 20);
    if (cap.value_or(mib) != mib)
      cap.place->problem(fmt::format("is {}; allowed: 1 to {}", *cap, 1 << 20));
    config_.bucket_size = (mib << 20) / (config_.grads_in_fp32.value_or(true) ? 4 : 2);
    result_.notes.push_back(
        {"model.optim.name", "distributed_fused_adam shards gradients, too: forecast as ZeRO-1"});
  }

  void kernels(const ObjectReader& model) {
    Flag engine, flash, fp8;
    resolver_.read(model, "transformer_engine", engine);
    resolver_.read(model, "use_flash_attention", flash);
    resolver_.read(model, "fp8", fp8);
    resolver_.read(model, "apply_rope_fusion", config_.rotary_fusion);
    resolver_.read(model, "bias_activation_fusion", config_.gate_fusion);
    resolver_.read(model, "masked_softmax_fusion", config_.softmax_fusion);
    if (!engine.value_or(false))
      config_.attention_backend = flash.value_or(false) ? "flash" : "unfused";
    if (fp8.value_or(false)) {
      config_.fp8 = {"hybrid", fp8.place};
      resolver_.read(model, "fp8_dot_product_attention", config_.fp8_attention);
      resolver_.read(model, "fp8_mha", config_.fp8_whole_attention);
    }
    Flag master;
    resolver_.read(model, "megatron_amp_O2", master);
    if (!master.value_or(false) && config_.bf16.value_or(false))
      result_.notes.push_back(
          {"model.megatron_amp_O2", "weights are modelled in bf16 with an fp32 copy"});
  }

  const ObjectReader& root_;
  ImportRequest& request_;
  Imported& result_;
  Resolver resolver_;
  MegatronConfig config_;
};

}  // namespace

Imported import_nemo1(const Document& yaml, const ImportRequest& asked) {
  const ObjectReader root = yaml.root_object();
  ImportRequest request = asked;
  Imported read;
  const MegatronConfig config = NemoReader{root, request, read}.read();
  yaml.finish();
  const MegatronRules rules{
      .fp32_gradients_by_default = true, .groups_without_switch = true, .own_optimizer = false};
  Imported result = scenario_of_megatron(config, rules, request, root);
  result.ignored.insert(result.ignored.end(), read.ignored.begin(), read.ignored.end());
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
  finish_import(yaml, root, result);
  return result;
}

}  // namespace sim
