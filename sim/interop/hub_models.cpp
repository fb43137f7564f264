#include "sim/interop/hub_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/config/data_files.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

struct HubModel {
  std::string_view name;  // without its owner, in lower case, without the endings below
  std::string_view model;
  bool has_tower = false;  // of images or sound, in front of the language model
};
// Names of fine-tunings and conversions of the same shape, by config.json of each.
constexpr std::array models{
    HubModel{"llama-2-7b", "llama-2-7b"},
    HubModel{"llama-2-13b", "llama-2-13b"},
    HubModel{"llama-2-70b", "llama-2-70b"},
    HubModel{"llama-3-8b", "llama-3.1-8b"},
    HubModel{"llama-3.1-8b", "llama-3.1-8b"},
    HubModel{"llama-3-70b", "llama-3.1-70b"},
    HubModel{"llama-3.1-70b", "llama-3.1-70b"},
    HubModel{"llama-3.3-70b", "llama-3.1-70b"},
    HubModel{"llama-3.1-405b", "llama-3.1-405b"},
    HubModel{"llama-3.2-1b", "llama-3.2-1b"},
    HubModel{"llama-3.2-3b", "llama-3.2-3b"},
    HubModel{"tinyllama_v1.1", "tinyllama-1.1b"},
    HubModel{"tinyllama-1.1b", "tinyllama-1.1b"},
    HubModel{"tinyllama-1.1b-chat-v1.0", "tinyllama-1.1b"},
    HubModel{"mistral-nemo-base-2407", "mistral-nemo-12b"},
    HubModel{"mistral-nemo-instruct-2407", "mistral-nemo-12b"},
    HubModel{"mixtral-8x7b-v0.1", "mixtral-8x7b"},
    HubModel{"mixtral-8x7b-instruct-v0.1", "mixtral-8x7b"},
    HubModel{"mistral-7b-v0.1", "mistral-7b"},
    HubModel{"qwen2-0.5b", "qwen2-0.5b"},
    HubModel{"qwen2.5-0.5b", "qwen2-0.5b"},
    HubModel{"qwen2.5-1.5b", "qwen2.5-1.5b"},
    HubModel{"qwen2-1.5b", "qwen2.5-1.5b"},
    HubModel{"qwen2.5-3b", "qwen2.5-3b"},
    HubModel{"qwen2.5-7b", "qwen2.5-7b"},
    HubModel{"qwen2-7b", "qwen2.5-7b"},
    HubModel{"qwen2.5-14b", "qwen2.5-14b"},
    HubModel{"qwen2.5-32b", "qwen2.5-32b"},
    HubModel{"qwen2.5-72b", "qwen2.5-72b"},
    HubModel{"qwen3-1.7b", "qwen3-1.7b"},
    HubModel{"qwen3-4b", "qwen3-4b"},
    HubModel{"qwen3-14b", "qwen3-14b"},
    HubModel{"qwen3-32b", "qwen3-32b"},
    HubModel{"qwen3-0.6b", "qwen3-0.6b"},
    HubModel{"qwen3-8b", "qwen3-8b"},
    HubModel{"qwen3-30b-a3b", "qwen3-30b-a3b"},
    HubModel{"qwen3-235b-a22b", "qwen3-235b-a22b"},
    HubModel{"qwen3-next-80b-a3b", "qwen3-next-80b-a3b"},
    HubModel{"phi-4", "phi-4"},
    HubModel{"gpt2", "gpt2"},
    HubModel{"smollm3-3b", "smollm3-3b"},
    HubModel{"granite-3.3-8b", "granite-3.3-8b"},
    HubModel{"olmo-2-0325-32b", "olmo-2-32b"},
    HubModel{"gemma-3-1b", "gemma-3-1b"},
    HubModel{"deepseek-v2", "deepseek-v2"},
    HubModel{"deepseek-v3", "deepseek-v3"},
    HubModel{"deepseek-r1", "deepseek-v3"},
    HubModel{"deepseek-v3.2", "deepseek-v3.2"},
    HubModel{"moonlight-16b-a3b", "moonlight-16b-a3b"},
    HubModel{"llama-3_3-nemotron-super-49b-v1", "llama-3.3-nemotron-super-49b"},
    HubModel{"llama-3_3-nemotron-super-49b-v1_5", "llama-3.3-nemotron-super-49b"},
    HubModel{"gpt-oss-20b", "gpt-oss-20b"},
    HubModel{"gpt-oss-120b", "gpt-oss-120b"},
    HubModel{"kimi-k2", "kimi-k2"},
    HubModel{"kimi-k2-instruct-0905", "kimi-k2"},
    HubModel{"deepseek-v2-lite", "deepseek-v2-lite"},
    HubModel{"qwen2-72b", "qwen2.5-72b"},
    HubModel{"gemma-2-2b", "gemma-2-2b"},
    HubModel{"gemma-2-9b", "gemma-2-9b"},
    HubModel{"gemma-2-27b", "gemma-2-27b"},
    HubModel{"nvidia-nemotron-3-nano-30b-a3b", "nemotron-3-nano"},
    HubModel{"nvidia-nemotron-3.5-lightning-30b-a3b", "nemotron-3-nano"},
    HubModel{"ernie-4.5-0.3b-pt", "ernie-4.5-0.3b"},
    HubModel{"gpt-oss-20b", "gpt-oss-20b"},
    HubModel{"gpt-oss-120b", "gpt-oss-120b"},
    HubModel{"kimi-k2", "kimi-k2"},
    HubModel{"nvidia-nemotron-3-nano-30b-a3b", "nemotron-3-nano"},
    HubModel{"nvidia-nemotron-3-super-120b-a12b", "nemotron-3-super"},
    HubModel{"nvidia-nemotron-3-ultra-550b-a55b", "nemotron-3-ultra"},
    HubModel{"minimax-m2", "minimax-m2"},
    HubModel{"minimax-m2.1", "minimax-m2"},
    HubModel{"minimax-m2.5", "minimax-m2"},
    HubModel{"minimax-m2.7", "minimax-m2"},
    HubModel{"glm-4.5-air", "glm-4.5-air"},
    HubModel{"glm-4.5", "glm-4.7"},
    HubModel{"glm-4.6", "glm-4.7"},
    HubModel{"glm-4.7", "glm-4.7"},
    HubModel{"glm-4.7-flash", "glm-4.7-flash"},
    HubModel{"glm-5", "glm-5"},
    HubModel{"glm-5.1", "glm-5"},
    HubModel{"ling-mini-2.0", "ling-mini-2.0"},
    HubModel{"qwen3.5-35b-a3b", "qwen3.5-35b-a3b", true},
    HubModel{"qwen3.6-35b-a3b", "qwen3.5-35b-a3b", true},
    HubModel{"qwen3.5-122b-a10b", "qwen3.5-122b-a10b", true},
    HubModel{"qwen3.5-397b-a17b", "qwen3.5-397b-a17b", true},
    HubModel{"qwen3-vl-30b-a3b", "qwen3-30b-a3b", true},
    HubModel{"qwen3-vl-235b-a22b", "qwen3-235b-a22b", true},
    HubModel{"qwen3-omni-30b-a3b", "qwen3-30b-a3b", true},
    HubModel{"kimi-k2.5", "kimi-k2", true},
    HubModel{"kimi-vl-a3b", "moonlight-16b-a3b", true},
};

// Models of several modalities, by their language models.
constexpr std::array text_parts{
    HubModel{"qwen3-vl-8b", "qwen3-8b"},
    HubModel{"qwen3-vl-30b-a3b", "qwen3-30b-a3b"},
    HubModel{"qwen3-vl-235b-a22b", "qwen3-235b-a22b"},
    HubModel{"qwen3-omni-30b-a3b", "qwen3-30b-a3b"},
    HubModel{"qwen2.5-vl-3b", "qwen2.5-3b"},
    HubModel{"qwen2.5-vl-7b", "qwen2.5-7b"},
    HubModel{"qwen2.5-vl-32b", "qwen2.5-32b"},
    HubModel{"qwen2.5-vl-72b", "qwen2.5-72b"},
    HubModel{"qwen2-vl-7b", "qwen2.5-7b"},
    HubModel{"qwen3.5-397b-a17b", "qwen3.5-397b-a17b"},
    HubModel{"qwen3.5-122b-a10b", "qwen3.5-122b-a10b"},
    HubModel{"qwen3.5-35b-a3b", "qwen3.5-35b-a3b"},
    HubModel{"qwen3.5-9b", "qwen3.5-9b"},
    HubModel{"qwen3.5-27b", "qwen3.5-27b"},
    HubModel{"qwen3.5-4b", "qwen3.5-4b"},
    HubModel{"qwen3.5-2b", "qwen3.5-2b"},
    HubModel{"qwen3.5-0.8b", "qwen3.5-0.8b"},
    HubModel{"gemma-3-4b", "gemma-3-4b"},
    HubModel{"gemma-3-12b", "gemma-3-12b"},
    HubModel{"gemma-3-27b", "gemma-3-27b"},
    HubModel{"ministral-3-3b-instruct-2512", "ministral-3-3b"},
    HubModel{"ministral-3-8b-instruct-2512", "ministral-3-8b"},
    HubModel{"ministral-3-14b-instruct-2512", "ministral-3-14b"},
    HubModel{"nemotron-3-nano-omni-30b-a3b-reasoning", "nemotron-3-nano"},
};

// Of fine-tunings, and of formats of the same weights.
constexpr std::array<std::string_view, 10> name_endings{
    "-hf",   "-it",   "-chat",     "-base",    "-instruct",
    "-2507", "-bf16", "-thinking", "-preview", "-bnb-4bit"};

std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name.substr(name.rfind('/') + 1))
    bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : name_endings)
      if (bare.ends_with(ending)) {
        bare.resize(bare.size() - ending.size());
        cut = true;
      }
  }
  if (bare.starts_with("meta-llama-")) bare.erase(0, 5);
  return bare;
}

}  // namespace

std::string model_of_hub(std::string_view name) {
  const std::string bare = bare_name(name);
  const auto row = std::ranges::find(models, bare, &HubModel::name);
  if (row != models.end()) return std::string{row->model};
  const auto part = std::ranges::find(text_parts, bare, &HubModel::name);
  return part == text_parts.end() ? "" : std::string{part->model};
}

bool has_other_modalities(std::string_view name) {
  return std::ranges::find(text_parts, bare_name(name), &HubModel::name) != text_parts.end();
}

void take_hub_model(const Text& name, ImportRequest& request, Imported& result) {
  if (!name) return;
  const std::string known = model_of_hub(*name);
  std::optional<TransformerShape> shape;
  const auto row = std::ranges::find(models, bare_name(*name), &HubModel::name);
  if (row != models.end() && row->has_tower && !request.model)
    result.notes.push_back(
        {"model", fmt::format("{}: the language model alone; the tower of images or "
                              "sound is left out",
                              (*name).substr(0, 80))});
  if (!known.empty()) shape = load_model(find_data_file("models", known)).shape;
  if (has_other_modalities(*name))
    result.notes.push_back({"model",
                            "the language model alone is forecast, without the encoder of "
                            "images or sound and its projection"});
  if (!request.model) {
    request.model = shape;
  } else if (!shape || !same_shape(*shape, *request.model)) {
    result.notes.push_back({"model", fmt::format("the file trains {}; the forecast takes the "
                                                 "model of --model",
                                                 (*name).substr(0, 80))});
  }
}

}  // namespace sim
