// Frames over one connection per pair of ranks: what is under way on one of them. Room-internal, of
// the transport (tcp_transport.cpp), which moves the bytes.
//
// A message of up to `most_early_bytes` is sent at once; one that comes before its receive is kept.
// A larger one waits at its sender until the receiver has posted a receive for it, which it says
// with a `ready` frame: memory for what comes early stays bounded, and large messages are read to
// where they belong, without a copy. A receive that is posted first costs its send no wait.
//
// Invariants, of a lane (one sender, one channel):
//  1. Receives wait only if no frame does.
//  2. Messages leave in the order of their starts: one that waits for `ready` holds back those
//     behind it. It is announced, so that a receive of a wrong size is told so and does not wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "real/net/tcp_socket.hpp"

namespace real::tcp {

// abort: the rank to blame says so; lost: another one has noticed.
enum class FrameKind : std::uint32_t {
  data = 1,
  bye = 2,
  abort = 3,
  lost = 4,
  ready = 5,     // a receive of a large message is posted
  announce = 6,  // a large message waits for its `ready`
};

struct Frame {
  std::uint64_t bytes = 0;    // that follow; ready, announce: of the message, and none follow
  std::uint32_t channel = 0;  // abort, lost: the rank to blame
  FrameKind kind = FrameKind::data;
};
static_assert(sizeof(Frame) == 16);
// The text of an abort.
inline constexpr std::uint64_t most_text_bytes = 4096;
// Open MPI's limit for TCP, btl_tcp_eager_limit.
inline constexpr std::size_t most_early_bytes = 65'536;
// most_kept_bytes is per sender. Nobody runs a thousand messages ahead in order.
inline constexpr std::size_t most_kept_bytes = std::size_t{64} << 20U;

enum class PostState : std::uint8_t { free, waiting, moving, done, wrong_size };

struct Post {
  PostState state = PostState::free;
  bool is_send = false;
  int partner = 0;
  std::uint32_t channel = 0;
  std::span<std::byte> target;
};

struct Outgoing {
  Frame frame{};
  std::span<const std::byte> data{};
  std::size_t sent = 0;  // of frame and data
  Post* post = nullptr;
  bool announced = false;  // that it waits
  std::size_t size() const { return sizeof frame + data.size(); }
};

// A frame that came before its receive.
struct Kept {
  std::unique_ptr<std::byte[]> data{};
  std::size_t bytes = 0;
  bool complete = false;
};

struct Lane {
  std::deque<Post*> receives;
  std::deque<Kept> kept;
  std::optional<std::size_t> announced;  // a large message whose receive is not posted; behind kept
  // The other direction: what this rank sends.
  std::deque<Outgoing> held;  // the first waits for `ready`
  int ready = 0;
};

// kept_cost and lane_cost are what a kept frame and a lane of its own cost beside the bytes, of
// most_kept_bytes: about what a deque and a node of a map take in libstdc++.
inline constexpr std::size_t kept_cost = 64;
inline constexpr std::size_t lane_cost = 2048;
// Receives of large messages on one channel that are posted at once.
inline constexpr int most_ready = 1 << 20;

struct Peer {
  Socket socket;
  bool ended = false;  // in order, with a bye
  std::deque<Outgoing> out;
  std::map<std::uint32_t, Lane> lanes;
  std::size_t kept_bytes = 0;
  // The frame that is being read.
  Frame frame;
  std::size_t frame_read = 0;  // bytes of its header
  std::size_t data_read = 0;
  std::byte* into = nullptr;  // null: thrown away
  Post* post = nullptr;
  Kept* kept = nullptr;
  std::vector<std::byte> text;  // of an abort
};

inline bool is_farewell(FrameKind kind) {
  return kind == FrameKind::abort || kind == FrameKind::lost;
}
inline bool is_pending(const Post& post) {
  return post.state == PostState::waiting || post.state == PostState::moving;
}

inline bool is_large(std::size_t bytes) {
  return bytes > most_early_bytes;
}
inline std::size_t bytes_behind(const Frame& frame) {
  const bool none = frame.kind == FrameKind::ready || frame.kind == FrameKind::announce;
  return none ? 0 : static_cast<std::size_t>(frame.bytes);
}

// Moves what may be sent to the connection, and announces what may not be.
void release_held(Peer& peer, Lane& lane);
// Hands frames that came early to their receives.
void match(Peer& peer, Lane& lane);

// send_last() does not wait for long: the other end may never read again.
void send_last(const Peer& peer, const Frame& frame, const std::string& text);
// Closing a socket with unread data resets the connection, and our last words with it.
void drain(Peer& peer);

}  // namespace real::tcp
