#include "real/cuda/nccl/nccl_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <span>
#include <stdexcept>
#include <thread>

#include "real/cuda/device.hpp"

namespace real {

// Calls that wait for the partners, which may never come, from a thread of their own. It stays
// behind until NCCL lets it go.
class Patient {
 public:
  template <class Call>
  Patient(int device, Call call) : state_{std::make_shared<State>()} {
    std::thread{[state = state_, device, call = std::move(call)]() mutable {
      ncclResult_t result = ncclUnhandledCudaError;
      {
        Call own = std::move(call);  // its resources are released before it is done
        if (cudaSetDevice(device) == cudaSuccess) result = own();
      }
      const std::lock_guard lock{state->mutex};
      state->result = result;
      state->done = true;
      state->changed.notify_all();
    }}.detach();
  }
  // Nothing: not done in this time.
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

namespace {

// Ranks end together, give or take what they write to disk meanwhile.
constexpr std::chrono::seconds farewell{5};
constexpr std::uint32_t id_channel = 0x4e43434c;  // "NCCL": of the control transport

// Sets an environment variable for as long as it lives. Where the variable exists already (which
// set_cuda_environment() sees to), glibc exchanges one pointer, and readers in other threads see
// the old or the new value.
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

// FirstUse holds the stream and buffers of a first use, kept by the thread that may stay behind in
// it.
struct FirstUse {
  DeviceStream stream{DeviceStream::Priority::normal};
  DeviceMemory input, output;  // a number of each member
};

// With every member, or with the two neighbours of a ring, which turns either way.
ncclResult_t exchange(const Communicator& communicator, ncclComm_t handle, const FirstUse& use,
                      bool ring) {
  const auto ranks = static_cast<int>(communicator.members.size());
  const int after = (communicator.position + 1) % ranks;
  const int before = (communicator.position + ranks - 1) % ranks;
  ncclResult_t result = ncclGroupStart();
  for (int peer = 0; peer < ranks && result == ncclSuccess; ++peer) {
    if (ring && peer != after && peer != before) continue;
    const std::int64_t at = peer * static_cast<std::int64_t>(sizeof(float));
    result = ncclSend(use.input.at(at), 1, ncclFloat32, peer, handle, use.stream.get());
    if (result != ncclSuccess) break;
    result = ncclRecv(use.output.at(at), 1, ncclFloat32, peer, handle, use.stream.get());
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

ncclResult_t one_of(sim::CollectiveKind kind, const Communicator& communicator, ncclComm_t handle,
                    const FirstUse& use) {
  void* const in = use.input.at(0);
  void* const out = use.output.at(0);
  const cudaStream_t on = use.stream.get();
  switch (kind) {
    case sim::CollectiveKind::all_reduce:
      return ncclAllReduce(in, out, 1, ncclFloat32, ncclSum, handle, on);
    case sim::CollectiveKind::reduce_scatter:
      return ncclReduceScatter(in, out, 1, ncclFloat32, ncclSum, handle, on);
    case sim::CollectiveKind::all_gather:
      return ncclAllGather(in, out, 1, ncclFloat32, handle, on);
    case sim::CollectiveKind::all_to_all:
    case sim::CollectiveKind::ring_shift:
      return exchange(communicator, handle, use, kind == sim::CollectiveKind::ring_shift);
    default:
      return ncclSuccess;  // the backend has no other
  }
}

// A message of one number, or a tiny collective of every kind that the communicator is for.
ncclResult_t use_first(const Communicator& communicator, ncclComm_t handle, const FirstUse& use) {
  ncclResult_t result = ncclSuccess;
  if (communicator.kind == CommunicatorKind::message) {
    result = communicator.position == 0
                 ? ncclSend(use.input.at(0), 1, ncclFloat32, 1, handle, use.stream.get())
                 : ncclRecv(use.output.at(0), 1, ncclFloat32, 0, handle, use.stream.get());
  }
  for (const sim::CollectiveKind kind : communicator.collectives)
    if (result == ncclSuccess) result = one_of(kind, communicator, handle, use);
  if (result != ncclSuccess) return result;
  return cudaStreamSynchronize(use.stream.get()) == cudaSuccess ? ncclSuccess
                                                                : ncclUnhandledCudaError;
}

}  // namespace

NcclPool::NcclPool() {
  check(cudaGetDevice(&device_), "cudaGetDevice");
}

std::size_t NcclPool::find(const Communicator& wanted, int twin) const {
  const auto same = [&](const Entry& entry) {
    const Communicator& at = entry.communicator;
    return entry.twin == twin && at.kind == wanted.kind && at.algorithm == wanted.algorithm &&
           at.members == wanted.members;
  };
  return static_cast<std::size_t>(std::find_if(entries_.begin(), entries_.end(), same) -
                                  entries_.begin());
}

// All members know the same communicators among just themselves, in the same order: they count
// twins alike, and what one has from a run before, all have.
std::vector<std::size_t> NcclPool::take(const std::vector<Communicator>& wanted, Transport& control,
                                        std::chrono::milliseconds timeout) {
  std::vector<std::size_t> places;
  try {
    for (const Communicator& communicator : wanted) {
      int twin = 0;
      std::size_t place = find(communicator, twin);
      while (std::find(places.begin(), places.end(), place) != places.end())
        place = find(communicator, ++twin);
      places.push_back(place);
      if (place == entries_.size()) {
        entries_.push_back({communicator, twin, nullptr});
        make(entries_.back(), control, timeout);
        connect(entries_.back(), timeout);
        continue;
      }
      const bool fresh =
          !std::includes(entries_[place].communicator.collectives.begin(),
                         entries_[place].communicator.collectives.end(),
                         communicator.collectives.begin(), communicator.collectives.end());
      entries_[place].communicator = communicator;
      if (fresh) connect(entries_[place], timeout);
    }
  } catch (...) {
    abort();
    throw;
  }
  return places;
}

ncclResult_t NcclPool::result_of(Patient& call, const Entry& entry,
                                 std::chrono::milliseconds timeout, const char* what) {
  const auto result = call.wait_for(timeout);
  if (!result) {
    behind_ = std::make_unique<Patient>(call);
    throw std::runtime_error(
        fmt::format("NCCL: {} the communicator of {}: its ranks did not all come within {} ms",
                    what, entry.communicator.name(), timeout.count()));
  }
  if (*result != ncclSuccess) {
    throw std::runtime_error(fmt::format("NCCL: {} the communicator of {}: {} ({})", what,
                                         entry.communicator.name(), ncclGetErrorString(*result),
                                         ncclGetLastError(entry.handle)));
  }
  return *result;
}

// Communicators block: one that does not (ncclConfig_t::blocking = 0) starts a thread for every
// operation (ncclGroupEndInternal in NCCL's src/group.cc), which costs more than the launch.
void NcclPool::make(Entry& entry, Transport& control, std::chrono::milliseconds timeout) {
  const Communicator& communicator = entry.communicator;
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
  result_of(making, entry, timeout, "making");
  const std::lock_guard lock{mutex_};
  entry.handle = *made;
}

// NCCL opens connections when they are used first, in a call that waits for the partner's: two
// ranks that post a receive before the send that the other waits for would wait for ever. So each
// is used once, in an order that all ranks know. Messages connect all channels of a pair whatever
// their size (NCCL v2.28.9-1, src/enqueue.cc:2426); collectives have been connected when the
// communicator was made, by NCCL_RUNTIME_CONNECT=0 (src/init.cc:1269), or connect here as far as
// their algorithm is that of a small one, where the user has set it to 1.
void NcclPool::connect(const Entry& entry, std::chrono::milliseconds timeout) {
  const auto bytes = static_cast<std::int64_t>(entry.communicator.members.size() * sizeof(float));
  const auto use = std::make_shared<FirstUse>();
  use->input = DeviceMemory{bytes, "the first use of a communicator"};
  use->output = DeviceMemory{bytes, "the first use of a communicator"};
  check(cudaMemsetAsync(use->input.at(0), 0, static_cast<std::size_t>(bytes), use->stream.get()),
        "cudaMemsetAsync");
  Patient connecting{device_, [use, communicator = entry.communicator, handle = entry.handle] {
                       return use_first(communicator, handle, *use);
                     }};
  result_of(connecting, entry, timeout, "connecting");
}

// Partners may still read this rank's buffers: all take leave of each other first. A partner that
// is gone does not, so the wait is bounded.
NcclPool::~NcclPool() {
  if (aborted_ || entries_.empty()) return;  // a single rank needs no NCCL
  if (std::uncaught_exceptions() > 0) {
    abort();
  } else {
    leave();
  }
}

void NcclPool::leave() {
  std::vector<ncclComm_t> handles;
  for (const Entry& entry : entries_)
    handles.push_back(entry.handle);
  const auto stop = std::make_shared<std::atomic<bool>>(false);
  Patient leaving{device_, [handles, stop] {
                    ncclResult_t worst = ncclSuccess;
                    for (const ncclComm_t handle : handles) {
                      if (*stop) return ncclInternalError;  // it is about to be freed
                      const ncclResult_t result = ncclCommFinalize(handle);
                      if (result != ncclSuccess) worst = result;
                    }
                    return worst;
                  }};
  if (leaving.wait_for(farewell) != ncclSuccess) {
    *stop = true;
    behind_ = std::make_unique<Patient>(leaving);
    return abort();
  }
  for (const ncclComm_t handle : handles)
    (void)ncclCommDestroy(handle);
}

// Either abort() sees the call, or the call sees the abort.
NcclPool::Use::Use(const NcclPool& pool, std::size_t place) : pool_{pool} {
  ++pool_.calls_;
  if (!pool_.aborted_) {
    handle_ = pool_.entries_[place].handle;
    return;
  }
  --pool_.calls_;
  throw std::runtime_error("NCCL: communication was aborted");
}

std::string NcclPool::asynchronous_error() const {
  const std::lock_guard lock{mutex_};
  if (aborted_) return {};
  for (const Entry& entry : entries_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(entry.handle, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return fmt::format("NCCL: {}: {} ({})", entry.communicator.name(), ncclGetErrorString(state),
                       ncclGetLastError(entry.handle));
  }
  return {};
}

// In a group: NCCL tells kernels and calls of all communicators to end at once, and frees memory at
// the end of the group (ncclCommAbort in its src/init.cc). Freeing waits for the whole device, also
// for kernels that were not told yet; and no other thread may be in a call then.
void NcclPool::abort() {
  const std::lock_guard lock{mutex_};
  if (aborted_.exchange(true) || entries_.empty()) return;
  (void)ncclGroupStart();
  for (const Entry& entry : entries_) {
    if (entry.handle != nullptr) (void)ncclCommAbort(entry.handle);
  }
  const auto until = std::chrono::steady_clock::now() + farewell;
  if (behind_) (void)behind_->wait_for(farewell);
  while (calls_ > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  (void)ncclGroupEnd();
}

}  // namespace real
