// Compressed gradients, and parameters that are gathered as integers.
#include "real/engine/kernels/compression.hpp"
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/parameters/compression_work.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using kernels::StreamHandle;
using sim::Action;
using sim::Role;

kernels::CompressedBucket KernelLaunches::compressed(const BoundOp& op) const {
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const sim::ParameterBucket& planned = parts_.program.program->parameter_buckets[op.subject];
  kernels::CompressedBucket made{.scheme = layout.compression,
                                 .elements = bucket.elements,
                                 .padded = bucket.padded,
                                 .ranks = layout.replicas(),
                                 .inner = layout.zero_stage >= 2 ? layout.inner_ranks() : 0};
  made.rank = parts_.program.groups[static_cast<std::size_t>(sim::GroupRole::data)].position;
  made.selected = sim::lowering::selected_elements(layout, bucket.elements);
  const bool signs = sim::sends_signs(layout.compression);
  made.part =
      signs ? sim::lowering::one_bit_part(bucket.elements, made.ranks) : bucket.padded / made.ranks;
  made.factor_columns = layout.compression_rank;
  made.matrices = planned.matrices;
  made.seed = static_cast<std::uint64_t>(parts_.program.at.pipeline) << 32 | op.subject;
  made.beta1 = static_cast<float>(parts_.training.beta1);
  if (signs)
    made.moment = floats(at(bucket.optimizer)) + (layout.master_weights ? bucket.owned : 0);
  made.step = parts_.memory.adam;
  if (layout.compression == sim::GradientCompression::one_bit_lamb) {
    made.tensors = bucket.tensors;
    made.numbers = lamb_numbers(bucket);
  }
  return made;
}

Launch KernelLaunches::compression_op(const BoundOp& op) {
  SIM_CHECK(parts_.compression != nullptr, static_cast<int>(op.action));
  const kernels::CompressionTable& table = *parts_.compression;
  const sim::Layout& layout = shapes_.layout();
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const Operand& input = op.operand(Role::input);
  std::byte* output = at(op, Role::output);
  float* residual = floats(at(bucket.residual));
  switch (op.action) {
    case Action::compress:
      return as_launch(table.compress, compressed(op), floats(at(op, Role::gradient)), residual,
                       output);
    case Action::recompress:
      return as_launch(table.recompress, compressed(op),
                       kernels::Recompressed{.residual = residual,
                                             .factor = floats(at(op, Role::saved)),
                                             .came = at(input),
                                             .message = output});
    case Action::decompress:
      return as_launch(table.decompress, compressed(op),
                       kernels::Decompressed{.came = at(input),
                                             .factor = floats(at(op, Role::saved)),
                                             .residual = residual,
                                             .gradient = floats(output)});
    case Action::quantize_weights: {
      const std::int64_t elements = input.bytes / sim::bytes_of(layout.activation_dtype);
      return as_launch(table.quantize, elements, std::int64_t{1}, 8, floats(at(input)), output);
    }
    case Action::dequantize_weights: {
      const std::int64_t all =
          op.operand(Role::output).bytes / sim::bytes_of(layout.activation_dtype);
      const std::int64_t pieces = op.kernel->batch;
      return as_launch(table.dequantize, all / pieces, pieces, 8, at(input), floats(output));
    }
    default:
      break;
  }
  SIM_CHECK(op.action == Action::keep_secondary_shard, static_cast<int>(op.action));
  const auto role = static_cast<std::size_t>(sim::GroupRole::shard);
  const std::int64_t bytes = op.operand(Role::output).bytes;
  const std::byte* own = at(input) + parts_.program.groups[role].position * bytes;
  return as_launch(kernels_.copy, output, own, bytes);
}

}  // namespace real
