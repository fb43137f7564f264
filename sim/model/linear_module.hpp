// The linears of a transformer by what they are, for formats by module (Layout::bf16_modules).
// Their words are the names of their operators.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/base/words.hpp"

namespace sim {

enum class LinearModule : std::uint8_t {
  qkv,
  query,  // of latent attention: in one product, or down to a narrow vector and up from it
  query_down,
  query_up,
  key_value_down,
  key_value_up,
  attention_projection,
  mlp_up,
  mlp_down,
  expert_up,
  expert_down,
  expert_latent_down,  // to the narrower state that experts work on, and back
  expert_latent_up,
  shared_expert_up,
  shared_expert_down,
  mamba_in,
  mamba_out,
  delta_in,
  delta_out,
  head
};
constexpr auto words_of(LinearModule) {
  return std::array{Word{LinearModule::qkv, "qkv"},
                    Word{LinearModule::query, "query"},
                    Word{LinearModule::query_down, "query_down"},
                    Word{LinearModule::query_up, "query_up"},
                    Word{LinearModule::key_value_down, "key_value_down"},
                    Word{LinearModule::key_value_up, "key_value_up"},
                    Word{LinearModule::attention_projection, "attention_projection"},
                    Word{LinearModule::mlp_up, "mlp_up"},
                    Word{LinearModule::mlp_down, "mlp_down"},
                    Word{LinearModule::expert_up, "expert_up"},
                    Word{LinearModule::expert_down, "expert_down"},
                    Word{LinearModule::expert_latent_down, "expert_latent_down"},
                    Word{LinearModule::expert_latent_up, "expert_latent_up"},
                    Word{LinearModule::shared_expert_up, "shared_expert_up"},
                    Word{LinearModule::shared_expert_down, "shared_expert_down"},
                    Word{LinearModule::mamba_in, "mamba_in"},
                    Word{LinearModule::mamba_out, "mamba_out"},
                    Word{LinearModule::delta_in, "delta_in"},
                    Word{LinearModule::delta_out, "delta_out"},
                    Word{LinearModule::head, "head"}};
}

// The module of an operator by its name, within a depth of multi-token prediction too
// ("mtp.0.qkv").
constexpr std::optional<LinearModule> linear_module(std::string_view name) {
  return from_word<LinearModule>(name.substr(name.rfind('.') + 1));
}

}  // namespace sim
