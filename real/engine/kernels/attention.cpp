#include "real/engine/kernels/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace real {

const Attention& attention_for(const kernels::AttentionShape& shape, Attentions attentions) {
  const auto found = std::find_if(attentions.begin(), attentions.end(),
                                  [&](const Attention* one) { return one->takes(shape); });
  if (found != attentions.end()) return **found;
  std::string names;
  for (const Attention* one : attentions)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one->name());
  throw std::runtime_error(fmt::format(
      "no kernel takes attention of {} heads of {} elements, {} key/value heads, {} tokens in a "
      "sequence, {}{}; there are: {}",
      shape.heads.heads, shape.heads.head_dim, shape.heads.kv_heads, shape.heads.sequence,
      shape.causal ? "causal" : "not causal", shape.fused ? "" : ", not fused", names));
}

}  // namespace real
