// Checks of images and of the vision encoder in front of a language model (rules/vision.md).
#include <algorithm>

#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/vision.hpp"

namespace sim {
namespace {

constexpr double most_elements_of_images = 1e15;  // of one tensor: far below the range of 64 bits

class VisionChecker {
 public:
  VisionChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (layout_.images == 0) return without_images();
    if (!model_.has_vision())
      return list_.problem("images", "images is {}, but {} has no vision encoder; allowed: 0",
                           layout_.images, model_.name);
    frozen();
    tensor();
    others();
    tokens();
  }

 private:
  const VisionEncoder& vision() const { return model_.shape->vision; }

  void without_images() {
    const auto goes_with_images = [&](const char* key, bool given) {
      if (given) list_.problem(key, "{} goes with images, which is 0", key);
    };
    goes_with_images("image_tokens", layout_.image_tokens > 0);
    goes_with_images("freeze_vision_model", layout_.freeze_vision_model);
    goes_with_images("freeze_vision_projection", layout_.freeze_vision_projection);
  }

  void tokens() {
    const std::int64_t tokens = tokens_of_image(model_, layout_);
    if (tokens == 0)
      return list_.problem("image_tokens",
                           "image_tokens is 0, and the encoder of {} takes images of any size; "
                           "allowed: 1 or more",
                           model_.name);
    if (layout_.images > layout_.sequence_length / tokens)
      return list_.problem("images",
                           "images is {}, of {} tokens each; a sequence has {} tokens; allowed: up "
                           "to {}",
                           layout_.images, tokens, layout_.sequence_length,
                           layout_.sequence_length / tokens);
    const double patches = static_cast<double>(layout_.micro_batch) *
                           static_cast<double>(layout_.images) *
                           static_cast<double>(vision().patches_of(tokens));
    const std::int64_t deepstack = std::max<std::int64_t>(1, vision().projector.deepstack);
    const double widest = static_cast<double>(
        std::max({4 * vision().hidden, 2 * vision().feed_forward, deepstack * vision().hidden}));
    if (patches * widest > most_elements_of_images)
      list_.problem("images", "a micro-batch of images has a tensor of more than 1e15 elements");
  }

  void frozen() {
    if (layout_.freeze_vision_projection && !layout_.freeze_vision_model)
      list_.problem("freeze_vision_projection",
                    "freeze_vision_projection is true and freeze_vision_model false: gradients "
                    "through a frozen projector are not modelled; allowed: false");
  }

  // Linears in pairs, of which the first one's outputs are divided.
  void tensor() {
    const int t = layout_.tensor_parallel;
    std::int64_t common = std::gcd(vision().heads, vision().feed_forward);
    const Projector& projector = vision().projector;
    for (std::size_t i = 0; i < projector.widths.size(); i += 2)
      common = std::gcd(common, projector.widths[i]);
    if (projector.deepstack > 0)
      common = std::gcd(common, projector.deepstack * vision().merged() * vision().hidden);
    if (common % t == 0) return;
    list_.problem("tensor_parallel",
                  "tensor_parallel is {}, which does not divide the heads, the MLP and the "
                  "projector of the vision encoder; allowed: {}",
                  t, LayoutProblemList::divisors_of({common}));
  }

  void refuse(const char* key, bool given, const char* what) {
    if (given) list_.problem(key, "{}: not modelled with images", what);
  }

  void others() {
    const bool trains = !layout_.freeze_vision_model || !layout_.freeze_vision_projection;
    refuse("packing.lengths", layout_.has_lengths(), "packing.lengths");
    refuse("overlap.expert_exchange", layout_.overlap_expert_exchange, "overlap.expert_exchange");
    refuse("optimizer", trains && layout_.optimizer == OptimizerKind::muon, "optimizer muon");
    refuse("lora.base", layout_.frozen_format != FrozenFormat::as_trained,
           "frozen weights in fewer bits");
    if (trains && layout_.trains_adapters())
      list_.problem("freeze_vision_model",
                    "adapters are trained beside a vision encoder that is; allowed with lora: "
                    "freeze_vision_model true and freeze_vision_projection true");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_vision(const Layout& layout, const Model& model, LayoutProblemList& list) {
  VisionChecker{layout, model, list}.run();
}

}  // namespace sim
