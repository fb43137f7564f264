// NCCL between ranks that are threads of this process: an operation meets its partners, and the
// last to arrive does the work of all.
#include "tests/gpu/fakes/fake_nccl.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/fakes/bf16.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/gpu/fakes/include/nccl.h"

namespace fakes {
namespace {

enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, send, receive, exchange };

// A message of a group of sends and receives.
struct Message {
  int peer = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
};

struct Call {
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t operation = ncclSum;
  std::vector<Message> sends{}, receives{};  // of an exchange, in the order of their calls
};

struct Meeting {
  std::vector<Call> calls;
  std::vector<bool> here;
  int arrived = 0;
  bool done = false;
};

// Where hosts wait for each other inside a call: {way, first, second}.
using MeetingPoint = std::array<int, 3>;
enum Way : int { message_connects, collective_connects, collective_captured };

// Shared is what the members of a communicator share.
struct Shared {
  std::mutex mutex;
  int ranks = 0;
  int joined = 0;
  int leaving = 0;
  bool aborted = false;
  bool gone = false;  // a member
  std::condition_variable changed;
  std::string error;
  std::map<std::uint64_t, Meeting> meetings;
  std::map<MeetingPoint, int> came;  // members whose hosts came there
};

struct Registry {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::shared_ptr<Shared>> by_id;
  std::vector<CommunicatorRecord> records;
  std::string misuse;
  NcclFault fault;
};
Registry& registry() {
  static Registry state;
  return state;
}

std::size_t size_of(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : 2;
}

// Sums in the order of the ranks, in fp32.
std::vector<float> reduced(const Meeting& meeting, std::size_t elements) {
  const Call& first = meeting.calls.front();
  const bool bf16 = first.type == ncclBfloat16;
  std::vector<float> result(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    float value = load(first.input, bf16, at);
    for (std::size_t rank = 1; rank < meeting.calls.size(); ++rank) {
      const float other = load(meeting.calls[rank].input, bf16, at);
      value = first.operation == ncclMax ? std::max(value, other) : value + other;
    }
    if (first.operation == ncclAvg) value /= static_cast<float>(meeting.calls.size());
    result[i] = value;
  }
  return result;
}

void write(const Call& call, const std::vector<float>& values, std::size_t from) {
  for (std::size_t i = 0; i < call.count; ++i) {
    store(call.output, call.type == ncclBfloat16, static_cast<std::int64_t>(i), values[from + i]);
  }
}

void gather(const Meeting& meeting) {
  const std::size_t bytes = meeting.calls.front().count * size_of(meeting.calls.front().type);
  std::vector<std::byte> all;
  for (const Call& call : meeting.calls) {
    const auto* part = static_cast<const std::byte*>(call.input);
    all.insert(all.end(), part, part + bytes);
  }
  for (const Call& call : meeting.calls)
    std::memcpy(call.output, all.data(), all.size());
}

// visit(send, receive) of the messages of an exchange, which match in order; false: some do not.
template <class Visit>
bool for_each_message(const Meeting& meeting, Visit visit) {
  std::size_t sent = 0, met = 0;
  for (std::size_t to = 0; to < meeting.calls.size(); ++to) {
    sent += meeting.calls[to].sends.size();
    std::map<int, std::size_t> next;  // by sender
    for (const Message& receive : meeting.calls[to].receives) {
      const auto from = static_cast<std::size_t>(receive.peer);
      if (from >= meeting.calls.size()) return false;
      const std::vector<Message>& sends = meeting.calls[from].sends;
      std::size_t& at = next[receive.peer];
      while (at < sends.size() && sends[at].peer != static_cast<int>(to))
        ++at;
      if (at == sends.size()) return false;
      const Message& send = sends[at++];
      if (send.count != receive.count || send.type != receive.type) return false;
      visit(send, receive);
      ++met;
    }
  }
  return sent == met;
}

void carry_out(const Meeting& meeting) {
  const Call& first = meeting.calls.front();
  switch (first.kind) {
    case Kind::all_reduce: {
      const auto values = reduced(meeting, first.count);
      for (const Call& call : meeting.calls)
        write(call, values, 0);
      return;
    }
    case Kind::reduce_scatter: {
      const auto values = reduced(meeting, first.count * meeting.calls.size());
      for (std::size_t rank = 0; rank < meeting.calls.size(); ++rank) {
        write(meeting.calls[rank], values, rank * first.count);
      }
      return;
    }
    case Kind::all_gather:
      return gather(meeting);
    case Kind::send:
      std::memcpy(meeting.calls[1].output, first.input, first.count * size_of(first.type));
      return;
    case Kind::receive:
      return;
    case Kind::exchange:
      (void)for_each_message(meeting, [](const Message& send, const Message& receive) {
        std::memcpy(receive.output, send.input, send.count * size_of(send.type));
      });
  }
}

bool agree(const Meeting& meeting) {
  const Call& first = meeting.calls.front();
  for (const Call& call : meeting.calls) {
    const bool pair = first.kind == Kind::send && call.kind == Kind::receive;
    if (call.kind != first.kind && !pair) return false;
    if (call.count != first.count || call.type != first.type) return false;
    if (call.operation != first.operation) return false;
  }
  if (first.kind == Kind::exchange) {
    return for_each_message(meeting, [](const Message&, const Message&) {});
  }
  return first.kind != Kind::receive;
}

}  // namespace
}  // namespace fakes

struct FakeCommunicator {
  std::shared_ptr<fakes::Shared> shared;
  int rank = 0;
  std::atomic<bool> aborted{false};
  std::uint64_t executed = 0;  // operations that began
  bool busy = false;           // one is under way
  std::string error;
  fakes::Device* device = nullptr;
  bool connects_at_use = true;         // collectives, by NCCL_RUNTIME_CONNECT
  std::set<fakes::MeetingPoint> been;  // guarded by Shared::mutex
  int captured = 0;                    // collectives
  std::atomic<int> persistent{0};      // operations that graphs hold
  std::atomic<int> inside{0};          // calls under way
};

namespace fakes {
namespace {

// Attempt is one operation, once per run of it.
struct Attempt {
  bool began = false;
  std::uint64_t number = 0;
};

bool attempt(const std::shared_ptr<FakeCommunicator>& communicator, const Call& call,
             Attempt& state) {
  Shared& shared = *communicator->shared;
  const std::lock_guard lock{shared.mutex};
  if (communicator->aborted) return true;
  if (!shared.error.empty()) return false;
  if (!state.began) {
    if (communicator->busy) {
      shared.error = "two operations of one communicator at once";
      return false;
    }
    communicator->busy = true;
    state = {.began = true, .number = communicator->executed++};
    Meeting& meeting = shared.meetings[state.number];
    meeting.calls.resize(static_cast<std::size_t>(shared.ranks));
    meeting.calls[static_cast<std::size_t>(communicator->rank)] = call;
    if (++meeting.arrived == shared.ranks) {
      if (agree(meeting)) {
        carry_out(meeting);
        meeting.done = true;
      } else {
        shared.error = "members called different operations";
      }
    }
  }
  const auto at = shared.meetings.find(state.number);
  if (at == shared.meetings.end() || !at->second.done) return false;
  communicator->busy = false;
  state.began = false;  // a graph runs it again
  if (--at->second.arrived == 0) shared.meetings.erase(at);
  return true;
}

// Handles are shared: work under way outlives an abort.
std::map<ncclComm_t, std::shared_ptr<FakeCommunicator>>& handles() {
  static std::map<ncclComm_t, std::shared_ptr<FakeCommunicator>> state;
  return state;
}

std::shared_ptr<FakeCommunicator> of(ncclComm_t communicator) {
  const std::lock_guard lock{registry().mutex};
  const auto at = handles().find(communicator);
  return at == handles().end() ? nullptr : at->second;
}

// A graph that holds an operation holds its communicator (localPersistentRefs of NCCL).
class GraphReference {
 public:
  explicit GraphReference(std::shared_ptr<FakeCommunicator> of) : of_{std::move(of)} {
    ++of_->persistent;
  }
  ~GraphReference() { --of_->persistent; }
  GraphReference(const GraphReference&) = delete;
  GraphReference& operator=(const GraphReference&) = delete;

 private:
  std::shared_ptr<FakeCommunicator> of_;
};

// A call that is under way: its communicator must not be freed meanwhile.
class Inside {
 public:
  explicit Inside(FakeCommunicator& communicator) : communicator_{communicator} {
    ++communicator_.inside;
  }
  ~Inside() { --communicator_.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  FakeCommunicator& communicator_;
};

// wait_beside_device() is for what NCCL's calls wait for while the device runs on.
template <class Done>
void wait_beside_device(FakeCommunicator& mine, Done done) {
  while (!done()) {
    if (!mine.device->run_one()) std::this_thread::yield();
  }
}

// Connecting is a rendezvous of hosts: of the two ends of each message between pairs that had none
// yet (ncclTransportP2pSetup, of all channels of a pair at once), of all members at the first
// collective of its kind unless all was connected when the communicator was made, and of all
// members of a collective that is captured (its buffers are registered, with barriers over the
// members).
std::vector<std::pair<MeetingPoint, int>> meetings_of(FakeCommunicator& mine, const Call& call,
                                                      bool captured) {
  std::vector<std::pair<MeetingPoint, int>> all;
  const int own = mine.rank;
  const auto message = [&](int from, int to) {
    if (from != to) all.push_back({{message_connects, from, to}, 2});
  };
  const int ranks = mine.shared->ranks;
  switch (call.kind) {
    case Kind::send:
      message(own, 1 - own);
      break;
    case Kind::receive:
      message(1 - own, own);
      break;
    case Kind::exchange:
      for (const Message& send : call.sends)
        message(own, send.peer);
      for (const Message& receive : call.receives)
        message(receive.peer, own);
      break;
    default:
      if (mine.connects_at_use)
        all.push_back({{collective_connects, static_cast<int>(call.kind), 0}, ranks});
      if (captured) all.push_back({{collective_captured, mine.captured++, 0}, ranks});
  }
  return all;
}

// Whether the call is the one that a test wants to go wrong; waits for the end where it hangs.
bool goes_wrong(FakeCommunicator& mine, bool first, bool captured) {
  NcclFault fault;
  {
    const std::lock_guard lock{registry().mutex};
    fault = registry().fault;
  }
  if (&device_at(fault.device) != mine.device) return false;
  if (fault.during == NcclFault::During::first_use ? !first : !captured) return false;
  if (fault.hangs) wait_beside_device(mine, [&] { return mine.aborted.load(); });
  return true;
}

ncclResult_t connect(FakeCommunicator& mine, const Call& call, bool captured) {
  const Inside inside{mine};
  Shared& shared = *mine.shared;
  std::vector<std::pair<MeetingPoint, int>> waiting;
  for (const auto& meeting : meetings_of(mine, call, captured)) {
    const std::lock_guard lock{shared.mutex};
    if (mine.been.insert(meeting.first).second) waiting.push_back(meeting);
  }
  if (goes_wrong(mine, !waiting.empty(), captured)) return ncclInternalError;
  {
    const std::lock_guard lock{shared.mutex};
    for (const auto& [point, members] : waiting)
      ++shared.came[point];
  }
  ncclResult_t result = ncclInProgress;
  wait_beside_device(mine, [&] {
    const std::lock_guard lock{shared.mutex};
    const bool all = std::all_of(waiting.begin(), waiting.end(), [&](const auto& meeting) {
      return shared.came[meeting.first] == meeting.second;
    });
    if (all)
      result = ncclSuccess;
    else if (mine.aborted)
      result = ncclInternalError;
    else if (shared.gone)
      result = ncclRemoteError;
    return result != ncclInProgress;
  });
  return result;
}

ncclResult_t enqueue_call_of(ncclComm_t handle, const Call& call, cudaStream_t stream) {
  const auto communicator = of(handle);
  if (!communicator) return ncclInvalidArgument;
  const bool captured = is_captured(stream);
  const ncclResult_t connected = connect(*communicator, call, captured);
  if (connected != ncclSuccess) return connected;
  enqueue(stream, [communicator, call, state = std::make_shared<Attempt>(),
                   reference = captured ? std::make_shared<GraphReference>(communicator)
                                        : nullptr] { return attempt(communicator, call, *state); });
  return ncclSuccess;
}

// The group that a thread is in: its sends and receives become one operation of a communicator.
struct Grouped {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  Call call;
};
struct Group {
  int depth = 0;
  std::vector<Grouped> operations;
  std::vector<ncclComm_t> aborted;  // freed at the end of the group
};
Group& group() {
  static thread_local Group state;
  return state;
}

// False: the thread is in no group.
bool join_group(ncclComm_t communicator, cudaStream_t stream, const Message& message) {
  Group& own = group();
  if (own.depth == 0) return false;
  auto at = std::find_if(own.operations.begin(), own.operations.end(), [&](const Grouped& other) {
    return other.communicator == communicator && other.stream == stream;
  });
  if (at == own.operations.end()) {
    at = own.operations.insert(at, {communicator, stream, {}});
    at->call.kind = Kind::exchange;
  }
  (message.input != nullptr ? at->call.sends : at->call.receives).push_back(message);
  return true;
}

// Until no graph holds it (commDestroySync of NCCL).
void wait_for_graphs(FakeCommunicator& mine) {
  wait_beside_device(mine, [&] { return mine.persistent == 0; });
}

void free_handle(ncclComm_t handle) {
  const auto mine = of(handle);
  if (!mine) return;
  wait_for_graphs(*mine);
  const std::lock_guard lock{registry().mutex};
  if (mine->inside > 0) registry().misuse = "a communicator was freed under a call of it";
  handles().erase(handle);
}

}  // namespace

std::string nccl_misuse() {
  const std::lock_guard lock{registry().mutex};
  return std::exchange(registry().misuse, {});
}

void set_nccl_fault(const NcclFault& fault) {
  const std::lock_guard lock{registry().mutex};
  registry().fault = fault;
}

std::vector<CommunicatorRecord> communicators_made() {
  const std::lock_guard lock{registry().mutex};
  return registry().records;
}

void forget_communicators() {
  const std::lock_guard lock{registry().mutex};
  registry().records.clear();
}

}  // namespace fakes

using fakes::Call;
using fakes::Kind;

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "internal error";
}
const char* ncclGetLastError(ncclComm_t communicator) {
  const auto state = fakes::of(communicator);
  if (!state) return "";
  const std::lock_guard lock{state->shared->mutex};
  state->error = state->shared->error;
  return state->error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto& registry = fakes::registry();
  const std::lock_guard lock{registry.mutex};
  const std::uint64_t number = registry.next++;
  *id = {};
  std::memcpy(id->internal, &number, sizeof number);
  registry.by_id[number] = std::make_shared<fakes::Shared>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto& registry = fakes::registry();
  auto mine = std::make_shared<FakeCommunicator>();
  {
    const std::lock_guard lock{registry.mutex};
    std::uint64_t number = 0;
    std::memcpy(&number, id.internal, sizeof number);
    const auto at = registry.by_id.find(number);
    if (at == registry.by_id.end() || config->blocking != 1) return ncclInvalidArgument;
    mine->shared = at->second;
    mine->rank = rank;
    mine->device = &fakes::current_device();
    const char* connect = std::getenv("NCCL_RUNTIME_CONNECT");
    mine->connects_at_use = connect == nullptr || std::string{connect} != "0";
    *communicator = mine.get();
    fakes::handles()[mine.get()] = mine;
    const char* algorithm = std::getenv("NCCL_ALGO");
    registry.records.push_back(
        {.ranks = ranks, .rank = rank, .algorithm = algorithm ? algorithm : ""});
    const std::lock_guard shared{mine->shared->mutex};
    mine->shared->ranks = ranks;
    if (++mine->shared->joined == ranks) registry.by_id.erase(at);
  }
  std::unique_lock lock{mine->shared->mutex};
  mine->shared->changed.notify_all();
  mine->shared->changed.wait(lock, [&] { return mine->shared->joined == ranks; });
  return ncclSuccess;
}

// Groups matter to sends and receives only: all else happens one after another here.
ncclResult_t ncclGroupStart() {
  ++fakes::group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  fakes::Group& own = fakes::group();
  if (own.depth == 0) return ncclInvalidArgument;
  if (--own.depth > 0) return ncclSuccess;
  ncclResult_t worst = ncclSuccess;
  for (const fakes::Grouped& one : std::exchange(own.operations, {})) {
    const ncclResult_t result = fakes::enqueue_call_of(one.communicator, one.call, one.stream);
    if (result != ncclSuccess) worst = result;
  }
  for (const ncclComm_t one : std::exchange(own.aborted, {}))
    fakes::free_handle(one);
  return worst;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const auto mine = fakes::of(communicator);
  if (!mine) return ncclInvalidArgument;
  const std::lock_guard lock{mine->shared->mutex};
  *state = ncclSuccess;
  if (!mine->shared->error.empty()) *state = ncclInternalError;
  if (mine->shared->aborted && !mine->aborted) *state = ncclRemoteError;
  return ncclSuccess;
}

// Blocks until all members leave, or one is gone.
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const auto mine = fakes::of(communicator);
  if (!mine) return ncclInvalidArgument;
  const fakes::Inside inside{*mine};
  fakes::wait_for_graphs(*mine);
  auto& shared = *mine->shared;
  std::unique_lock lock{shared.mutex};
  ++shared.leaving;
  shared.changed.notify_all();
  shared.changed.wait(lock, [&] { return shared.leaving == shared.ranks || shared.gone; });
  return shared.leaving == shared.ranks ? ncclSuccess : ncclRemoteError;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (!fakes::of(communicator)) return ncclInvalidArgument;
  fakes::free_handle(communicator);
  return ncclSuccess;
}

// Ends what is under way at once; memory is freed at the end of the group. Partners notice only if
// they have something to do with it.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const auto mine = fakes::of(communicator);
  if (!mine) return ncclInvalidArgument;
  {
    const std::lock_guard lock{mine->shared->mutex};
    mine->aborted = true;
    mine->shared->aborted = mine->shared->aborted || !mine->shared->meetings.empty();
    mine->shared->gone = true;
    mine->shared->changed.notify_all();
  }
  if (fakes::group().depth > 0) {
    fakes::group().aborted.push_back(communicator);
  } else {
    fakes::free_handle(communicator);
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return fakes::enqueue_call_of(communicator,
                                {Kind::all_reduce, input, output, count, type, operation}, stream);
}
ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator,
                               cudaStream_t stream) {
  return fakes::enqueue_call_of(
      communicator, {Kind::reduce_scatter, input, output, count, type, operation}, stream);
}
ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return fakes::enqueue_call_of(communicator,
                                {Kind::all_gather, input, output, count, type, ncclSum}, stream);
}
ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (fakes::join_group(communicator, stream, {peer, input, nullptr, count, type}))
    return ncclSuccess;
  return fakes::enqueue_call_of(communicator, {Kind::send, input, nullptr, count, type, ncclSum},
                                stream);
}
ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (fakes::join_group(communicator, stream, {peer, nullptr, output, count, type}))
    return ncclSuccess;
  return fakes::enqueue_call_of(communicator,
                                {Kind::receive, nullptr, output, count, type, ncclSum}, stream);
}
