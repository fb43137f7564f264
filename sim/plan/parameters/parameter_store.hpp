// Parameters of a stage and the buckets in which their gradients are reduced.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/plan/lowering/lowering_context.hpp"
#include "sim/program/op_work.hpp"

namespace sim::lowering {

// Where parameters lie.
struct Place {
  std::int64_t elements = 0;
  std::uint32_t bucket = none;
  std::int64_t first = 0;
  int bytes_each = 0;  // as stored
};

// Parameters of an operator of the stage: its own, and the table that a tied head shares.
struct Parameters {
  Place own, table;  // the latter also of all that an operator shares with an earlier one
  std::uint32_t same_as = none;     // the operator of the stage that holds the table; none: a copy
  bool shared_over_stages = false;  // a table that the first and the last stage hold
  BufferId encoded{none};  // 8-bit copy, unless stored so, and its transpose, made once per step
  std::int64_t encoded_bytes = 0;
  std::int64_t frozen_bytes = 0;  // parameters that are not trained
  const Place& matrix() const { return table.elements > 0 ? table : own; }
  // Parameters that are no matrix: biases, scales of a norm.
  const Place& vector() const { return own.elements > 0 ? own : table; }
};

// CompressionPlan (compression_work.hpp) in the tables of the program.
struct CompressionWork {
  struct Exchange {
    std::uint32_t collective = none;
    Bytes message{}, came{};
    bool in_place = false;
  };
  std::uint32_t compress = none, recompress = none, decompress = none;
  std::vector<Exchange> exchanges;
  bool reads_gradient_again = false, keeps_first = false;
  bool exists() const { return compress != none; }
};

// Gradients that are reduced together: a bucket, or under ZeRO-3 a block.
struct Bucket {
  int chunk = 0;
  bool of_experts = false;
  int copies = 1, shards = 1;  // ranks with these parameters; those that share one copy
  std::uint32_t writers = 0;   // operators that write gradients into it, once per micro-batch each
  std::uint32_t pending = 0;   // writers not yet ready in this backward pass
  std::int64_t elements = 0, padded = 0;
  std::int64_t muon_elements = 0;  // of matrices that Muon updates
  // Numbers of Adafactor's moments; elements of tensors that are not kept in blocks
  // (optimizer_states.hpp).
  std::int64_t factored_numbers = 0, small_elements = 0;
  std::int64_t weight_bytes = 0;    // of all elements, padded
  std::int64_t frozen_bytes = 0;    // the part of weight_bytes that is not trained
  BufferId gradient{none};          // whole; ZeRO-2/3: alive until reduced
  BufferId gradient_shard{none};    // ZeRO-2/3
  BufferId weight{none};            // whole; ZeRO-3: while gathered
  BufferId weight_shard{none};      // ZeRO-3: what this rank owns of them
  BufferId optimizer{none};         // master weights and moments, or their shard
  bool holds_shared_table = false;  // and nothing else
  bool gathered = false;
  bool copied = false;  // out of the buffer of the gather
  bool keep_gathered = false;
  bool ready = false;  // ZeRO-0/1: all its gradients are there
  OpId weight_ready{none};
  std::uint32_t gather = none, reduce = none, replicate = none;      // collectives
  std::uint32_t copy = none;                                         // Execution::copies_weights
  std::uint32_t cast_out = none, cast_in = none, accumulate = none;  // kernels
  std::uint32_t cast_shard = none;                // to the wire, of the accumulated shard
  std::uint32_t first_block = 0, last_block = 0;  // of the stage, inclusive
  CompressionWork compression;
  BufferId residual{none};
  Bytes residual_bytes{};
  std::vector<MatrixPlace> matrices;
  // Layout::quantized_weights and secondary_shard: of a gather from the shards of all ranks, and of
  // one from the secondary shards of a node.
  struct Gather {
    std::uint32_t collective = none, quantize = none, dequantize = none;
    Bytes message{}, came{};
  };
  Gather quantized, secondary;
  // Layout::offload_optimizer: on the host, of so many of the elements that the rank owns.
  std::int64_t offloaded = 0;
  BufferId host_gradient{none}, host_states{none}, host_weight{none};
  // Layout::offload_parameters.
  bool fetched = false;       // the shard to gather next is on the device
  bool sums_on_host = false;  // gradients of this step are there
  OpId shard_ready{none};
  std::uint32_t exchange = none;  // a kernel: Layout::servers
  // Layout::local_steps.
  int fragment = 0;
  BufferId outer{none}, outer_message{none};
  OpId averaged{none};
  std::uint32_t keep_secondary = none;
  BufferId weight_secondary{none};
  bool has_secondary = false;  // since the forward pass of this micro-batch
  // ZeRO-3: the unit of the same block that another group shares, of experts or of the rest.
  std::uint32_t partner = none;
  bool stays = false;    // ZeRO-2/3: nobody else has it; a kernel takes gradients to the shard
  bool outside = false;  // ZeRO-3: nobody else has it, and no unit is made of it
  // To other ranks, to servers, or to the shard.
  bool travels() const { return reduce != none || exchange != none || stays; }
};

struct ParameterStore {
  std::vector<Parameters> parameters;  // by operator of the stage
  std::vector<Site> sites;             // the same for those who execute the program
  std::vector<Bucket> buckets;         // in the order of their reduction
  std::vector<std::vector<std::uint32_t>> units_of_block;  // ZeRO-3: its buckets
};

// Buckets with gradients. Under ZeRO-3 with adapters there are units without.
std::vector<std::reference_wrapper<const Bucket>> trained_buckets(const ParameterStore& store);

// Elements of a bucket that a rank owns.
std::int64_t shard_of(const Bucket& bucket);
// Elements of the shard that Adam updates beside Muon.
std::int64_t rest_of_muon(const Bucket& bucket);
// Whether buckets of gradients lie beside these (Execution::ddp_buckets).
bool has_bucket_copies(const LoweringContext& context);
// Whether its gradients are reduced to the rank that owns them; else every rank has all.
bool scatters_gradients(const LoweringContext& context, const Bucket& bucket);

}  // namespace sim::lowering
