#include "sim/model/hugging_face/hugging_face_architecture.hpp"

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
    Architecture{"Qwen2MoeForCausalLM", "qwen2_moe", Family::qwen2_moe, Head::language_model},
    Architecture{"Qwen3NextForCausalLM", "qwen3_next", Family::qwen3_next, Head::language_model},
    Architecture{"Qwen3_5ForCausalLM", "qwen3_5_text", Family::qwen3_5, Head::language_model},
    Architecture{"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", Family::qwen3_5_moe,
                 Head::language_model},
    Architecture{"Qwen3_5ForConditionalGeneration", "qwen3_5", Family::qwen3_5,
                 Head::language_model},
    Architecture{"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", Family::qwen3_5_moe,
                 Head::language_model},
    Architecture{"Qwen3_5TextModel", "qwen3_5_text", Family::qwen3_5, Head::language_model},
    Architecture{"Qwen3_5MoeTextModel", "qwen3_5_moe_text", Family::qwen3_5_moe,
                 Head::language_model},
    Architecture{"NemotronForCausalLM", "nemotron", Family::nemotron, Head::language_model},
    Architecture{"Glm4MoeForCausalLM", "glm4_moe", Family::glm4_moe, Head::language_model},
    Architecture{"Glm4MoeLiteForCausalLM", "glm4_moe_lite", Family::glm4_moe_lite,
                 Head::language_model},
    Architecture{"GlmMoeDsaForCausalLM", "glm_moe_dsa", Family::glm_moe_dsa, Head::language_model},
    Architecture{"MiniMaxM2ForCausalLM", "minimax_m2", Family::minimax_m2, Head::language_model},
    Architecture{"OlmoeForCausalLM", "olmoe", Family::olmoe, Head::language_model},
    Architecture{"BailingMoeV2ForCausalLM", "bailing_moe", Family::bailing_moe,
                 Head::language_model},
    Architecture{"BailingMoeV2ForCausalLM", "bailing_moe_v2", Family::bailing_moe,
                 Head::language_model},
    Architecture{"Ministral3ForCausalLM", "ministral3", Family::ministral3, Head::language_model},
    Architecture{"MptForCausalLM", "mpt", Family::mpt, Head::language_model},
    Architecture{"MPTForCausalLM", "mpt", Family::mpt, Head::language_model},
    Architecture{"NemotronHForCausalLM", "nemotron_h", Family::nemotron_h, Head::language_model},
    Architecture{"DeciLMForCausalLM", "nemotron-nas", Family::nemotron_nas, Head::language_model},
    Architecture{"Mamba2ForCausalLM", "mamba2", Family::mamba2, Head::language_model},
    Architecture{"BambaForCausalLM", "bamba", Family::bamba, Head::language_model},
    Architecture{"GraniteMoeHybridForCausalLM", "granitemoehybrid", Family::granite_hybrid,
                 Head::language_model},
    Architecture{"FalconH1ForCausalLM", "falcon_h1", Family::falcon_h1, Head::language_model},
    Architecture{"Llama4ForCausalLM", "llama4_text", Family::llama4, Head::language_model},
    Architecture{"DeepseekV32ForCausalLM", "deepseek_v32", Family::deepseek_v32,
                 Head::language_model},
    Architecture{"DeepseekV2ForCausalLM", "deepseek_v2", Family::deepseek, Head::language_model},
    Architecture{"DeepseekV3ForCausalLM", "deepseek_v3", Family::deepseek, Head::language_model},
    Architecture{"DeepseekV3ForCausalLM", "kimi_k2", Family::deepseek, Head::language_model},
    Architecture{"Qwen2VLForConditionalGeneration", "qwen2_vl", Family::qwen2,
                 Head::language_model},
    Architecture{"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", Family::qwen2,
                 Head::language_model},
    Architecture{"Qwen2VLTextModel", "qwen2_vl_text", Family::qwen2, Head::language_model},
    Architecture{"Qwen2_5_VLTextModel", "qwen2_5_vl_text", Family::qwen2, Head::language_model},
    Architecture{"Qwen3VLTextModel", "qwen3_vl_text", Family::qwen3, Head::language_model},
    Architecture{"Qwen3VLMoeTextModel", "qwen3_vl_moe_text", Family::qwen3_moe,
                 Head::language_model},
    Architecture{"Phi3ForCausalLM", "phi3", Family::phi3, Head::language_model},
    Architecture{"Olmo2ForCausalLM", "olmo2", Family::olmo2, Head::language_model},
    Architecture{"Olmo3ForCausalLM", "olmo3", Family::olmo3, Head::language_model},
    Architecture{"SmolLM3ForCausalLM", "smollm3", Family::smollm3, Head::language_model},
    Architecture{"Ernie4_5ForCausalLM", "ernie4_5", Family::ernie4_5, Head::language_model},
    Architecture{"Ernie4_5_ForCausalLM", "ernie4_5", Family::ernie4_5, Head::language_model},
    Architecture{"GraniteForCausalLM", "granite", Family::granite, Head::language_model},
    Architecture{"GlmForCausalLM", "glm", Family::glm, Head::language_model},
    Architecture{"Glm4ForCausalLM", "glm4", Family::glm4, Head::language_model},
    Architecture{"GemmaForCausalLM", "gemma", Family::gemma, Head::language_model},
    Architecture{"Gemma2ForCausalLM", "gemma2", Family::gemma2, Head::language_model},
    Architecture{"Gemma3ForCausalLM", "gemma3_text", Family::gemma3, Head::language_model},
    Architecture{"SeedOssForCausalLM", "seed_oss", Family::seed_oss, Head::language_model},
    Architecture{"GptOssForCausalLM", "gpt_oss", Family::gpt_oss, Head::language_model},
    Architecture{"GPT2LMHeadModel", "gpt2", Family::gpt2, Head::language_model},
    Architecture{"BertForMaskedLM", "bert", Family::bert, Head::masked_lm},
    Architecture{"BertForPreTraining", "bert", Family::bert, Head::pretraining},
    Architecture{"BertModel", "bert", Family::bert, Head::pooler},
    Architecture{"DistilBertForMaskedLM", "distilbert", Family::distilbert, Head::masked_lm},
    Architecture{"DistilBertModel", "distilbert", Family::distilbert, Head::none},
    Architecture{"ViTForImageClassification", "vit", Family::vit, Head::classifier},
};

bool reads_experts(Family family) {
  switch (family) {
    case Family::mixtral:
    case Family::qwen2_moe:
    case Family::qwen3_moe:
    case Family::qwen3_next:
    case Family::qwen3_5_moe:
    case Family::deepseek:
    case Family::deepseek_v32:
    case Family::glm4_moe:
    case Family::glm4_moe_lite:
    case Family::glm_moe_dsa:
    case Family::minimax_m2:
    case Family::llama4:
    case Family::olmoe:
    case Family::bailing_moe:
    case Family::gpt_oss:
    case Family::nemotron_h:
    case Family::granite_hybrid:
      return true;
    default:
      return false;
  }
}

// Families that have more than is modelled, by model_type and by the stem of their classes.
struct OtherFamily {
  std::string_view model_type;
  std::string_view class_stem;
  std::string_view has;
};
constexpr std::array other_families{
    OtherFamily{"deepseek_v4", "DeepseekV4",
                "attention to compressed keys, projections in groups and several residual streams"},
    OtherFamily{"kimi_k3", "KimiK3",
                "Kimi delta attention, residual sums over blocks of layers and norms of latent "
                "experts"},
    OtherFamily{"kimi_linear", "KimiLinear", "Kimi delta attention"},
    OtherFamily{"minimax_m3", "MiniMaxM3", "grouped-query attention to chosen blocks of keys"},
    OtherFamily{"minimax_m3_vl", "MiniMaxM3", "grouped-query attention to chosen blocks of keys"},
    OtherFamily{"gemma4_text", "Gemma4",
                "heads of another width, whose keys are their values, in layers without a window"},
    OtherFamily{"gemma4_unified_text", "Gemma4Unified",
                "heads of another width, whose keys are their values, in layers without a window"},
    OtherFamily{"dbrx", "Dbrx", "clipped queries, keys and values"},
    OtherFamily{"minimax", "MiniMax", "linear attention"},
    OtherFamily{"phimoe", "PhiMoE", "routers of its own"},
    OtherFamily{"phimoe", "Phimoe", "routers of its own"},
    OtherFamily{"jamba", "Jamba", "state-space layers of Mamba-1"},
    OtherFamily{"mamba", "Mamba", "state-space layers of Mamba-1"},
    OtherFamily{"zamba2", "Zamba2", "layers of attention that share their parameters"},
    OtherFamily{"mllama", "Mllama", "layers of cross-attention to an image"},
    OtherFamily{"mllama_text_model", "Mllama", "layers of cross-attention to an image"},
    OtherFamily{"granitemoe", "GraniteMoe", "experts without a capacity beside scaled branches"},
    OtherFamily{"ernie4_5_moe", "Ernie4_5_Moe", "experts of several groups"}};

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
    if (reads_experts(known.family) && !known.name.ends_with("TextModel"))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", known.model_type);
  return text;
}

// Advice for a model that is not read, with the file to write.
std::string way_out(const ObjectReader& in, std::string_view name) {
  return fmt::format(
      "models/README.md lists the families that are, models/FORMAT.md every key of a model file of "
      "ours. If this comes close enough, write it down and name it as the model:\n{}",
      transformer_to_write(in, name));
}

void refuse_other_families(const Document& document, const ObjectReader& in, const char* key,
                           const std::string& name) {
  for (const OtherFamily& family : other_families)
    if (name == family.model_type || name.starts_with(fmt::format("{}For", family.class_stem)))
      refuse(document, in, key,
             fmt::format("\"{}\" is not supported yet: it has {}; mixtures of experts that are: "
                         "{}. {}",
                         name, family.has, known_experts(), way_out(in, name)));
}

std::optional<std::string> architecture_name(const ObjectReader& in) {
  if (!in.has("architectures")) return std::nullopt;
  const std::vector<ValueReader> names = in.list("architectures");
  if (names.empty()) return std::nullopt;
  return names.front().text();
}

void refuse_expert_fields(const Document& document, const ObjectReader& in,
                          const std::string& name) {
  for (const char* key :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (const auto value = in.find(key); value && value->peek_text() != "0")
      refuse(document, in, key,
             fmt::format("\"{}\" with experts is not supported yet; mixtures of experts that are: "
                         "{}. {}",
                         name, known_experts(), way_out(in, name)));
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

// "gemma3_text" for "gemma3", an architecture for its neighbour.
std::string nearest_architecture(const std::string& shown) {
  std::vector<std::string_view> names;
  for (const Architecture& known : architectures) {
    names.push_back(known.name);
    names.push_back(known.model_type);
  }
  const std::string_view nearest = nearest_name(shown, names);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
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
  const Architecture* found = find_architecture(name, type);
  if (found == nullptr)
    refuse(document, in, name ? "architectures" : "model_type",
           fmt::format("unknown architecture \"{}\"{}. {}", shown, nearest_architecture(shown),
                       way_out(in, shown)));
  if (!reads_experts(found->family)) refuse_expert_fields(document, in, shown);
  if (type && found->model_type != *type)
    refuse(document, in, "model_type",
           fmt::format("model_type \"{}\" contradicts architecture {}, whose model_type "
                       "is \"{}\"",
                       *type, found->name, found->model_type));
  return *found;
}

}  // namespace sim
