#include "real/engine/kernels/routed_layout.hpp"

#include <algorithm>

namespace real {

// At most as many of the k choices of a token come to a rank as it has experts.
sim::Layout with_room_for_all(sim::Layout layout, const sim::Model& model) {
  if (!model.has_experts()) return layout;
  const sim::Layout plain;
  layout.expert_load = plain.expert_load;
  layout.expert_load_cv = plain.expert_load_cv;
  layout.expert_load_seed = plain.expert_load_seed;
  const sim::Experts& experts = model.shape->experts;
  const std::int64_t held = experts.count / layout.expert_parallel;
  layout.expert_imbalance =
      static_cast<double>(layout.expert_parallel * std::min(held, experts.per_token)) /
      static_cast<double>(experts.per_token);
  return layout;
}

}  // namespace real
