#include "sim/model/hugging_face_architecture.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/check.hpp"

namespace sim {

namespace {

using Family = HuggingFaceFamily;
using Architecture = HuggingFaceArchitecture;

constexpr std::array architectures{
    Architecture{"LlamaForCausalLM", "llama", Family::llama, Head::language_model},
    Architecture{"MistralForCausalLM", "mistral", Family::mistral, Head::language_model},
    Architecture{"MixtralForCausalLM", "mixtral", Family::mixtral, Head::language_model},
    Architecture{"Qwen2ForCausalLM", "qwen2", Family::qwen2, Head::language_model},
    Architecture{"Qwen3ForCausalLM", "qwen3", Family::qwen3, Head::language_model},
    Architecture{"Qwen3MoeForCausalLM", "qwen3_moe", Family::qwen3_moe, Head::language_model},
    Architecture{"DeepseekV2ForCausalLM", "deepseek_v2", Family::deepseek, Head::language_model},
    Architecture{"DeepseekV3ForCausalLM", "deepseek_v3", Family::deepseek, Head::language_model},
    Architecture{"DeepseekV3ForCausalLM", "kimi_k2", Family::deepseek, Head::language_model},
    Architecture{"GPT2LMHeadModel", "gpt2", Family::gpt2, Head::language_model},
    Architecture{"BertForMaskedLM", "bert", Family::bert, Head::masked_lm},
    Architecture{"BertForPreTraining", "bert", Family::bert, Head::pretraining},
    Architecture{"BertModel", "bert", Family::bert, Head::pooler},
    Architecture{"DistilBertForMaskedLM", "distilbert", Family::distilbert, Head::masked_lm},
    Architecture{"DistilBertModel", "distilbert", Family::distilbert, Head::none},
    Architecture{"ViTForImageClassification", "vit", Family::vit, Head::classifier},
};

bool reads_experts(Family family) {
  return family == Family::mixtral || family == Family::qwen3_moe || family == Family::deepseek;
}

// Families that have more than is modelled (a gate of the shared experts, norms over all heads,
// biases of experts, sparse or linear attention), by model_type and by the stem of their classes.
struct OtherFamily {
  std::string_view model_type;
  std::string_view class_stem;
};
constexpr std::array other_families{OtherFamily{"qwen2_moe", "Qwen2Moe"},
                                    OtherFamily{"qwen3_next", "Qwen3Next"},
                                    OtherFamily{"deepseek_v32", "DeepseekV32"},
                                    OtherFamily{"llama4", "Llama4"},
                                    OtherFamily{"llama4_text", "Llama4"},
                                    OtherFamily{"gpt_oss", "GptOss"},
                                    OtherFamily{"dbrx", "Dbrx"},
                                    OtherFamily{"olmoe", "Olmoe"},
                                    OtherFamily{"phimoe", "PhiMoE"},
                                    OtherFamily{"phimoe", "Phimoe"},
                                    OtherFamily{"jamba", "Jamba"},
                                    OtherFamily{"granitemoe", "GraniteMoe"},
                                    OtherFamily{"glm4_moe", "Glm4Moe"},
                                    OtherFamily{"ernie4_5_moe", "Ernie4_5_Moe"}};

std::string known_architectures() {
  std::string text;
  for (const Architecture& known : architectures) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} ({})", known.name, known.model_type);
  }
  return text;
}

// Ends the reading with a problem at a key: what else is wrong with the file does not matter.
[[noreturn]] void refuse(const Document& document, const ObjectReader& in, std::string_view key,
                         const std::string& what) {
  in.problem(key, what);
  document.finish();
  SIM_CHECK(false, what);
  std::abort();
}

// The model types whose experts are read, as "mixtral, qwen3_moe, ...".
std::string known_experts() {
  std::string text;
  for (const Architecture& known : architectures)
    if (reads_experts(known.family))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", known.model_type);
  return text;
}

void refuse_other_families(const Document& document, const ObjectReader& in, const char* key,
                           const std::string& name) {
  for (const OtherFamily& family : other_families)
    if (name == family.model_type || name.starts_with(fmt::format("{}For", family.class_stem)))
      refuse(document, in, key,
             fmt::format("\"{}\" is not supported yet; mixtures of experts that are: {}", name,
                         known_experts()));
}

std::optional<std::string> architecture_name(const ObjectReader& in) {
  if (!in.has("architectures")) return std::nullopt;
  const std::vector<ValueReader> names = in.list("architectures");
  if (names.empty()) return std::nullopt;
  return names.front().text();
}

// A model of several modalities keeps its language model in `text_config`: costing that alone would
// leave the rest out silently.
void refuse_multimodal(const Document& document, const ObjectReader& in, const std::string& name) {
  if (!in.has("text_config") && !in.has("vision_config")) return;
  if (in.has("text_config")) {
    const ObjectReader text = in.object("text_config");
    text.ignore_unknown();
    if (text.has("model_type"))
      refuse_other_families(document, text, "model_type", text.text("model_type"));
  }
  refuse(document, in, in.has("text_config") ? "text_config" : "vision_config",
         fmt::format("\"{}\": multimodal models are not supported; its text_config, saved "
                     "as a config.json of its own, is if its architecture is known: {}",
                     name, known_architectures()));
}

void refuse_expert_fields(const Document& document, const ObjectReader& in,
                          const std::string& name) {
  for (const char* key :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (const auto value = in.find(key); value && value->peek_text() != "0")
      refuse(document, in, key,
             fmt::format("\"{}\" with experts is not supported yet; mixtures of experts that are: "
                         "{}",
                         name, known_experts()));
}

// The row of a name, a model type or both; one of the name where none has both.
const Architecture* find_architecture(const std::optional<std::string>& name,
                                      const std::optional<std::string>& type) {
  const Architecture* found = nullptr;
  for (const Architecture& known : architectures) {
    const bool named = name ? known.name == *name : type && known.model_type == *type;
    if (!named) continue;
    if (!type || known.model_type == *type) return &known;
    if (found == nullptr) found = &known;
  }
  return found;
}

}  // namespace

HuggingFaceArchitecture hugging_face_architecture(const Document& document,
                                                  const ObjectReader& in) {
  const std::optional<std::string> name = architecture_name(in);
  std::optional<std::string> type;
  if (in.has("model_type")) type = in.text("model_type");
  if (type) refuse_other_families(document, in, "model_type", *type);
  if (name) refuse_other_families(document, in, "architectures", *name);
  if (!name && !type) document.finish();  // neither could be read: that is the error to show
  const std::string shown = name ? *name : type.value_or("");
  refuse_multimodal(document, in, shown);
  const Architecture* found = find_architecture(name, type);
  if (found == nullptr)
    refuse(document, in, name ? "architectures" : "model_type",
           fmt::format("unknown architecture \"{}\"; known: {}", shown, known_architectures()));
  if (!reads_experts(found->family)) refuse_expert_fields(document, in, shown);
  if (type && found->model_type != *type)
    refuse(document, in, "model_type",
           fmt::format("model_type \"{}\" contradicts architecture {}, whose model_type "
                       "is \"{}\"",
                       *type, found->name, found->model_type));
  return *found;
}

}  // namespace sim
