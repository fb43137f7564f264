#include "real/engine/control.hpp"

namespace real {

void Control::finish(Ticket ticket) {
  while (!transport_.done(ticket)) {
    if (heartbeat_ != nullptr) heartbeat_->waiting();
    transport_.idle();
  }
}

void Control::to_root(int from, std::span<std::byte> data) {
  if (from == 0 || data.empty()) return;
  if (rank() == from) finish(transport_.start_send(0, channel, data));
  if (rank() == 0) finish(transport_.start_receive(from, channel, data));
}

void Control::from_root(std::span<std::byte> data) {
  if (data.empty()) return;
  if (rank() != 0) return finish(transport_.start_receive(0, channel, data));
  std::vector<Ticket> sends;
  for (int to = 1; to < size(); ++to)
    sends.push_back(transport_.start_send(to, channel, data));
  for (const Ticket send : sends)
    finish(send);
}

}  // namespace real
