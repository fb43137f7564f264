#include "real/cuda/nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "real/cuda/device.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

// Ranks end together, give or take what they write to disk meanwhile.
constexpr std::chrono::seconds farewell{5};
// Making a communicator may take seconds, however short the operators are that come later.
constexpr std::chrono::seconds to_connect{30};
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
  std::deque<Pending> sends;
  for (const int rank : std::span{communicator.members}.subspan(1))
    sends.emplace_back(control, control.start_send(rank, id_channel, bytes));
  for (Pending& send : sends)
    send.wait();
  return id;
}

// Calls that wait for the partners, which may never come, from a thread of their own; false: not
// done by the deadline. The thread then stays behind until NCCL lets it go.
class Patient {
 public:
  template <class Call>
  Patient(int device, Call call) : state_{std::make_shared<State>()} {
    std::thread{[state = state_, device, call = std::move(call)]() mutable {
      const bool set = cudaSetDevice(device) == cudaSuccess;
      const ncclResult_t result = set ? call() : ncclUnhandledCudaError;
      const std::lock_guard lock{state->mutex};
      state->result = result;
      state->done = true;
      state->changed.notify_all();
    }}.detach();
  }
  std::optional<ncclResult_t> wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock{state_->mutex};
    if (!state_->changed.wait_for(lock, time, [this] { return state_->done; })) return {};
    return state_->result;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    ncclResult_t result = ncclSuccess;
  };
  std::shared_ptr<State> state_;
};

const std::byte* bytes_from(const void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<const std::byte*>(memory) + elements * sim::bytes_of(dtype);
}
std::byte* bytes_from(void* memory, std::int64_t elements, sim::DType dtype) {
  return static_cast<std::byte*>(memory) + elements * sim::bytes_of(dtype);
}

}  // namespace

NcclWorld::NcclWorld(std::vector<Communicator> communicators, Transport& control,
                     std::chrono::milliseconds timeout) {
  check(cudaGetDevice(&device_), "cudaGetDevice");
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

// Communicators block: one that does not (ncclConfig_t::blocking = 0) starts a thread for every
// operation (ncclGroupEndInternal in NCCL's src/group.cc), which costs more than the launch.
void NcclWorld::make(Member& member, Transport& control, std::chrono::milliseconds timeout) {
  const Communicator& communicator = member.communicator;
  const ncclUniqueId id = share_id(communicator, control);
  std::optional<ScopedVariable> algorithm;
  if (const char* name = nccl_algorithm(communicator.algorithm)) {
    algorithm.emplace("NCCL_ALGO", name);
  }
  const auto ranks = static_cast<int>(communicator.members.size());
  const auto made = std::make_shared<ncclComm_t>(nullptr);
  Patient making{device_, [made, ranks, id, position = communicator.position] {
                   ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                   config.blocking = 1;
                   return ncclCommInitRankConfig(made.get(), ranks, id, position, &config);
                 }};
  timeout = std::max<std::chrono::milliseconds>(timeout, to_connect);
  const auto result = making.wait_for(timeout);
  if (!result) {
    throw std::runtime_error(
        fmt::format("NCCL: the ranks of the communicator of {} did not all "
                    "come within {} ms",
                    communicator.name(), timeout.count()));
  }
  if (*result != ncclSuccess) {
    throw std::runtime_error(fmt::format("NCCL: making the communicator of {}: {} ({})",
                                         communicator.name(), ncclGetErrorString(*result),
                                         ncclGetLastError(nullptr)));
  }
  member.handle = *made;
}

// Partners may still read this rank's buffers: all take leave of each other first. A partner that
// is gone does not, so the wait is bounded.
NcclWorld::~NcclWorld() {
  if (aborted_) return;
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  std::vector<ncclComm_t> handles;
  for (const Member& member : members_)
    handles.push_back(member.handle);
  Patient leaving{device_, [handles] {
                    ncclResult_t worst = ncclSuccess;
                    for (const ncclComm_t handle : handles) {
                      const ncclResult_t result = ncclCommFinalize(handle);
                      if (result != ncclSuccess) worst = result;
                    }
                    return worst;
                  }};
  if (leaving.wait_for(farewell) != ncclSuccess) {
    abort();
    return;
  }
  for (const ncclComm_t handle : handles)
    (void)ncclCommDestroy(handle);
}

ncclComm_t NcclWorld::handle(std::size_t index) const {
  if (aborted_) throw std::runtime_error("NCCL: communication was aborted");
  return members_[index].handle;
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

void NcclWorld::check_call(ncclResult_t result, std::size_t index, const char* what) const {
  if (result == ncclSuccess) return;
  throw std::runtime_error(fmt::format("NCCL: {} of {}: {} ({})", what,
                                       members_[index].communicator.name(),
                                       ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

void NcclWorld::all_reduce(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclAllReduce(call.input, call.output, static_cast<std::size_t>(call.count),
                           data_type(call.dtype), operation(call.reduction), handle(index), stream),
             index, "an all-reduce");
}

void NcclWorld::reduce_scatter(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(
      ncclReduceScatter(call.input, call.output, static_cast<std::size_t>(call.count / ranks),
                        data_type(call.dtype), operation(call.reduction), handle(index), stream),
      index, "a reduce-scatter");
}

void NcclWorld::all_gather(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  check_call(ncclAllGather(call.input, call.output, static_cast<std::size_t>(call.count / ranks),
                           data_type(call.dtype), handle(index), stream),
             index, "an all-gather");
}

// As NCCL's documentation has it ("Point-to-point communication"): ncclAlltoAll is newer than the
// versions that this builds with.
void NcclWorld::all_to_all(std::size_t index, const Call& call, cudaStream_t stream) {
  const auto ranks = static_cast<std::int64_t>(at(index).members.size());
  SIM_CHECK(call.count % ranks == 0, call.count, ranks);
  const std::int64_t part = call.count / ranks;
  const auto count = static_cast<std::size_t>(part);
  const ncclComm_t members = handle(index);
  const ncclDataType_t type = data_type(call.dtype);
  check_call(ncclGroupStart(), index, "an all-to-all");
  for (int peer = 0; peer < static_cast<int>(ranks); ++peer) {
    check_call(ncclSend(bytes_from(call.input, peer * part, call.dtype), count, type, peer, members,
                        stream),
               index, "an all-to-all");
    check_call(ncclRecv(bytes_from(call.output, peer * part, call.dtype), count, type, peer,
                        members, stream),
               index, "an all-to-all");
  }
  check_call(ncclGroupEnd(), index, "an all-to-all");
}

void NcclWorld::send(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclSend(call.input, static_cast<std::size_t>(call.count), data_type(call.dtype), 1,
                      handle(index), stream),
             index, "a send");
}

void NcclWorld::receive(std::size_t index, const Call& call, cudaStream_t stream) {
  check_call(ncclRecv(call.output, static_cast<std::size_t>(call.count), data_type(call.dtype), 0,
                      handle(index), stream),
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

// In a group: NCCL then tells the kernels of all communicators to end before it frees the memory of
// any. Freeing waits for the whole device, also for kernels that were not told yet.
void NcclWorld::abort() {
  const std::lock_guard lock{mutex_};
  if (aborted_.exchange(true)) return;
  (void)ncclGroupStart();
  for (const Member& member : members_) {
    if (member.handle != nullptr) (void)ncclCommAbort(member.handle);
  }
  (void)ncclGroupEnd();
}

}  // namespace real
