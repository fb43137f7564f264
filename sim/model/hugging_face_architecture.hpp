// Which Hugging Face architecture a config.json is of, and which are refused.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/config/reader.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

enum class HuggingFaceFamily : std::uint8_t {
  llama,
  mistral,
  mixtral,
  qwen2,
  qwen3,
  qwen3_moe,
  deepseek,
  gpt2,
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
// architecture, for other mixtures of experts and for multimodal models, each by name.
HuggingFaceArchitecture hugging_face_architecture(const Document& document, const ObjectReader& in);

}  // namespace sim
