// This process is one rank of several.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "real/launch/rank_process.hpp"
#include "real/launch/run_ways.hpp"
#include "real/launch/seat.hpp"
#include "real/launch/secret.hpp"
#include "real/launch/signals.hpp"
#include "real/net/tcp.hpp"
#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

void say(int control, Ending ending, int blamed, const std::string& text) {
  Report report{.ending = ending, .blamed = blamed};
  const std::size_t size = std::min(text.size(), report.text.size() - 1);
  std::copy_n(text.begin(), size, report.text.begin());
  // Nobody to tell: the supervisor is gone, and this process with it.
  ::send(control, &report, sizeof report, MSG_NOSIGNAL);
}

// How this process joins the others.
struct Joining {
  int listener = -1;
  std::string secret{};
};

TcpWorld tcp_world_of(const Launch& launch, const World& world, const Joining& joining) {
  return {.rank = world.rank,
          .size = world.size,
          .master_address = world.one_machine ? "127.0.0.1" : world.master_address,
          .master_port = world.master_port,
          .listener = joining.listener,
          .job = world.job.substr(0, 256),
          .secret = joining.secret,
          .one_machine = world.one_machine,
          .join_timeout = launch.join_timeout};
}

struct Ended {
  Ending ending = Ending::done;
  int blamed = -1;
  bool announced = false;
  std::string text{};  // the cause alone
};

// Joins the others and runs the body. The others are told of a failure by the transport.
Ended run_member(const Launch& launch, const World& world, const Joining& joining,
                 Heartbeat& heartbeat, const InterruptFlag& interrupt, const Body& body) {
  const std::optional<Fault> fault = parse_fault(launch.inject);
  std::unique_ptr<Transport> transport;
  try {
    if (fault && fault->before_joining && fault->rank == world.rank) cause(fault->kind);
    transport = join_tcp_world(tcp_world_of(launch, world, joining));
    heartbeat.enter(RankPhase::preparing);
    TransportSeat seat{{.world = world,
                        .transport = transport.get(),
                        .heartbeat = &heartbeat,
                        .interrupted = [&] { return interrupt.is_set(); },
                        .fault = fault}};
    body(seat);
    heartbeat.enter(RankPhase::ending);
    return {.ending = seat.stopped() ? Ending::interrupted : Ending::done};
  } catch (const RankFailure& error) {
    if (transport) transport->abort(error.rank(), error.what());
    return {Ending::followed, error.rank(), error.announced(), error.what()};
  } catch (const sim::InputError& error) {
    if (transport) transport->abort(world.rank, error.what());
    return {Ending::refused, world.rank, true, error.what()};
  } catch (const SharedFailure& error) {
    return {Ending::agreed, world.rank, true, error.what()};
  } catch (const std::exception& error) {
    const std::string text = cause_text(error);
    if (transport)
      transport->abort(world.rank,
                       failure_text(world.rank, heartbeat.state(), launch.operator_name, text));
    return {Ending::failed, world.rank, true, text};
  }
}

// A rank that nobody supervises looks after itself: when it hangs, its process ends, and the others
// see its connections close.
class OwnWatch {
 public:
  OwnWatch(const Launch& launch, int rank, const Heartbeat& heartbeat)
      : thread_{[this, &launch, rank, &heartbeat] { watch(launch, rank, heartbeat); }} {}
  OwnWatch(const OwnWatch&) = delete;
  OwnWatch& operator=(const OwnWatch&) = delete;
  ~OwnWatch() {
    {
      const std::lock_guard lock{mutex_};
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch(const Launch& launch, int rank, const Heartbeat& heartbeat) {
    HangDetector detector{1,
                          {.operators = launch.failure_timeout, .phases = launch.setup_timeout},
                          HangDetector::Clock::now()};
    std::unique_lock lock{mutex_};
    while (!stop_) {
      changed_.wait_for(lock, std::chrono::milliseconds{50});
      const HangDetector::Look look{heartbeat.state()};
      std::optional<Hang> hang = detector.check({&look, 1}, HangDetector::Clock::now());
      if (!hang || stop_) continue;
      hang->rank = rank;
      if (!hang->waiting) end_process(hang_text(*hang, look.state, launch.operator_name));
      end_process(fmt::format("rank {} has waited {} for other ranks {}", rank,
                              seconds_text(hang->time),
                              place_text(look.state, rank, launch.operator_name)));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int SharedHeartbeats::create(int ranks) {
  const int descriptor = ::memfd_create("stepcast-heartbeats", MFD_CLOEXEC);
  const auto bytes = static_cast<off_t>(static_cast<std::size_t>(ranks) * sizeof(Heartbeat));
  SIM_CHECK(descriptor >= 0 && ::ftruncate(descriptor, bytes) == 0, errno);
  return descriptor;
}

// Zeros are a fresh Heartbeat but for the operator, so the supervisor constructs them all.
SharedHeartbeats::SharedHeartbeats(int descriptor, int ranks)
    : bytes_{static_cast<std::size_t>(ranks) * sizeof(Heartbeat)} {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  SIM_CHECK(memory != MAP_FAILED, errno);
  all_ = static_cast<Heartbeat*>(memory);
}
SharedHeartbeats::~SharedHeartbeats() {
  ::munmap(all_, bytes_);
}

std::optional<Supervised> take_supervised() {
  const std::string text = variable(supervised_variable);
  if (text.empty()) return std::nullopt;
  ::unsetenv(supervised_variable);
  // "control,heartbeats,listener,rank,size,port,job,secret"
  std::array<int, 6> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int& number : numbers) {
    const auto [next, error] = std::from_chars(at, end, number);
    SIM_CHECK(error == std::errc{} && next != end && *next == ',', text);
    at = next + 1;
  }
  const char* const comma = std::find(at, end, ',');
  SIM_CHECK(comma != end);
  Supervised supervised{.control = numbers[0],
                        .heartbeats = numbers[1],
                        .listener = numbers[2],
                        .secret = std::string(comma + 1, end)};
  supervised.world = {.rank = numbers[3],
                      .size = numbers[4],
                      .local_rank = numbers[3],
                      .local_size = numbers[4],
                      .master_port = numbers[5],
                      .one_machine = true,
                      .job = std::string(at, comma),
                      .source = "stepcast"};
  for (const int descriptor : {supervised.control, supervised.heartbeats, supervised.listener})
    if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return supervised;
}

RunResult run_supervised(const Launch& launch, const Supervised& supervised, const Body& body) {
  const World& world = supervised.world;
  SIM_CHECK(world.size == launch.ranks, world.size, launch.ranks);
  const InterruptFlag interrupt;
  const SharedHeartbeats heartbeats{supervised.heartbeats, world.size};
  const Ended ended = run_member(launch, world, {supervised.listener, supervised.secret},
                                 heartbeats.of(world.rank), interrupt, body);
  say(supervised.control, ended.ending, ended.blamed, ended.text);
  if (ended.ending == Ending::done) return {.end = RunEnd::done};
  return {.end = ended.ending == Ending::interrupted ? RunEnd::interrupted : RunEnd::failed};
}

RunResult run_joined(const Launch& launch, const World& world, const Body& body) {
  const std::string secret = job_secret(launch.world, process_environment());
  require_secret(world, secret, launch.world);
  const InterruptFlag interrupt;
  Heartbeat heartbeat;
  Ended ended;
  {
    const OwnWatch watch{launch, world.rank, heartbeat};
    ended = run_member(launch, world, {.secret = secret}, heartbeat, interrupt, body);
  }
  switch (ended.ending) {
    case Ending::done:
      return {.end = RunEnd::done};
    case Ending::interrupted:
      return {.end = RunEnd::interrupted};
    case Ending::failed:
      return {
          .end = RunEnd::failed,
          .message = failure_text(world.rank, heartbeat.state(), launch.operator_name, ended.text)};
    case Ending::refused:
      return {.end = RunEnd::refused, .message = ended.text};
    case Ending::agreed:
      return {.end = RunEnd::failed, .message = world.rank == 0 ? ended.text : ""};
    case Ending::followed:
      break;
  }
  // Who can speak for himself has done so. For one that is gone, one rank speaks.
  const int speaker = ended.blamed == 0 ? 1 : 0;
  const bool speaks = !ended.announced && world.rank == speaker;
  if (!speaks) return {.end = RunEnd::failed};
  const HeartbeatState state = heartbeat.state();
  if (state.phase == RankPhase::starting) return {.end = RunEnd::failed, .message = ended.text};
  return {.end = RunEnd::failed,
          .message = fmt::format("{}, while rank {} was {}", ended.text, world.rank,
                                 place_text(state, world.rank, launch.operator_name))};
}

}  // namespace real
