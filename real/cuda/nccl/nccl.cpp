#include "real/cuda/nccl/nccl.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "real/cuda/device.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

ncclDataType_t data_type(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::fp32:
      return ncclFloat32;
    case sim::DType::bf16:
      return ncclBfloat16;
    case sim::DType::fp16:
      return ncclFloat16;
    default:
      SIM_CHECK(false, static_cast<int>(dtype));
  }
}

ncclRedOp_t operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::average:
      return ncclAvg;
    case Reduction::maximum:
      return ncclMax;
  }
  return ncclSum;
}

const std::byte* bytes_from(const void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<const std::byte*>(memory) + elements * sim::bytes_of(dtype);
}
std::byte* bytes_from(void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<std::byte*>(memory) + elements * sim::bytes_of(dtype);
}

}  // namespace

NcclWorld::NcclWorld(std::vector<Communicator> communicators, Transport& control,
                     std::chrono::milliseconds timeout, std::shared_ptr<NcclPool> pool)
    : communicators_{std::move(communicators)},
      pool_{std::move(pool)},
      places_{pool_->take(communicators_, control, timeout)} {}

std::size_t NcclWorld::find(CommunicatorKind kind, sim::GroupRole role, sim::Stream stream) const {
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    const Communicator& at = communicators_[i];
    if (at.kind == kind && at.role == role && at.stream == stream) return i;
  }
  return npos;
}

std::size_t NcclWorld::find_message(int from, int to, sim::Stream stream) const {
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    const Communicator& at = communicators_[i];
    if (at.kind != CommunicatorKind::message || at.stream != stream) continue;
    if (at.members[0] == from && at.members[1] == to) return i;
  }
  return npos;
}

void NcclWorld::check_call(ncclResult_t result, std::size_t index, const char* what) const {
  if (result == ncclSuccess) return;
  throw std::runtime_error(fmt::format("NCCL: {} of {}: {} ({})", what,
                                       communicators_[index].name(), ncclGetErrorString(result),
                                       ncclGetLastError(nullptr)));
}

void NcclWorld::all_reduce(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(
      ncclAllReduce(call.input, call.output, static_cast<std::size_t>(call.count),
                    data_type(call.dtype), operation(call.reduction), use(index).handle(), stream),
      index, "an all-reduce");
}

void NcclWorld::reduce_scatter(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(ncclReduceScatter(call.input, call.output,
                               static_cast<std::size_t>(call.count / ranks), data_type(call.dtype),
                               operation(call.reduction), use(index).handle(), stream),
             index, "a reduce-scatter");
}

void NcclWorld::all_gather(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(ncclAllGather(call.input, call.output, static_cast<std::size_t>(call.count / ranks),
                           data_type(call.dtype), use(index).handle(), stream),
             index, "an all-gather");
}

// As NCCL's documentation has it ("Point-to-point communication"): ncclAlltoAll is newer than the
// versions that this builds with.
void NcclWorld::all_to_all(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  const std::int64_t part = call.count / ranks;
  const auto count = static_cast<std::size_t>(part);
  const NcclPool::Use members = use(index);
  const ncclDataType_t type = data_type(call.dtype);
  check_call(ncclGroupStart(), index, "an all-to-all");
  for (int peer = 0; peer < static_cast<int>(ranks); ++peer) {
    check_call(ncclSend(bytes_from(call.input, peer * part, call.dtype), count, type, peer,
                        members.handle(), stream),
               index, "an all-to-all");
    check_call(ncclRecv(bytes_from(call.output, peer * part, call.dtype), count, type, peer,
                        members.handle(), stream),
               index, "an all-to-all");
  }
  check_call(ncclGroupEnd(), index, "an all-to-all");
}

void NcclWorld::ring_shift(std::size_t index, std::span<const Call> pieces, bool backward,
                           cudaStream_t stream) {
  const auto ranks = static_cast<int>(at(index).members.size());
  const int next = (at(index).position + 1) % ranks;
  const int before = (at(index).position + ranks - 1) % ranks;
  const NcclPool::Use members = use(index);
  check_call(ncclGroupStart(), index, "a ring shift");
  for (const Call& piece : pieces) {
    const auto count = static_cast<std::size_t>(piece.count);
    check_call(ncclSend(piece.input, count, data_type(piece.dtype), backward ? before : next,
                        members.handle(), stream),
               index, "a ring shift");
    check_call(ncclRecv(piece.output, count, data_type(piece.dtype), backward ? next : before,
                        members.handle(), stream),
               index, "a ring shift");
  }
  check_call(ncclGroupEnd(), index, "a ring shift");
}

void NcclWorld::send(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclSend(call.input, static_cast<std::size_t>(call.count), data_type(call.dtype), 1,
                      use(index).handle(), stream),
             index, "a send");
}

void NcclWorld::receive(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclRecv(call.output, static_cast<std::size_t>(call.count), data_type(call.dtype), 0,
                      use(index).handle(), stream),
             index, "a receive");
}

void NcclWorld::hierarchical_all_reduce(std::size_t node, std::size_t rail, const Call& call,
                                        cudaStream_t stream) {
  const auto local = static_cast<std::int64_t>(at(node).members.size());
  const std::int64_t part = call.count / local;
  Call whole = call;
  whole.count = part * local;
  if (part > 0) {
    // In place in the output: NCCL's rule is that a rank's part lies at its own offset.
    std::byte* own = bytes_from(call.output, part * at(node).position, call.dtype);
    Call scatter = whole;
    scatter.output = own;
    reduce_scatter(node, scatter, stream);
    Call across = whole;
    across.input = own;
    across.output = own;
    across.count = part;
    all_reduce(rail, across, stream);
    Call gather = whole;
    gather.input = own;
    all_gather(node, gather, stream);
  }
  if (whole.count == call.count) return;
  Call rest = call;
  rest.input = bytes_from(call.input, whole.count, call.dtype);
  rest.output = bytes_from(call.output, whole.count, call.dtype);
  rest.count = call.count - whole.count;
  all_reduce(node, rest, stream);
  rest.input = rest.output;
  all_reduce(rail, rest, stream);
}

}  // namespace real
