// Gradient buckets.
//
// Sources: Li et al. 2020, "PyTorch Distributed" (buckets in reverse order, a smaller first one);
// Rajbhandari et al. 2020 (ZeRO 1-3); Zhao et al. 2023 (FSDP: units, prefetch, hybrid sharding);
// Megatron-LM, core/distributed/param_and_grad_buffer.py (overlap of ZeRO-1 reductions and
// gathers).
#include "sim/plan/parameters/parameter_layout.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/rounding.hpp"
#include "sim/framework/bucket_sizes.hpp"
#include "sim/plan/parameters/muon.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/low_rank.hpp"

namespace sim::lowering {
namespace {

// Bytes of a weight that is cast: `orders` copies of it, and the scales of both orders.
std::int64_t encoded_bytes(const ShardedOp& op, int orders) {
  const auto elements = static_cast<double>(op.encoded_elements);
  return std::llround(elements * (orders * op.weight_element + 2 * op.weight_scale_bytes));
}

}  // namespace

// How many orders of a weight that is cast are kept beside it. Where parameters have 4 bits
// themselves, what is stored holds both.
int ParameterLayout::orders_beside(const ModelOp& op, bool quantized_parameters,
                                   bool both_orders) const {
  const DType format = format_of(op, layout_);
  const bool packed = quantized_parameters && format == DType::nvfp4;
  const bool read_as_stored =
      keeps_one_order(runs_, format) ||
      (layout_.trains_adapters() && layout_.frozen_orders == FrozenOrders::one);
  if (both_orders || packed) return 0;
  return (quantized_parameters ? 0 : 1) + (read_as_stored ? 0 : 1);
}

// Bytes of an operator's parameters that are not trained, in the format in which they are kept.
std::int64_t ParameterLayout::frozen_bytes(const ShardedOp& op, int bytes_each) const {
  double each = bytes_each;
  if (layout_.frozen_format == FrozenFormat::nf4 && is_linear_of_layer(*op.op)) each = nf4_bytes;
  if (layout_.frozen_format == FrozenFormat::int8 && is_linear_of_layer(*op.op))
    each = int8_bytes(op.op->in_features);
  return std::llround(static_cast<double>(op.frozen_parameters) * each);
}

void ParameterLayout::make_parameters() {
  std::uint32_t table = none;  // the operator that holds the embedding
  const bool over_stages = !context_.placement.ends_where_it_begins();
  for (const StageBlock& block : context_.blocks) {
    for (const ShardedOp& op : model_.blocks[block.shape].ops) {
      Parameters& parameters = store_.parameters.emplace_back();
      parameters.own.elements = op.parameters;
      parameters.own.bytes_each = bytes_of(layout_.activation_dtype);
      parameters.table.bytes_each = parameters.own.bytes_each;
      const bool eight_bits = op.encoded_elements > 0 && stores_format_of_products(*op.op, layout_);
      // Both orders take the place of 16 bits where these are what is gathered.
      const bool both_orders =
          eight_bits && gathers_sixteen_bits(runs_, format_of(*op.op, layout_));
      if (eight_bits && !both_orders) parameters.own.bytes_each = bytes_of(DType::fp8);
      parameters.frozen_bytes = frozen_bytes(op, parameters.own.bytes_each);
      if (op.adapter) parameters.own.bytes_each = bytes_of(layout_.activation_dtype);
      if (op.encoded_elements > 0 && !op.encodes_weight_each_time && op.op->shares_with < 0 &&
          !op.op->tied_to_embedding)
        parameters.encoded_bytes =
            encoded_bytes(op, orders_beside(*op.op, eight_bits, both_orders));
      if (op.op->kind == ModelOpKind::embedding && table == none) {
        table = static_cast<std::uint32_t>(store_.parameters.size() - 1);
        parameters.shared_over_stages =
            model_.model->tied_embedding && over_stages && !layout_.trains_adapters();
      }
      if (op.tied_parameters == 0) continue;
      if (op.op->shares_with >= 0) {
        parameters.table.elements = op.tied_parameters;
        parameters.same_as = block.first_op + static_cast<std::uint32_t>(op.op->shares_with);
        continue;
      }
      if (layout_.trains_adapters()) {
        if (table == none)
          parameters.frozen_bytes += op.tied_parameters * bytes_of(layout_.activation_dtype);
        continue;
      }
      parameters.table.elements = op.tied_parameters;
      parameters.same_as = table;  // none: a copy of its own
      parameters.shared_over_stages = table == none;
      if (table == none) table = static_cast<std::uint32_t>(store_.parameters.size() - 1);
    }
  }
}

// A unit of FSDP has one group of ranks for its experts and one for the rest, where these differ
// (torchtitan b5bcd76c, distributed/fsdp.py, apply_fsdp_to_decoder: with expert_parallel_degree 1
// all parameters of a block are sharded over the same mesh).
bool ParameterLayout::puts_experts_apart() const {
  return sharing_.zero < 3 || layout_.expert_parallel > 1 ||
         layout_.expert_tensor() != layout_.tensor_parallel;
}

// The two of a block are gathered and reduced one behind the other.
void ParameterLayout::pair_units() {
  for (const std::vector<std::uint32_t>& units : store_.units_of_block) {
    std::uint32_t dense = none, experts = none;
    for (const std::uint32_t unit : units) {
      if (store_.buckets[unit].elements == 0) continue;
      (store_.buckets[unit].of_experts ? experts : dense) = unit;
    }
    if (dense == none || experts == none) continue;
    store_.buckets[dense].partner = experts;
    store_.buckets[experts].partner = dense;
  }
}

// Whole tensors in reverse order, closed when they reach the size asked for. A table that two
// stages share has a bucket to itself, so that its shards are the same on both; experts, which
// fewer ranks have, lie apart (Megatron-LM, core/distributed/distributed_data_parallel.py).
void ParameterLayout::make_buckets() {
  store_.units_of_block.assign(context_.blocks.size(), {});
  const std::int64_t most = most_of_bucket();
  const bool apart = puts_experts_apart();
  for (std::uint32_t c = static_cast<std::uint32_t>(context_.chunks.size()); c-- > 0;) {
    const Chunk& chunk = context_.chunks[c];
    const auto number = static_cast<int>(c);
    const BucketSizes sizes = bucket_sizes(
        layout_, runs_, {.stage = context_.stage, .chunk = number, .parameters = elements()});
    const std::int64_t limit = std::min(sizes.first.count(), most);
    OpenBucket dense{new_bucket(number, false), limit, {}};
    OpenBucket experts{new_bucket(number, true), limit, {}};
    for (std::uint32_t b = chunk.first_block + chunk.blocks; b-- > chunk.first_block;) {
      const StageBlock& block = context_.blocks[b];
      for (std::size_t i = model_.blocks[block.shape].ops.size(); i-- > 0;) {
        Parameters& parameters = store_.parameters[block.first_op + static_cast<std::uint32_t>(i)];
        const bool routed = apart && model_.blocks[block.shape].ops[i].op->experts > 0;
        OpenBucket& open = routed ? experts : dense;
        const bool copy = parameters.table.elements > 0 && parameters.same_as == none;
        if (parameters.shared_over_stages) {
          close_bucket(open);
          open.bucket.holds_shared_table = true;
          add_to_bucket(open, b, copy ? parameters.table : parameters.own);
          close_bucket(open);
          if (!copy) continue;
        }
        if (sharing_.zero == 3) add_frozen(open, b, parameters);
        if (parameters.own.elements == 0) continue;
        add_to_bucket(open, b, parameters.own);
        add_states(model_.blocks[block.shape], i, parameters.own.elements, open.bucket);
        if (layout_.optimizer == OptimizerKind::muon)
          open.bucket.muon_elements += muon_elements(model_.blocks[block.shape], i, model_);
        const std::int64_t bytes = open.bucket.elements * bytes_of(sharing_.gradient_dtype);
        if (sharing_.zero == 3 || bytes < open.limit) continue;
        close_bucket(open);
        open.limit = std::min(sizes.others.count(), most);
      }
      if (sharing_.zero < 3) continue;
      close_bucket(dense);
      close_bucket(experts);
    }
    close_bucket(dense);
    close_bucket(experts);
  }
  share_tables();
  if (sharing_.zero == 3) pair_units();
}

// Heads that share a table of their stage have its place.
void ParameterLayout::share_tables() {
  for (Parameters& parameters : store_.parameters) {
    if (parameters.same_as == none) continue;
    const Parameters& holder = store_.parameters[parameters.same_as];
    parameters.table = holder.own.elements > 0 ? holder.own : holder.table;
    ++store_.buckets[parameters.table.bucket].writers;
  }
}

// The largest size of a bucket, in bytes of gradients: a bucket belongs to one fragment of the
// model.
std::int64_t ParameterLayout::most_of_bucket() const {
  if (layout_.outer_fragments == 1) return INT64_MAX;
  return elements() / layout_.outer_fragments * bytes_of(sharing_.gradient_dtype);
}

std::int64_t ParameterLayout::elements() const {
  std::int64_t elements = 0;
  for (const Parameters& parameters : store_.parameters)
    elements += parameters.own.elements;
  return elements;
}

void ParameterLayout::add_to_bucket(OpenBucket& open, std::uint32_t block, Place& place) {
  Bucket& bucket = open.bucket;
  open.places.push_back(&place);
  if (bucket.weight_bytes == 0) bucket.last_block = block;
  bucket.first_block = block;
  place.first = bucket.elements;
  bucket.elements += place.elements;
  bucket.weight_bytes += place.elements * place.bytes_each;
  ++bucket.writers;
}

// Layout::lora_rank under ZeRO-3: frozen weights are gathered with their unit.
void ParameterLayout::add_frozen(OpenBucket& open, std::uint32_t block, Parameters& parameters) {
  if (parameters.frozen_bytes == 0) return;
  Bucket& bucket = open.bucket;
  if (bucket.weight_bytes == 0) bucket.last_block = block;
  bucket.first_block = block;
  bucket.weight_bytes += parameters.frozen_bytes;
  bucket.frozen_bytes += parameters.frozen_bytes;
  open.places.push_back(&parameters.own);
}

Bucket ParameterLayout::new_bucket(int chunk, bool of_experts) const {
  Bucket bucket;
  bucket.chunk = chunk;
  bucket.of_experts = of_experts;
  bucket.copies = of_experts ? sharing_.expert_copies : layout_.synchronous_replicas();
  bucket.shards = !of_experts ? sharing_.shards : sharing_.zero > 0 ? sharing_.expert_shards : 1;
  // Automodel leaves them out of FSDP (components/moe/parallelizer.py, apply_fsdp, ignored_params).
  bucket.outside = of_experts && sharing_.zero == 3 && is_of_automodel(runs_.experts) &&
                   layout_.expert_parallel > 1 && bucket.copies == 1 &&
                   !layout_.offloads_parameters();
  return bucket;
}

void ParameterLayout::close_bucket(OpenBucket& open) {
  Bucket& bucket = open.bucket;
  for (Place* place : open.places)
    place->bucket = static_cast<std::uint32_t>(store_.buckets.size());
  if (bucket.weight_bytes > 0) {
    if (sharing_.zero == 3 && !bucket.outside) {
      store_.units_of_block[bucket.first_block].push_back(
          static_cast<std::uint32_t>(store_.buckets.size()));
    }
    // The root unit of FSDP, which holds a table used at both ends, stays gathered.
    bucket.keep_gathered = context_.blocks[bucket.first_block].place == BlockPlace::input &&
                           model_.model->tied_embedding && layout_.pipeline_parallel == 1;
    bucket.padded = round_up(bucket.elements, bucket.shards);
    bucket.weight_bytes = round_up(bucket.weight_bytes + (bucket.padded - bucket.elements) *
                                                             bytes_of(layout_.activation_dtype),
                                   bucket.shards);
    intern_bucket(bucket);
    store_.buckets.push_back(bucket);
  }
  bucket = new_bucket(bucket.chunk, bucket.of_experts);
  open.places.clear();
}

}  // namespace sim::lowering
