#include "real/net/tcp_peer.hpp"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>

namespace real::tcp {

void release_held(Peer& peer, Lane& lane) {
  while (!lane.held.empty()) {
    Outgoing& next = lane.held.front();
    if (is_large(next.data.size()) && lane.ready == 0) {
      Frame announcement = next.frame;
      announcement.kind = FrameKind::announce;
      if (!next.announced) peer.out.push_back({.frame = announcement});
      next.announced = true;
      return;
    }
    if (is_large(next.data.size())) --lane.ready;
    peer.out.push_back(next);
    lane.held.pop_front();
  }
}

void match(Peer& peer, Lane& lane) {
  while (!lane.receives.empty() && !lane.kept.empty() && lane.kept.front().complete) {
    Post& post = *lane.receives.front();
    const Kept& frame = lane.kept.front();
    const bool fits = frame.bytes == post.target.size();
    if (fits && frame.bytes > 0) std::memcpy(post.target.data(), frame.data.get(), frame.bytes);
    post.state = fits ? PostState::done : PostState::wrong_size;
    peer.kept_bytes -= frame.bytes + kept_cost;
    lane.receives.pop_front();
    lane.kept.pop_front();
  }
  if (!lane.announced || lane.receives.empty() || !lane.kept.empty()) return;
  // A receive of the same size is large, so its `ready` is on its way.
  Post& post = *lane.receives.front();
  if (post.target.size() != *lane.announced) {
    post.state = PostState::wrong_size;
    lane.receives.pop_front();
  }
  lane.announced.reset();
}

void send_last(const Peer& peer, const Frame& frame, const std::string& text) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
  if (send_all(peer.socket, bytes_of_value(frame), deadline) == Moved::all)
    send_all(peer.socket, std::as_bytes(std::span{text}), deadline);
}

void drain(Peer& peer) {
  ::shutdown(peer.socket.handle(), SHUT_WR);
  std::array<std::byte, 65536> thrown_away;
  for (int reads = 0; reads < 1024; ++reads)
    if (::recv(peer.socket.handle(), thrown_away.data(), thrown_away.size(), MSG_DONTWAIT) <= 0)
      return;
}

}  // namespace real::tcp
