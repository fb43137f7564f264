// Starts the ranks as processes, watches them, and ends all when one fails. The supervisor runs no
// rank, so whatever happens to one, somebody is left to say so.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>

#include "real/launch/gpu_sharing.hpp"
#include "real/launch/rank_process.hpp"
#include "real/launch/run_ways.hpp"
#include "real/launch/secret.hpp"
#include "real/launch/signals.hpp"
#include "real/net/tcp.hpp"
#include "real/net/tcp_socket.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

using Clock = HangDetector::Clock;
using namespace std::chrono_literals;

// A failure that another rank reports first waits so long for the word of the rank to blame.
constexpr auto word_time = 1s;
// The others end by themselves, their messages having failed; then they are killed.
constexpr auto process_unwinding_time = 3s;
constexpr auto process_look_period = 50ms;

// Lines of a rank's output, with its number before each.
struct PrefixedOutput {
  Socket from{};
  int to = STDERR_FILENO;
  std::string rest{};

  // False: closed.
  bool pass_on(int rank) {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(from.handle(), buffer.data(), buffer.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    rest.append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 && !rest.empty()) rest += '\n';
    std::size_t end = rest.find('\n');
    for (; end != std::string::npos; end = rest.find('\n')) {
      const std::string line = fmt::format("[rank {}] {}", rank, rest.substr(0, end + 1));
      rest.erase(0, end + 1);
      // A reader that has gone away is not the run's concern.
      [[maybe_unused]] const ssize_t written = ::write(to, line.data(), line.size());
    }
    return count > 0;
  }
};

struct Child {
  pid_t pid = -1;  // -1: waited for
  Socket control{};
  std::array<PrefixedOutput, 2> outputs{};
  std::optional<Report> report{};
  int status = 0;
};

class Supervisor {
 public:
  explicit Supervisor(const Launch& launch)
      : launch_{launch},
        signals_{true},
        heartbeat_memory_{SharedHeartbeats::create(launch.ranks)},
        heartbeats_{heartbeat_memory_.handle(), launch.ranks},
        detector_{launch.ranks,
                  {.operators = launch.failure_timeout, .phases = launch.setup_timeout},
                  Clock::now()},
        children_(static_cast<std::size_t>(launch.ranks)) {
    for (int rank = 0; rank < launch.ranks; ++rank)
      new (&heartbeats_.of(rank)) Heartbeat;
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  ~Supervisor() {
    kill_all(SIGKILL);
    for (Child& child : children_)
      if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
  }

  RunResult run() {
    if (launch_.ranks_per_gpu > 1) mps_.emplace();
    start_all();
    while (!all_ended()) {
      wait_for_news();
      collect();
      look_for_hangs();
      end_what_should_end();
    }
    collect();
    for (int rank = 0; rank < launch_.ranks; ++rank)
      for (PrefixedOutput& output : child(rank).outputs)
        while (output.from.is_open() && output.pass_on(rank)) {
        }
    if (failure_.empty() && suspicion_) failure_ = suspicion_->text;
    RunResult result{.supervisor = true};
    if (interrupted_) {
      result.end = RunEnd::interrupted;
    } else if (!failure_.empty()) {
      result.end = refused_ ? RunEnd::refused : RunEnd::failed;
      result.message = failure_;
    }
    return result;
  }

 private:
  struct Suspicion {  // a failure seen by another than the rank to blame
    std::string text;
    Clock::time_point since;
  };

  Child& child(int rank) { return children_[static_cast<std::size_t>(rank)]; }
  HeartbeatState state(int rank) const { return heartbeats_.of(rank).state(); }

  void start_all() {
    const Listener listener = listen_on_loopback();
    const Socket listening{listener.socket};
    const std::string job = new_secret();  // as a name that no other run has
    const std::string secret = new_secret();
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      std::array<int, 2> pair{};
      SIM_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0, errno);
      child(rank).control = Socket{pair[0]};
      ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
      const Socket theirs{pair[1]};
      RankProcess process{.rank = rank,
                          .size = launch_.ranks,
                          .arguments = launch_.arguments,
                          .environment = rank_environment(rank, launch_.ranks, listener.port),
                          .control = theirs.handle(),
                          .heartbeats = heartbeat_memory_.handle(),
                          .listener = rank == 0 ? listening.handle() : -1,
                          .port = listener.port,
                          .job = job,
                          .secret = secret,
                          .signal_mask = signals_.mask_before()};
      if (mps_)
        process.environment.merge(sharing_environment(
            {.ranks_per_gpu = launch_.ranks_per_gpu, .folder = mps_->folder()}, rank));
      const Socket output = rank == 0 || !launch_.all_output ? Socket{} : prefixed(rank, 0);
      const Socket errors = rank == 0 ? Socket{} : prefixed(rank, 1);
      process.output = rank == 0 ? STDOUT_FILENO : output.handle();
      process.errors = rank == 0 ? STDERR_FILENO : errors.handle();
      child(rank).pid = start(process);
    }
  }

  // The end that the rank writes to.
  Socket prefixed(int rank, std::size_t which) {
    std::array<int, 2> ends{};
    SIM_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, errno);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    PrefixedOutput& output = child(rank).outputs[which];
    output.from = Socket{ends[0]};
    output.to = which == 0 ? STDOUT_FILENO : STDERR_FILENO;
    return Socket{ends[1]};
  }

  bool all_ended() const {
    for (const Child& one : children_)
      if (one.pid > 0) return false;
    return true;
  }

  void wait_for_news() {
    std::vector<pollfd> waiting{{signals_.descriptor(), POLLIN, 0}};
    std::vector<std::pair<int, PrefixedOutput*>> outputs;
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      waiting.push_back({child(rank).report ? -1 : child(rank).control.handle(), POLLIN, 0});
      for (PrefixedOutput& output : child(rank).outputs)
        if (output.from.is_open()) outputs.emplace_back(rank, &output);
    }
    const std::size_t first_output = waiting.size();
    for (const auto& [rank, output] : outputs)
      waiting.push_back({output->from.handle(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(process_look_period / 1ms)) <= 0)
      return;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (waiting[first_output + i].revents != 0 && !outputs[i].second->pass_on(outputs[i].first))
        outputs[i].second->from.close();
    read_signals();
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.descriptor(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) continue;
      // The first asks the ranks to finish their step and keep what they have, the second does not.
      if (interrupted_) kill_all(SIGKILL);
      if (!interrupted_) deadline_ = Clock::now() + launch_.failure_timeout;
      interrupted_ = true;
      kill_all(SIGINT);
    }
  }

  void collect() {
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      Child& one = child(rank);
      const bool ended = one.pid > 0 && ::waitpid(one.pid, &one.status, WNOHANG) == one.pid;
      // A report that it sent before it ended is read after that, so nothing is missed.
      Report report;
      if (!one.report && ::recv(one.control.handle(), &report, sizeof report, 0) ==
                             static_cast<ssize_t>(sizeof report)) {
        report.text.back() = '\0';
        one.report = report;
        take(rank, report);
      }
      if (!ended) continue;
      one.pid = -1;
      if (!left_in_order(one))
        fail(exit_text(rank, one.status, state(rank), launch_.operator_name));
    }
  }

  // A rank that has failed has said so, and leaves as it likes.
  static bool left_in_order(const Child& one) {
    if (!one.report || !WIFEXITED(one.status)) return false;
    return one.report->ending != Ending::done || WEXITSTATUS(one.status) == 0;
  }

  void take(int rank, const Report& report) {
    if (report.ending == Ending::failed)
      fail(failure_text(rank, state(rank), launch_.operator_name, report.text.data()));
    if (report.ending == Ending::refused && failure_.empty()) refused_ = true;
    if (report.ending == Ending::refused || report.ending == Ending::agreed)
      fail(report.text.data());
    if (report.ending == Ending::followed && !suspicion_)
      suspicion_ = {report.text.data(), Clock::now()};
  }

  void fail(const std::string& text) {
    if (!failure_.empty() || interrupted_) return;
    failure_ = text;
    deadline_ = Clock::now() + process_unwinding_time;
  }

  void look_for_hangs() {
    std::vector<HangDetector::Look> looks;
    looks.reserve(children_.size());
    for (int rank = 0; rank < launch_.ranks; ++rank)
      looks.push_back({state(rank), child(rank).pid < 0});
    const std::optional<Hang> hang = detector_.check(looks, Clock::now());
    if (!hang || !failure_.empty() || interrupted_) return;
    fail(
        hang_text(*hang, looks[static_cast<std::size_t>(hang->rank)].state, launch_.operator_name));
    // The others may wait for this one alone, and would wait for their connections to close.
    ::kill(-child(hang->rank).pid, SIGKILL);
  }

  void end_what_should_end() {
    if (suspicion_ && failure_.empty() && Clock::now() > suspicion_->since + word_time)
      fail(suspicion_->text);
    if (deadline_ && Clock::now() > *deadline_) kill_all(SIGKILL);
  }

  void kill_all(int signal) {
    for (const Child& one : children_)
      // Once: a second signal would end a rank that is finishing. Without a group: it has just
      // begun.
      if (one.pid > 0 && ::kill(-one.pid, signal) != 0) ::kill(one.pid, signal);
  }

  const Launch& launch_;
  BlockedSignals signals_;
  Socket heartbeat_memory_;
  SharedHeartbeats heartbeats_;
  HangDetector detector_;
  std::optional<MpsService> mps_;  // ends after the children
  std::vector<Child> children_;
  std::string failure_;
  bool refused_ = false;  // the failure is an InputError
  std::optional<Suspicion> suspicion_;
  std::optional<Clock::time_point> deadline_;
  bool interrupted_ = false;
};

}  // namespace

RunResult supervise_processes(const Launch& launch) {
  return Supervisor{launch}.run();
}

}  // namespace real
