// All blocks of a model, as one rank runs them. Where micro-batches differ by the lengths of their
// sequences, those of each kind. Pieces of a micro-batch are a kind of their own.
#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/base/rounding.hpp"
#include "sim/model/key_heads.hpp"
#include "sim/plan/sharding/parts.hpp"
#include "sim/plan/sharding/vision.hpp"

namespace sim {
namespace {

auto shape_of(const ModelOp& op) {
  return std::make_tuple(op.kind, op.split, op.function, op.residual_of, op.starts_from, op.experts,
                         op.per_token, op.in_place, op.backward_reads_output, op.in_features,
                         op.out_features, op.weights, op.biases, op.streams, op.tied_to_embedding,
                         op.shares_with, op.sixteen_bits, op.once_per_sequence, op.products,
                         op.window, op.piece, op.kv_heads, op.top_keys, op.reuses_choice,
                         op.splits_parameters, op.forward_elements, op.backward_elements,
                         op.saved_elements, op.saved_fixed_bytes, op.saved_input_elements,
                         op.forward_flops.count(), op.backward_flops.count());
}

bool same_block(const Block& a, const Block& b) {
  if (a.ops.size() != b.ops.size() || a.output_elements != b.output_elements || a.name != b.name) {
    return false;
  }
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    if (shape_of(a.ops[i]) != shape_of(b.ops[i]) || a.ops[i].name != b.ops[i].name) return false;
  }
  return true;
}

struct DistinctBlock {
  const Layout* layout = nullptr;  // the format of its products
  std::uint32_t index = 0;         // among the sharded blocks
};

bool is_bf16_layer(const Layout& layout, std::size_t layer, std::size_t layers) {
  return std::cmp_less(layer, layout.first_bf16_layers) ||
         layer + static_cast<std::size_t>(layout.last_bf16_layers) >= layers;
}

// All of it for micro-batches of one kind, behind what is there.
class KindSharding {
 public:
  KindSharding(Region region, ShardedModel& sharded) : region_{region}, sharded_{sharded} {
    sixteen_bit_ = *region.layout;  // of layers whose products are not cast
    sixteen_bit_.compute_dtype = region.layout->activation_dtype;
  }

  void add_blocks() {
    const Model& model = *region_.model;
    const Layout& layout = *region_.layout;
    if (!model.input.ops.empty()) sharded_.input = add(model.input);
    std::vector<DistinctBlock> distinct;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layout* of_layer =
          is_bf16_layer(layout, i, model.layers.size()) ? &sixteen_bit_ : &layout;
      const auto like = [&](const DistinctBlock& earlier) {
        return earlier.layout == of_layer &&
               same_block(model.layers[i], *sharded_.blocks[earlier.index].block);
      };
      const auto before = std::find_if(distinct.begin(), distinct.end(), like);
      region_.layout = of_layer;
      sharded_.of_layer.push_back(before != distinct.end() ? before->index : add(model.layers[i]));
      if (before == distinct.end()) distinct.push_back({of_layer, sharded_.of_layer.back()});
    }
    region_.layout = &layout;
    if (!model.output.ops.empty()) sharded_.output = add(model.output);
    if (runs_vision(model, layout)) add_vision(model.vision.front());
  }

 private:
  // A micro-batch of the encoder's layout has so many tokens of each image.
  void turn_to_images(const Model& encoder, const Layout& layout, std::int64_t tokens) {
    region_.model = &encoder;
    region_.layout = &layout;
    region_.row = tokens;
    region_.attended = 0;
    region_.tokens = region_.sequence_tokens = layout.micro_batch * tokens;
  }

  void add_vision(const Model& encoder) {
    const Layout& language = *region_.layout;
    const Layout layout = vision_layout(*region_.model, language);
    const std::int64_t merged = tokens_of_image(*region_.model, language);
    ShardedModel::Vision& vision = sharded_.vision.emplace();
    vision.trains_layers = !language.freeze_vision_model;
    vision.trains_projector = !language.freeze_vision_projection;
    turn_to_images(encoder, layout, layout.sequence_length);
    const auto add_encoder = [&](const Block& block) {
      const std::uint32_t index = add(block);
      if (!vision.trains_layers) freeze_forward(sharded_.blocks[index]);
      return index;
    };
    vision.patches = add_encoder(encoder.input);
    for (const Block& layer : encoder.layers) {
      const auto like = [&](std::uint32_t earlier) {
        return same_block(layer, *sharded_.blocks[earlier].block);
      };
      const auto before = std::ranges::find_if(vision.of_layer, like);
      const std::uint32_t index = before != vision.of_layer.end() ? *before : add_encoder(layer);
      vision.of_layer.push_back(index);
    }
    turn_to_images(encoder, layout, merged);
    vision.projector = add(encoder.output);
    if (!vision.trains_projector) freeze_forward(sharded_.blocks[vision.projector]);
  }

  std::uint32_t add(const Block& block) {
    sharded_.blocks.push_back(shard_block(region_, block));
    return static_cast<std::uint32_t>(sharded_.blocks.size() - 1);
  }

  Region region_;
  ShardedModel& sharded_;
  Layout sixteen_bit_;
};

// With rows of `load.tokens` tokens in sequences of `load.attended`.
Region region_of(const Region& whole, const MicroBatchLoad& load) {
  Region region = whole;
  region.row = load.tokens;
  region.attended = load.attended;
  region.tokens = region.layout->micro_batch * region.held();
  region.sequence_tokens =
      region.layout->sequence_parallel ? region.tokens / region.tensor : region.tokens;
  return region;
}

// Blocks for each kind of micro-batch that differs by the lengths of its sequences.
std::vector<MicroBatchLoad> shard_kinds(const Region& region,
                                        const std::vector<MicroBatchLoad>& batches,
                                        ShardedModel& sharded) {
  std::vector<MicroBatchLoad> kinds;
  for (const MicroBatchLoad& load : batches) {
    auto kind = std::find(kinds.begin(), kinds.end(), load);
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), load);
      ShardedModel more;
      KindSharding{region_of(region, load), more}.add_blocks();
      if (sharded.blocks.empty()) {
        sharded.of_layer = more.of_layer;
        sharded.input = more.input;
        sharded.output = more.output;
        sharded.vision = more.vision;
        sharded.blocks_of_kind = static_cast<std::uint32_t>(more.blocks.size());
      }
      sharded.blocks.insert(sharded.blocks.end(), more.blocks.begin(), more.blocks.end());
    }
    sharded.kind_of_microbatch.push_back(static_cast<std::uint32_t>(kind - kinds.begin()));
  }
  sharded.whole_kinds = static_cast<std::uint32_t>(kinds.size());
  return kinds;
}

// Where sequences are of the data, pieces have a token more than there are at most.
MicroBatchLoad piece_of(const MicroBatchLoad& load, int pieces, int context) {
  const std::int64_t tokens = round_up(divide_up(load.tokens, pieces), std::int64_t{context});
  return {tokens, static_cast<double>(tokens)};
}

// Blocks for a piece of each kind of micro-batch (Layout::mlp_tiles, loss_chunks), the last kinds.
void shard_pieces(const Region& region, const std::vector<MicroBatchLoad>& kinds,
                  ShardedModel& sharded) {
  for (const int pieces : {region.layout->mlp_tiles, region.layout->loss_chunks}) {
    if (pieces == 1 || std::ranges::count(sharded.pieces, pieces) > 0) continue;
    sharded.pieces.push_back(pieces);
    for (const MicroBatchLoad& kind : kinds) {
      ShardedModel more;
      const MicroBatchLoad load = piece_of(kind, pieces, region.layout->context_parallel);
      KindSharding{region_of(region, load), more}.add_blocks();
      sharded.blocks_of_kind = static_cast<std::uint32_t>(more.blocks.size());
      sharded.blocks.insert(sharded.blocks.end(), more.blocks.begin(), more.blocks.end());
    }
  }
}

}  // namespace

ShardedModel shard(const Model& given, const Layout& layout,
                   const std::vector<MicroBatchLoad>& batches) {
  ShardedModel sharded;
  if (shares_key_heads(given, layout.tensor_parallel))
    sharded.shared_keys =
        std::make_shared<const Model>(with_shared_key_heads(given, layout.tensor_parallel));
  const Model& model = sharded.shared_keys ? *sharded.shared_keys : given;
  Region region{&model, &layout};
  region.tensor = layout.tensor_parallel;
  region.element = bytes_of(layout.activation_dtype);
  region.row = model.is_layer_list ? layout.context_parallel : layout.sequence_length;
  region.tokens = layout.micro_batch * region.held();
  region.sequence_tokens = layout.sequence_parallel ? region.tokens / region.tensor : region.tokens;
  const ExpertShares shares = expert_shares(layout, model);
  region.shares = &shares;
  region.share = &shares.paced;
  sharded.model = &model;
  sharded.layout = layout;
  std::vector<MicroBatchLoad> kinds{{region.row, static_cast<double>(region.row)}};
  if (batches.empty())
    KindSharding{region, sharded}.add_blocks();
  else
    kinds = shard_kinds(region, batches, sharded);
  shard_pieces(region, kinds, sharded);
  sharded.first_layer.push_back(0);
  for (const int count : layers_of_chunks(layout, model.layers.size())) {
    sharded.first_layer.push_back(sharded.first_layer.back() + count);
  }
  return sharded;
}

}  // namespace sim
