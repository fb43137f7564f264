// Which Hugging Face architecture a config.json is of, and which are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/config/reader.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

enum class HuggingFaceFamily : std::uint8_t {
  llama,
  mistral,
  ministral3,
  mixtral,
  qwen2,
  qwen2_moe,
  qwen3,
  qwen3_moe,
  qwen3_next,
  qwen3_5,
  qwen3_5_moe,
  deepseek,
  deepseek_v32,
  glm4_moe,
  glm4_moe_lite,
  glm_moe_dsa,
  minimax_m2,
  llama4,
  olmoe,
  bailing_moe,
  phi3,
  olmo2,
  olmo3,
  smollm3,
  ernie4_5,
  granite,
  glm,
  glm4,
  gemma,
  gemma2,
  gemma3,
  seed_oss,
  gpt_oss,
  nemotron,
  nemotron_h,
  nemotron_nas,
  mamba2,
  bamba,
  granite_hybrid,
  falcon_h1,
  gpt2,
  mpt,
  bert,
  distilbert,
  vit
};

// The class whose weights are trained says what head there is; the first of a family is meant when
// the file has no "architectures".
struct HuggingFaceArchitecture {
  std::string_view name;
  std::string_view model_type;
  HuggingFaceFamily family;
  Head head;
};
// Recognised by `architectures`, or without it by `model_type`. Throws InputError for an unknown
// architecture and for other mixtures of experts, each by name and with the model file to write.
HuggingFaceArchitecture hugging_face_architecture(const Document& document, const ObjectReader& in);

// A wrapper of several modalities keeps its language model in `text_config`, whose architecture is
// that of its model_type.
struct HuggingFaceText {
  ObjectReader in;
  std::string note;  // the parts of the file that are left out; empty: none
};
HuggingFaceText hugging_face_text(const Document& document, const ObjectReader& root);

// The mapping of a model file of ours for a model that is read no other way, filled in as far as a
// config.json goes by the names that families share.
std::string transformer_to_write(const ObjectReader& in, std::string_view name);

}  // namespace sim
