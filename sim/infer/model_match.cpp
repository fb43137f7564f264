#include "sim/infer/model_match.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/config/data_files.hpp"

namespace sim {
namespace {

using Features = std::pair<std::int64_t, std::int64_t>;  // ascending
using Widths = std::map<Features, std::int64_t>;         // how often in the model

// Frameworks differ in which products are one: queries, keys and values; gate and up.
struct Fusion {
  bool attention = true, mlp = true;
};
constexpr std::array fusions{Fusion{true, true}, Fusion{false, false}, Fusion{true, false},
                             Fusion{false, true}};

// A layer's products and its gradients are counted exactly; a share of them may be missing where
// the profiler began late.
constexpr double count_tolerance = 0.02;

// Pipeline stages are: the head runs once for each micro-batch, a model's layers that often over
// the stages.
bool is_whole(double stages) {
  return stages > 0.5 && std::abs(stages / std::round(stages) - 1) <= count_tolerance;
}

class ModelWidths {
 public:
  ModelWidths(const Model& model, int tensor, Fusion fusion) : tensor_{tensor} {
    for (const Block& layer : model.layers)
      for (const ModelOp& op : layer.ops)
        if (op.kind == ModelOpKind::linear && op.experts == 0) add(model, op, fusion);
    for (const ModelOp& op : model.output.ops)
      if (op.kind == ModelOpKind::linear && op.split == TensorSplit::vocabulary)
        head_ = op.in_features;
  }

  bool divides() const { return divides_; }
  const Widths& layers() const { return layers_; }
  std::int64_t head_features() const { return head_; }

 private:
  void add(const Model& model, const ModelOp& op, Fusion fusion) {
    std::int64_t in = op.in_features, out = op.out_features;
    if (op.split == TensorSplit::column) {
      const std::int64_t queries = model.attention.heads * model.attention.head_dim;
      const std::int64_t keys = model.attention.kv_heads * model.attention.head_dim;
      if (op.name == "qkv" && !fusion.attention && queries + 2 * keys == out) {
        split_column(in, queries, 1);
        return split_column(in, keys, 2);
      }
      if (op.name == "mlp_up" && !fusion.mlp && out == 2 * model.feed_forward)
        return split_column(in, model.feed_forward, 2);
      return split_column(in, out, 1);
    }
    if (op.split == TensorSplit::row) in = divided(in);
    insert(in, out, 1);
  }

  void split_column(std::int64_t in, std::int64_t out, std::int64_t times) {
    insert(in, divided(out), times);
  }

  void insert(std::int64_t in, std::int64_t out, std::int64_t times) {
    layers_[{std::min(in, out), std::max(in, out)}] += times;
  }

  std::int64_t divided(std::int64_t features) {
    divides_ = divides_ && features % tensor_ == 0;
    return features / tensor_;
  }

  int tensor_;
  bool divides_ = true;
  Widths layers_;
  std::int64_t head_ = 0;
};

const ObservedLinear* linear_of(const ObservedWork& work, Features features) {
  for (const ObservedLinear& linear : work.linears)
    if (linear.narrow == features.first && linear.wide == features.second) return &linear;
  return nullptr;
}

// Vocabularies are padded to a multiple of 128 times the tensor ranks (Megatron-LM,
// --make-vocab-size-divisible-by), of 64 or 128 in other trainers, or not at all; the head is split
// over the tensor ranks, or not.
const ObservedLinear* head_of(const ObservedWork& work, const Model& model, int tensor) {
  const std::int64_t rows = model.vocabulary;
  for (const std::int64_t of :
       {round_up(rows, std::int64_t{128} * tensor) / tensor, divide_up(rows, std::int64_t{tensor}),
        rows, round_up(rows, std::int64_t{128}), round_up(rows, std::int64_t{64})})
    for (const ObservedLinear& linear : work.linears)
      if (linear.narrow == std::min(model.hidden, of) && linear.wide == std::max(model.hidden, of))
        return &linear;
  return nullptr;
}

std::optional<ModelMatch> match_of(const ObservedWork& work, const std::string& name,
                                   const Model& model, int tensor, Fusion fusion) {
  const ModelWidths widths{model, tensor, fusion};
  if (!widths.divides() || widths.layers().empty()) return std::nullopt;
  ModelMatch match{.model = name, .tensor_parallel = tensor};
  double explained = 0;
  std::int64_t gradients = 0, products = 0;
  for (const auto& [features, times] : widths.layers()) {
    const ObservedLinear* const linear = linear_of(work, features);
    if (!linear || linear->gradients == 0) return std::nullopt;
    explained += linear->flops;
    if (linear->all_alike) continue;
    const double repeats = static_cast<double>(linear->gradients) / static_cast<double>(times);
    if (match.repeats > 0 && std::abs(repeats / match.repeats - 1) > count_tolerance)
      return std::nullopt;
    match.repeats = repeats;
    gradients += linear->gradients;
    products += linear->products;
  }
  if (match.repeats == 0) return std::nullopt;
  if (const ObservedLinear* const head = head_of(work, model, tensor)) {
    match.head = static_cast<double>(head->gradients);
    explained += head->flops;
  }
  if (match.head > 0 && !is_whole(match.head / match.repeats)) return std::nullopt;
  double observed = 0;
  for (const ObservedLinear& linear : work.linears)
    observed += linear.flops;
  match.share = observed > 0 ? explained / observed : 0;
  match.recomputed = products >= gradients * 7 / 2;
  return match;
}

}  // namespace

std::vector<ShippedModel> shipped_models() {
  std::vector<ShippedModel> models;
  for (const std::string& name : data_files("models")) {
    try {
      Model model = load_model(find_data_file("models", name));
      if (model.has_vision()) continue;  // its language model is shipped apart
      models.push_back({name, std::move(model)});
    } catch (const InputError&) {
      continue;  // what is shipped and cannot be read fails elsewhere
    }
  }
  return models;
}

std::vector<ModelMatch> matching_models(const ObservedWork& work,
                                        const std::vector<ShippedModel>& models, int most_tensor) {
  constexpr double least_share = 0.9;
  std::vector<ModelMatch> matches;
  for (const ShippedModel& shipped : models) {
    for (int tensor = 1; tensor <= most_tensor; tensor *= 2)
      for (const Fusion fusion : fusions) {
        const std::optional<ModelMatch> match =
            match_of(work, shipped.name, shipped.model, tensor, fusion);
        if (!match || match->share < least_share) continue;
        matches.push_back(*match);
        break;
      }
  }
  std::stable_sort(matches.begin(), matches.end(), [](const ModelMatch& a, const ModelMatch& b) {
    return std::tuple{-std::round(a.share * 1e6), a.head == 0, a.tensor_parallel} <
           std::tuple{-std::round(b.share * 1e6), b.head == 0, b.tensor_parallel};
  });
  return matches;
}

}  // namespace sim
