#include "sim/plan/parameters/gradient_compression.hpp"

namespace sim::lowering {

void GradientCompressor::reduce(std::uint32_t index, BufferId result, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  const CompressionWork& work = bucket.compression;
  BufferId came = exchange(index, 0, compress(index, made), made);
  BufferId factor{none};
  for (std::size_t i = 1; i < work.exchanges.size(); ++i) {
    const BufferId message =
        builder_.buffer(work.exchanges[i].message, BufferCategory::communication);
    builder_.add_kernel(work.recompress, Stream::data_comm, Pass::gradient_sync, made,
                        {Action::recompress, index});
    if (work.reads_gradient_again) builder_.reads(bucket.gradient, Role::gradient);
    if (bucket.residual.value != none) builder_.writes(bucket.residual, Role::state);
    if (work.keeps_first) {
      factor = came;
      builder_.writes(factor, Role::saved);
    } else {
      builder_.frees(came, Role::input);
    }
    builder_.writes(message, Role::output);
    came = exchange(index, i, message, made);
  }
  builder_.add_kernel(work.decompress, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::decompress, index});
  builder_.frees(came, Role::input);
  if (factor.value != none) builder_.frees(factor, Role::saved);
  if (bucket.residual.value != none) builder_.writes(bucket.residual, Role::state);
  builder_.writes(result, Role::output);
}

BufferId GradientCompressor::compress(std::uint32_t index, const OpLabel& made) {
  const Bucket& bucket = store_.buckets[index];
  const CompressionWork& work = bucket.compression;
  const BufferId message =
      builder_.buffer(work.exchanges.front().message, BufferCategory::communication);
  builder_.add_kernel(work.compress, Stream::data_comm, Pass::gradient_sync, made,
                      {Action::compress, index});
  if (sharing_.zero >= 2) {
    builder_.frees(bucket.gradient, Role::gradient);
  } else {
    builder_.reads(bucket.gradient, Role::gradient);
  }
  if (bucket.residual.value != none) builder_.writes(bucket.residual, Role::state);
  builder_.writes(message, Role::output);
  return message;
}

BufferId GradientCompressor::exchange(std::uint32_t index, std::size_t number, BufferId message,
                                      const OpLabel& made) {
  const CompressionWork& work = store_.buckets[index].compression;
  const CompressionWork::Exchange& exchange = work.exchanges[number];
  builder_.add_collective(exchange.collective, Stream::data_comm, Pass::gradient_sync, made,
                          {Action::exchange_compressed, index});
  if (exchange.in_place) {
    builder_.writes(message, Role::output);
    return message;
  }
  const BufferId came = builder_.buffer(exchange.came, BufferCategory::communication);
  builder_.frees(message, Role::input);
  builder_.writes(came, Role::output);
  return came;
}

}  // namespace sim::lowering
