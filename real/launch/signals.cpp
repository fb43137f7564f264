#include "real/launch/signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "sim/base/check.hpp"

namespace real {

BlockedSignals::BlockedSignals(bool children) {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGINT);
  ::sigaddset(&wanted, SIGTERM);
  if (children) ::sigaddset(&wanted, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  descriptor_ = ::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  SIM_CHECK(descriptor_ >= 0);
}

BlockedSignals::~BlockedSignals() {
  // Signals that came and were not read must not strike now.
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof info) > 0) {
  }
  ::close(descriptor_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

InterruptFlag::InterruptFlag() : signals_{false}, stop_{::eventfd(0, EFD_CLOEXEC)} {
  SIM_CHECK(stop_ >= 0);
  thread_ = std::thread{[this] { listen(); }};
}

InterruptFlag::~InterruptFlag() {
  const std::uint64_t one = 1;
  if (::write(stop_, &one, sizeof one) == sizeof one) thread_.join();
  ::close(stop_);
}

void InterruptFlag::listen() {
  while (true) {
    std::array<pollfd, 2> waiting{pollfd{stop_, POLLIN, 0},
                                  pollfd{signals_.descriptor(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    signalfd_siginfo info{};
    while (::read(signals_.descriptor(), &info, sizeof info) > 0)
      if (set_.exchange(true)) ::_exit(130);
  }
}

}  // namespace real
