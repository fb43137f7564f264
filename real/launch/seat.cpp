#include "real/launch/seat.hpp"

#include <limits>
#include <numeric>

#include "real/net/collectives.hpp"

namespace real {
namespace {

// No communicator of a plan has it: there, channels count from 0.
constexpr std::uint32_t stop_channel = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TransportSeat::TransportSeat(Setup setup) : setup_{std::move(setup)} {
  members_.resize(static_cast<std::size_t>(setup_.world.size));
  std::iota(members_.begin(), members_.end(), 0);
}

// A signal may reach the ranks between different steps: the one that knows first stops all.
bool TransportSeat::stop_wanted() {
  float wanted = setup_.interrupted() ? 1 : 0;
  const auto run = start_collective(*setup_.transport,
                                    {.algorithm = CollectiveAlgorithm::tree,
                                     .reduction = Reduction::maximum,
                                     .members = members_,
                                     .channel = stop_channel,
                                     .output = std::as_writable_bytes(std::span{&wanted, 1})});
  while (!run->progress()) {
    setup_.heartbeat->waiting();
    setup_.transport->idle();
  }
  stopped_ = stopped_ || wanted > 0;
  return wanted > 0;
}

bool TransportSeat::interrupted() {
  stopped_ = stopped_ || setup_.interrupted();
  return stopped_;
}

void TransportSeat::inject_fault(std::int64_t before_step) {
  const std::optional<Fault>& fault = setup_.fault;
  if (!fault || fault->before_joining || fault->rank != setup_.world.rank ||
      fault->step != before_step)
    return;
  setup_.heartbeat->begin_step(before_step);
  cause(fault->kind);
}

}  // namespace real
