#include "sim/plan/lowering/stage_blocks.hpp"

#include <algorithm>
#include <utility>

namespace sim::lowering {
namespace {

int kept_pieces(const ShardedBlock& block) {
  int most = 0;
  for (const Replay& replay : block.kept.replays)
    most = std::max(most, replay.kept_pieces());
  return most;
}

class StageBlockMaker {
 public:
  explicit StageBlockMaker(const ShardedModel& model) : model_{model} {}

  void add_chunk(int global) {
    const Layout& layout = model_.layout;
    const auto at = static_cast<std::size_t>(global);
    Chunk& chunk = made_.chunks.emplace_back();
    chunk.global = static_cast<std::int16_t>(global);
    chunk.first_block = static_cast<std::uint32_t>(made_.blocks.size());
    if (global == 0) add_start();
    for (int layer = model_.first_layer[at]; layer < model_.first_layer[at + 1]; ++layer)
      add_layer(layer, layer - model_.first_layer[at]);
    if (global == layout.chunks() - 1 && model_.output) {
      StageBlock& output = add(*model_.output, -1, BlockPlace::output);
      output.is_output = true;
    }
    chunk.blocks = static_cast<std::uint32_t>(made_.blocks.size()) - chunk.first_block;
  }

  StageBlocks finish() {
    const auto micro_batches = static_cast<std::uint32_t>(model_.layout.micro_batches());
    for (Chunk& chunk : made_.chunks) {
      chunk.saved_base = made_.saved;
      made_.saved += chunk.saved * micro_batches;
    }
    return std::move(made_);
  }

 private:
  // What stands before the first layer. The first block that is trained hands no gradient on.
  void add_start() {
    const std::size_t begin = made_.blocks.size();
    if (model_.vision) add_vision(*model_.vision);
    if (model_.input) add(*model_.input, -1, BlockPlace::input);
    for (std::size_t i = begin; i < made_.blocks.size(); ++i) {
      if (made_.blocks[i].frozen) continue;
      made_.blocks[i].is_first = true;
      break;
    }
  }

  void add_vision(const ShardedModel::Vision& vision) {
    add(vision.patches, -1, BlockPlace::vision).frozen = !vision.trains_layers;
    for (std::size_t i = 0; i < vision.of_layer.size(); ++i) {
      StageBlock& layer = add(vision.of_layer[i], -1, BlockPlace::vision_layer);
      layer.frozen = !vision.trains_layers;
      layer.left_out = layer.frozen || !recomputes(model_.layout, static_cast<int>(i));
    }
    add(vision.projector, -1, BlockPlace::vision).frozen = !vision.trains_projector;
  }

  StageBlock& add(std::uint32_t shape, int layer, BlockPlace place) {
    StageBlock& block = made_.blocks.emplace_back();
    Chunk& chunk = made_.chunks.back();
    block.shape = shape;
    block.layer = static_cast<std::int16_t>(layer);
    block.place = place;
    block.chunk = static_cast<int>(made_.chunks.size()) - 1;
    block.first_op = ops_;
    block.first_saved = chunk.saved;
    const auto count = static_cast<std::uint32_t>(model_.blocks[shape].ops.size());
    ops_ += count;
    chunk.saved += count * static_cast<std::uint32_t>(1 + kept_pieces(model_.blocks[shape]));
    return block;
  }

  void add_layer(int layer, int of_chunk) {
    StageBlock& block =
        add(model_.of_layer[static_cast<std::size_t>(layer)], layer, BlockPlace::layer);
    block.is_first = layer == 0 && !model_.input;  // it has no input to keep
    block.left_out = block.is_first || !recomputes(model_.layout, of_chunk);
  }

  const ShardedModel& model_;
  StageBlocks made_;
  std::uint32_t ops_ = 0;
};

// The passes with the first and the last gradients of each chunk.
void find_gradients(const std::vector<Slot>& slots, SlotKind last, std::vector<Chunk>& chunks) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind != last) continue;
    Chunk& chunk = chunks[static_cast<std::size_t>(slots[i].chunk)];
    if (chunk.last_backward < 0) chunk.first_gradients = slots[i].microbatch;
    chunk.last_backward = static_cast<int>(i);
  }
}

}  // namespace

StageBlocks stage_blocks(const ShardedModel& model, const Placement& placement,
                         const std::vector<Slot>& slots, int stage) {
  StageBlockMaker maker{model};
  for (int local = 0; local < model.layout.virtual_stages; ++local)
    maker.add_chunk(placement.chunk_of(stage, local));
  StageBlocks made = maker.finish();
  const bool split = splits_backward(model.layout.schedule);
  find_gradients(slots, split ? SlotKind::weight_backward : SlotKind::backward, made.chunks);
  return made;
}

}  // namespace sim::lowering
