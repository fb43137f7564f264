#include "real/cuda/nccl.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <thread>

#include "sim/base/check.hpp"

namespace real {

namespace {

// Ranks end together, give or take what they write to disk meanwhile.
constexpr std::chrono::seconds farewell{5};
constexpr std::uint32_t id_channel = 0x4e43434c;  // "NCCL": of the control transport

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

// Sets an environment variable for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_{name} {
    if (const char* before = std::getenv(name)) before_ = before;
    (void)setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (before_) {
      (void)setenv(name_, before_->c_str(), 1);
    } else {
      (void)unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The first member makes the id, the others get it from it.
ncclUniqueId share_id(const Communicator& communicator, Transport& control) {
  ncclUniqueId id{};
  const std::span<std::byte> bytes{reinterpret_cast<std::byte*>(&id), sizeof id};
  if (communicator.position != 0) {
    wait(control, control.start_receive(communicator.members.front(), id_channel, bytes));
    return id;
  }
  const ncclResult_t made = ncclGetUniqueId(&id);
  if (made != ncclSuccess) {
    throw std::runtime_error(fmt::format("NCCL: ncclGetUniqueId: {}", ncclGetErrorString(made)));
  }
  std::vector<Ticket> sends;
  for (const int rank : std::span{communicator.members}.subspan(1)) {
    sends.push_back(control.start_send(rank, id_channel, bytes));
  }
  for (const Ticket ticket : sends)
    wait(control, ticket);
  return id;
}

const std::byte* bytes_from(const void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<const std::byte*>(memory) + elements * sim::bytes_of(dtype);
}
std::byte* bytes_from(void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<std::byte*>(memory) + elements * sim::bytes_of(dtype);
}

}  // namespace

NcclWorld::NcclWorld(std::vector<Communicator> communicators, Transport& control,
                     std::chrono::milliseconds timeout) {
  members_.reserve(communicators.size());
  try {
    for (Communicator& communicator : communicators) {
      members_.push_back({std::move(communicator), nullptr});
      make(members_.back(), control, timeout);
    }
  } catch (...) {
    abort();
    throw;
  }
}

// Not blocking, so that a partner that never comes ends in a message instead of a hang.
void NcclWorld::make(Member& member, Transport& control, std::chrono::milliseconds timeout) {
  const Communicator& communicator = member.communicator;
  const ncclUniqueId id = share_id(communicator, control);
  std::optional<ScopedVariable> algorithm;
  if (const char* name = nccl_algorithm(communicator.algorithm)) {
    algorithm.emplace("NCCL_ALGO", name);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto ranks = static_cast<int>(communicator.members.size());
  ncclResult_t result =
      ncclCommInitRankConfig(&member.handle, ranks, id, communicator.position, &config);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (result == ncclInProgress) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(
          fmt::format("NCCL: the ranks of the communicator of {} did not all "
                      "come within {} ms",
                      communicator.name(), timeout.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    const ncclResult_t asked = ncclCommGetAsyncError(member.handle, &result);
    if (asked != ncclSuccess) result = asked;
  }
  check_call(result, static_cast<std::size_t>(&member - members_.data()),
             "making the communicator");
}

// Partners may still read this rank's buffers: all take leave of each other first. A partner that
// is gone does not, so the wait is bounded.
NcclWorld::~NcclWorld() {
  const std::lock_guard lock{mutex_};
  if (aborted_) return;
  const bool failing = std::uncaught_exceptions() > 0;
  const auto deadline = std::chrono::steady_clock::now() + farewell;
  for (const Member& member : members_) {
    if (!failing) (void)ncclCommFinalize(member.handle);
  }
  for (const Member& member : members_) {
    ncclResult_t state = failing ? ncclRemoteError : ncclInProgress;
    while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
      if (ncclCommGetAsyncError(member.handle, &state) != ncclSuccess) state = ncclInternalError;
      std::this_thread::yield();
    }
    (void)(state == ncclSuccess ? ncclCommDestroy(member.handle) : ncclCommAbort(member.handle));
  }
}

std::size_t NcclWorld::find(CommunicatorKind kind, sim::GroupRole role, sim::Stream stream) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Communicator& at = members_[i].communicator;
    if (at.kind == kind && at.role == role && at.stream == stream) return i;
  }
  return npos;
}

std::size_t NcclWorld::find_message(int from, int to, sim::Stream stream) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Communicator& at = members_[i].communicator;
    if (at.kind != CommunicatorKind::message || at.stream != stream) continue;
    if (at.members[0] == from && at.members[1] == to) return i;
  }
  return npos;
}

// A call on a communicator that does not block may return before it is launched.
void NcclWorld::check_call(ncclResult_t result, std::size_t index, const char* what) const {
  const Member& member = members_[index];
  while (result == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(member.handle, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return;
  throw std::runtime_error(fmt::format("NCCL: {} of {}: {} ({})", what, member.communicator.name(),
                                       ncclGetErrorString(result),
                                       ncclGetLastError(member.handle)));
}

void NcclWorld::all_reduce(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclAllReduce(call.input, call.output, static_cast<std::size_t>(call.count),
                           data_type(call.dtype), operation(call.reduction), members_[index].handle,
                           stream),
             index, "an all-reduce");
}

void NcclWorld::reduce_scatter(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(ncclReduceScatter(call.input, call.output,
                               static_cast<std::size_t>(call.count / ranks), data_type(call.dtype),
                               operation(call.reduction), members_[index].handle, stream),
             index, "a reduce-scatter");
}

void NcclWorld::all_gather(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(ncclAllGather(call.input, call.output, static_cast<std::size_t>(call.count / ranks),
                           data_type(call.dtype), members_[index].handle, stream),
             index, "an all-gather");
}

void NcclWorld::send(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclSend(call.input, static_cast<std::size_t>(call.count), data_type(call.dtype), 1,
                      members_[index].handle, stream),
             index, "a send");
}

void NcclWorld::receive(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclRecv(call.output, static_cast<std::size_t>(call.count), data_type(call.dtype), 0,
                      members_[index].handle, stream),
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

std::string NcclWorld::asynchronous_error() const {
  const std::lock_guard lock{mutex_};
  if (aborted_) return {};
  for (const Member& member : members_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(member.handle, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return fmt::format("NCCL: {}: {} ({})", member.communicator.name(), ncclGetErrorString(state),
                       ncclGetLastError(member.handle));
  }
  return {};
}

void NcclWorld::abort() {
  const std::lock_guard lock{mutex_};
  if (aborted_) return;
  aborted_ = true;
  for (const Member& member : members_) {
    if (member.handle != nullptr) (void)ncclCommAbort(member.handle);
  }
}

}  // namespace real
