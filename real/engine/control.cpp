#include "real/engine/control.hpp"

#include <deque>

namespace real {

void Control::finish(Pending& message) {
  while (!message.done()) {
    if (heartbeat_ != nullptr) heartbeat_->waiting();
    transport_.idle();
  }
}

void Control::finish(Ticket ticket) {
  Pending message{transport_, ticket};
  finish(message);
}

void Control::to_root(int from, std::span<std::byte> data) {
  if (from == 0 || data.empty()) return;
  if (rank() == from) finish(transport_.start_send(0, channel, data));
  if (rank() == 0) finish(transport_.start_receive(from, channel, data));
}

void Control::from_root(std::span<std::byte> data) {
  if (data.empty()) return;
  if (rank() != 0) return finish(transport_.start_receive(0, channel, data));
  std::deque<Pending> sends;
  for (int to = 1; to < size(); ++to)
    sends.emplace_back(transport_, transport_.start_send(to, channel, data));
  for (Pending& send : sends)
    finish(send);
}

}  // namespace real
