// The memory of a program: buffers, who uses them and how, and where parameters lie.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/program/operators.hpp"

namespace sim {

enum class BufferCategory : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  gathered_parameters,
  communication,
};
constexpr auto words_of(BufferCategory) {
  return std::array{Word{BufferCategory::weights, "weights"},
                    Word{BufferCategory::gradients, "gradients"},
                    Word{BufferCategory::optimizer, "optimizer"},
                    Word{BufferCategory::activations, "activations"},
                    Word{BufferCategory::gathered_parameters, "gathered_parameters"},
                    Word{BufferCategory::communication, "communication"}};
}
inline constexpr int buffer_category_count = 6;

struct Buffer {
  Bytes size{};
  BufferCategory category = BufferCategory::activations;
  bool persistent = false;
  int tensors = 1;  // equal ones, that a framework has in its place
  Bytes host{};     // of one in the host's memory, whose size on the device is 0
};

// RecordedStreams: the operators whose buffers other streams record (torch.Tensor.record_stream).
// These are free when the device is done with them there.
enum class RecordedStreams : std::uint8_t {
  none,
  tensor,    // collectives within layers
  exchange,  // of tokens, beside compute; what it makes is of its own stream
};

// How a framework holds memory: for the replay of its allocator (caching_allocator.hpp).
struct Allocation {
  bool expandable = false;          // segments that grow (expandable_segments:True)
  Bytes max_split_size{};           // of blocks that are split (max_split_size_mb); 0: any
  bool copies_gathered = false;     // FSDP2 (gathered_units.hpp)
  bool flat_parameters = false;     // the first FSDP (flat_units.hpp)
  bool separate_gradients = false;  // each parameter's made by its first backward pass
  // Each parameter has a tensor of its own until all are copied into one buffer.
  bool moved_parameters = false;
  bool parameter_buffers = false;  // Megatron-LM (parameter_buffers.hpp)
  RecordedStreams recorded = RecordedStreams::none;
  int held_logits = 0;   // Execution::held_logits
  int loss_metrics = 0;  // Execution::loss_metrics
  bool master_weights = true;
  std::int64_t master_bytes = 4, moment_bytes = 8;  // per parameter, of the optimizer's state
  // The part of an optimizer state that is not masters; those are there from the start.
  Bytes moments_of(Bytes state) const {
    const std::int64_t each = master_bytes + moment_bytes;
    return each == 0 ? Bytes{} : Bytes{state.count() / each * moment_bytes};
  }
};

enum class Access : std::uint8_t { read, write, free };
struct BufferUse {
  BufferId buffer;
  Access access = Access::read;
  Role role = Role::state;
  // The part of a tensor that comes or goes in parts; `whole`: all of it. Uses of different parts
  // need no order.
  static constexpr std::int16_t whole = -1;
  std::int16_t part = whole;
};

// BlockPlace is the place of a block in its model; vision: around the layers of a vision encoder,
// vision_layer: one of them.
enum class BlockPlace : std::uint8_t { input, layer, output, vision, vision_layer };
// A model operator on this stage and where its parameters lie: weights [out, in] or table rows,
// then biases (norms: scale, shift), contiguous in a bucket.
struct Site {
  BlockPlace place = BlockPlace::layer;
  std::int16_t layer = -1;            // of the model
  std::int16_t op = 0;                // index into Block::ops
  std::uint32_t bucket = UINT32_MAX;  // of the parameters; a tied head: that of the table
  std::int64_t first = 0;             // element of the bucket where they begin
  std::int64_t elements = 0;          // a tied head: those of the table
  // Those whose gradient each tensor rank has only in part, summed once per step.
  std::int64_t summed_first = 0, summed = 0;
  std::int64_t tensors = 1;  // equal ones, that a framework has in its place: of experts
  bool tied = false;         // shares the table of another operator, on this stage or the first one
};

// A matrix of a bucket that is sent as two factors.
struct MatrixPlace {
  std::int64_t first = 0;  // element of the bucket
  std::int64_t rows = 0, columns = 0;
};

// Parameters that are reduced and gathered together: flat, padded to a multiple of the ranks that
// share it. A rank owns elements [i * padded / shards, (i + 1) * padded / shards), i its index in
// the shard group; with one shard, all. Nothing writes the padding of a gradient: what reads owned
// elements one by one (norm, Adam) leaves it out.
struct ParameterBucket {
  std::int64_t elements = 0;
  std::int64_t padded = 0;
  int shards = 1;                     // ranks that share them; of experts fewer than of others
  bool of_experts = false;            // those that have them are GroupRole::expert_data, else data
  BufferId weight{UINT32_MAX};        // padded elements; ZeRO-3: while gathered
  BufferId weight_shard{UINT32_MAX};  // ZeRO-3
  // ZeRO-0/1: padded elements, persistent. ZeRO-2/3: named by the operators that use it
  BufferId gradient{UINT32_MAX};
  BufferId gradient_shard{UINT32_MAX};  // ZeRO-2/3
  BufferId optimizer{UINT32_MAX};  // fp32 of the owned elements: [master,] m, v, each contiguous
  // Layout::offload_optimizer: on the host, of the last of the owned elements.
  BufferId host_gradient{UINT32_MAX}, host_states{UINT32_MAX}, host_weight{UINT32_MAX};
  BufferId weight_secondary{UINT32_MAX};  // Layout::secondary_shard
  // Layout::local_steps: fp32 of the owned elements: parameters, momentum; who meets with whom.
  BufferId outer{UINT32_MAX};
  int fragment = 0;
  // The residual: state that compression keeps from step to step, in fp32. For each element, what
  // was not sent; one_bit adds the same for the elements that this rank averages, behind; power_sgd
  // adds the second factors, behind.
  BufferId residual{UINT32_MAX};
  std::vector<MatrixPlace> matrices;  // of power_sgd
};

}  // namespace sim
