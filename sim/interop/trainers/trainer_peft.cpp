// Low-rank adapters of trainers around Hugging Face's PEFT: axolotl (adapter, lora_r,
// lora_target_modules, lora_target_linear; src/axolotl/utils/schemas/peft.py), TRL (use_peft,
// lora_r, load_in_4bit; trl/trainer/model_config.py), LLaMA-Factory (finetuning_type, lora_rank,
// lora_target, quantization_bit; src/llamafactory/hparams).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/interop/trainers/trainer_job.hpp"

namespace sim {
namespace {

struct Target {
  std::string_view name;
  LoraModule module;
  int part, parts;  // of what is one linear here
};
constexpr std::array targets{Target{"q_proj", LoraModule::linear_qkv, 0, 3},
                             Target{"k_proj", LoraModule::linear_qkv, 1, 3},
                             Target{"v_proj", LoraModule::linear_qkv, 2, 3},
                             Target{"o_proj", LoraModule::linear_proj, 0, 1},
                             Target{"gate_proj", LoraModule::linear_fc1, 0, 2},
                             Target{"up_proj", LoraModule::linear_fc1, 1, 2},
                             Target{"down_proj", LoraModule::linear_fc2, 0, 1}};

class PeftReader {
 public:
  PeftReader(const ObjectReader& root, TrainerJob& job, Imported& result)
      : root_{root}, job_{job}, result_{result} {}

  void read() {
    Text adapter, tuning;
    Flag peft;
    read_setting(root_, "adapter", adapter);
    read_setting(root_, "finetuning_type", tuning);
    read_setting(root_, "use_peft", peft);
    const bool low_rank = is(adapter, "lora") || is(adapter, "qlora") || is(tuning, "lora");
    quantization(is(adapter, "qlora"), low_rank || peft.value_or(false));
    for (const Text* kind : {&adapter, &tuning})
      if (*kind && !is(*kind, "lora") && !is(*kind, "qlora") && !is(*kind, "full") &&
          !is(*kind, ""))
        kind->place->problem(fmt::format("is '{}'; modelled: lora, qlora", (**kind).substr(0, 80)));
    if (!low_rank && !peft.value_or(false)) return;
    // PEFT's rank (LoraConfig.r), TRL's.
    rank(is(adapter, "lora") || is(adapter, "qlora") || is(tuning, "lora") ? 8 : 16);
    modules();
    magnitudes();
    trained_whole();
  }

 private:
  static bool is(const Text& text, std::string_view word) { return text && *text == word; }

  void quantization(bool qlora, bool adapters) {
    Flag four, eight;
    Whole bits;
    read_setting(root_, "load_in_4bit", four);
    read_setting(root_, "load_in_8bit", eight);
    read_setting(root_, "quantization_bit", bits);
    const bool eight_bits = eight.value_or(false) || (bits && *bits == 8);
    if (bits && *bits != 4 && *bits != 8)
      bits.place->problem(fmt::format("is {}; modelled: 4, 8", *bits));
    if (eight_bits) return eight_bit_weights(eight ? *eight.place : *bits.place, adapters);
    if (!qlora && !four.value_or(false) && !bits) return;
    job_.adapters.frozen_format = FrozenFormat::nf4;
    if (!adapters && four.value_or(false))
      four.place->problem("weights in 4 bits are modelled beside adapters");
  }

  // bitsandbytes' LLM.int8, with transformers' threshold of 6 for outliers (BitsAndBytesConfig,
  // llm_int8_threshold). Of all features about 0.1% have some (Dettmers et al. 2022,
  // arXiv:2208.07339, section 1).
  void eight_bit_weights(const ValueReader& place, bool adapters) {
    constexpr double features_with_outliers = 0.001;
    Text method;
    read_setting(root_, "quantization_method", method);
    const std::string word = method.value_or("bnb");
    if (word != "bnb" && word != "bitsandbytes")
      method.place->problem(
          fmt::format("is '{}' with weights in 8 bits; modelled: bnb", word.substr(0, 80)));
    if (!adapters) place.problem("weights in 8 bits are modelled beside adapters");
    job_.adapters.frozen_format = FrozenFormat::int8;
    job_.adapters.outlier_share = features_with_outliers;
  }

  void magnitudes() {
    for (const char* key : {"peft_use_dora", "use_dora"}) {
      Flag on;
      read_setting(root_, key, on);
      if (on.value_or(false)) job_.adapters.lora_magnitudes = true;
    }
  }

  // lora_modules_to_save (axolotl, TRL), additional_target (LLaMA-Factory).
  void trained_whole() {
    for (const char* key : {"lora_modules_to_save", "additional_target", "modules_to_save"}) {
      Text names;
      read_setting(root_, key, names);
      std::string word;
      for (const char c : names.value_or("") + " ") {
        if (c != ' ' && c != ',') {
          word += c;
          continue;
        }
        if (!word.empty()) train_whole(word, names);
        word.clear();
      }
    }
  }

  void train_whole(const std::string& word, const Text& at) {
    const std::string name = word.substr(word.rfind('.') + 1);
    if (name == "embed_tokens" || name == "wte")
      job_.adapters.trains_embedding = true;
    else if (name == "lm_head")
      job_.adapters.trains_head = true;
    else
      at.place->problem(fmt::format(
          "'{}' trained beside adapters is not modelled; modelled: embed_tokens, lm_head",
          word.substr(0, 80)));
  }

  void rank(int fallback) {
    Whole rank;
    read_setting(root_, "lora_r", rank);
    if (!rank) read_setting(root_, "lora_rank", rank);
    const std::int64_t value = rank.value_or(fallback);
    if (value < 1 || value > 65'536)
      rank.place->problem(fmt::format("is {}; allowed: 1 to 65536", value));
    job_.adapters.lora_rank = static_cast<int>(std::clamp<std::int64_t>(value, 1, 65'536));
  }

  void modules() {
    Flag all;
    Text names;
    read_setting(root_, "lora_target_linear", all);
    read_setting(root_, "lora_target_modules", names);
    if (!names) read_setting(root_, "lora_target", names);
    if (all.value_or(false) || is(names, "all-linear") || is(names, "all")) return;
    // PEFT's for Llama and its relatives (utils/constants.py).
    std::string text = names ? *names : "q_proj v_proj";
    std::array<bool, targets.size()> wanted{};
    if (is_pattern(text)) return take_pattern(names, text, wanted);
    std::ranges::replace(text, ',', ' ');
    std::string word;
    for (const char c : text + " ") {
      if (c != ' ') {
        word += c;
        continue;
      }
      if (!word.empty() && !want(word, wanted)) {
        names.place->problem(
            fmt::format("'{}' is no linear that is known; allowed: q_proj, k_proj, v_proj, o_proj, "
                        "gate_proj, up_proj, down_proj",
                        word.substr(0, 80)));
        return;
      }
      word.clear();
    }
    take(wanted);
  }

  // A regular expression of whole names, as "model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj".
  static bool is_pattern(std::string_view text) {
    return text.find_first_of("(|[*") != std::string_view::npos;
  }
  // Whether it has the name, in one word or as a choice in front of "_proj".
  static bool names(std::string_view pattern, std::string_view name) {
    if (pattern.find(name) != std::string_view::npos) return true;
    const std::string_view stem = name.substr(0, name.find("_proj"));
    for (std::size_t end = pattern.find(")_proj"); end != std::string_view::npos;
         end = pattern.find(")_proj", end + 1)) {
      const std::size_t begin = pattern.rfind('(', end);
      if (begin == std::string_view::npos) continue;
      const std::string choices = fmt::format("|{}|", pattern.substr(begin + 1, end - begin - 1));
      if (choices.find(fmt::format("|{}|", stem)) != std::string::npos) return true;
    }
    return false;
  }
  void take_pattern(const Text& said, std::string_view pattern,
                    std::array<bool, targets.size()>& wanted) {
    for (std::size_t i = 0; i < targets.size(); ++i)
      wanted[i] = names(pattern, targets[i].name);
    if (std::ranges::find(wanted, true) == wanted.end())
      said.place->problem(
          fmt::format("'{}' names no linear that is known; known: q_proj, k_proj, "
                      "v_proj, o_proj, gate_proj, up_proj, down_proj",
                      pattern.substr(0, 80)));
    else
      take(wanted);
  }

  // "mlp.up_proj" names that of every module; a gate and what it gates may be one linear.
  static bool want(std::string_view name, std::array<bool, targets.size()>& wanted) {
    for (const std::string_view module :
         {"self_attn.", "mlp.", "feed_forward.", "shared_expert.", "shared_experts."})
      if (name.starts_with(module)) name.remove_prefix(module.size());
    if (name == "gate_up_proj") return want("gate_proj", wanted) && want("up_proj", wanted);
    if (name == "qkv_proj")
      return want("q_proj", wanted) && want("k_proj", wanted) && want("v_proj", wanted);
    const auto found = std::ranges::find(targets, name, &Target::name);
    if (found == targets.end()) return false;
    wanted[static_cast<std::size_t>(found - targets.begin())] = true;
    return true;
  }

  void take(const std::array<bool, targets.size()>& wanted) {
    job_.adapters.lora_modules.clear();
    for (std::size_t i = 0; i < targets.size(); i += static_cast<std::size_t>(targets[i].parts)) {
      const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(i);
      const auto asked = std::count(first, first + targets[i].parts, true);
      if (asked == 0) continue;
      job_.adapters.lora_modules.push_back(targets[i].module);
      if (asked < targets[i].parts)
        result_.notes.push_back(
            {"adapters",
             fmt::format("adapters are modelled for all of {}",
                         targets[i].parts == 3 ? "queries, keys and values" : "gate and up")});
    }
  }

  const ObjectReader& root_;
  TrainerJob& job_;
  Imported& result_;
};

}  // namespace

void read_peft_of_trainer(const ObjectReader& root, TrainerJob& job, Imported& result) {
  PeftReader{root, job, result}.read();
}

}  // namespace sim
