// The fields of a Hugging Face config.json, and what a mixture of experts and latent attention read
// of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/model/hugging_face/hugging_face_architecture.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

// Reads a field that has had several names; the first is the one that errors speak of.
class HuggingFaceFields {
 public:
  explicit HuggingFaceFields(const ObjectReader& in) : in_{in} {}

  using Names = std::initializer_list<const char*>;

  std::int64_t size(Names names, std::int64_t most, std::int64_t least = 1) const {
    return in_.integer(key_of(names), {.min = least, .max = most});
  }
  std::int64_t size_or(Names names, std::int64_t fallback, std::int64_t most) const {
    return in_.integer_or(key_of(names), fallback, {.min = 1, .max = most});
  }
  double dropout(Names names, double fallback) const {
    return in_.real_or(key_of(names), fallback, {.min = 0, .max = 1});
  }
  bool flag(const char* name, bool fallback) const { return in_.boolean_or(name, fallback); }
  // Written, as null: elsewhere that means absent; here, that there is no such part.
  bool is_null(const char* name) const {
    const std::vector<std::string> keys = in_.keys();
    return !in_.has(name) && std::find(keys.begin(), keys.end(), name) != keys.end();
  }
  const ObjectReader& in() const { return in_; }

 private:
  const char* key_of(Names names) const {
    const char* found = nullptr;
    for (const char* name : names) {
      if (!in_.has(name)) continue;
      if (found == nullptr) {
        found = name;
      } else if (in_.at(name).peek_text() != in_.at(found).peek_text()) {
        in_.problem(name, fmt::format("\"{}\" and \"{}\" are two names of one field and differ",
                                      name, found));
      }
    }
    return found == nullptr ? *names.begin() : found;
  }

  const ObjectReader& in_;
};

// REQUIRES: the layers of `shape` are read.
void read_mixtral_experts(const HuggingFaceFields& fields, TransformerShape& shape);
void read_qwen3_experts(const HuggingFaceFields& fields, TransformerShape& shape);
void read_deepseek_experts(const HuggingFaceFields& fields, TransformerShape& shape);
void read_gpt_oss_experts(const HuggingFaceFields& fields, TransformerShape& shape);
// Reads the width of the layers without experts, too.
void read_llama4_experts(const HuggingFaceFields& fields, TransformerShape& shape);
// The layers that have experts by decoder_sparse_step and mlp_only_layers; reads all other keys of
// experts.
std::vector<bool> read_qwen_experts(const HuggingFaceFields& fields, TransformerShape& shape);
// Records what is wrong with layers that differ at the key that says them.
inline void check_hybrid_layers(const ObjectReader& in, const char* key,
                                const TransformerShape& shape) {
  if (const std::string problem = hybrid_problem(shape); !problem.empty()) in.problem(key, problem);
}
// Families whose layers differ (hugging_face_hybrid.cpp, hugging_face_nas.cpp).
void read_nemotron_h(const HuggingFaceFields& fields, TransformerShape& shape,
                     std::vector<std::string>& notes);
void read_nemotron_nas(const HuggingFaceFields& fields, TransformerShape& shape,
                       std::vector<std::string>& notes);
void read_mamba2(const HuggingFaceFields& fields, TransformerShape& shape);
void read_falcon_h1(const HuggingFaceFields& fields, TransformerShape& shape);
void read_bamba(const HuggingFaceFields& fields, HuggingFaceFamily family, TransformerShape& shape);
// REQUIRES: all but the kinds of layers is read.
void read_qwen3_next(const HuggingFaceFields& fields, const std::vector<bool>& with_experts,
                     TransformerShape& shape);
// The window of the layers that have one.
void read_window(const HuggingFaceFields& fields, HuggingFaceFamily family,
                 TransformerShape& shape);
// The families that are made like Llama: all with rotary positions. Notes what is not in the file.
void read_llama_like(const HuggingFaceFields& fields, HuggingFaceFamily family,
                     TransformerShape& shape, std::vector<std::string>& notes);
// The activation of an MLP without a gate; below, of one with a gate.
Activation plain_activation(const ObjectReader& in, const char* key, const char* fallback);
Activation gated_activation(const ObjectReader& in, const char* key, const char* fallback);
// Heads of the width of head_dim, or of hidden / heads.
void read_head_dim(const HuggingFaceFields& fields, HuggingFaceFields::Names heads_key,
                   TransformerShape& shape);
// REQUIRES: the heads of `shape` are read.
void read_deepseek_attention(const HuggingFaceFields& fields, TransformerShape& shape);
void read_deepseek_indexer(const HuggingFaceFields& fields, TransformerShape& shape);

// Whether a wrapper has a vision encoder that is read; and that encoder, if so.
// REQUIRES: the width of the language model is read.
bool reads_vision(const ObjectReader& root);
void read_hugging_face_vision(const ObjectReader& root, TransformerShape& shape);

}  // namespace sim
