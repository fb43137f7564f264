// Moves the frames of all connections (tcp_peer.hpp), and ends them all when a rank fails.
#include "real/net/tcp_transport.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>
#include <new>
#include <system_error>

#include "real/net/out_of_memory.hpp"
#include "real/net/tcp_peer.hpp"
#include "sim/base/check.hpp"
#include "sim/base/printable.hpp"

namespace real::tcp {
namespace {

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<Socket> sockets)
      : rank_{rank}, peers_(sockets.size()), exceptions_{std::uncaught_exceptions()} {
    for (std::size_t i = 0; i < sockets.size(); ++i)
      peers_[i].socket = std::move(sockets[i]);
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  ~TcpTransport() override {
    if (std::uncaught_exceptions() > exceptions_)
      fail(rank_, fmt::format("rank {} has failed", rank_), true);
    // So that who sees this connection close knows why.
    if (failed()) tell_failure();
    for (Peer& peer : peers_) {
      if (!peer.socket.is_open()) continue;
      if (!failed() && peer.out.empty()) send_last(peer, {.kind = FrameKind::bye}, {});
      drain(peer);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }

  Ticket start_send(int to, std::uint32_t channel, std::span<const std::byte> data) override {
    const Ticket ticket = new_post(to, channel, true);
    Peer& peer = peer_at(to);
    Post& post = posts_[ticket];
    const bool idle = peer.out.empty();
    Lane& lane = peer.lanes[channel];
    lane.held.push_back(
        {.frame = {.bytes = data.size(), .channel = channel}, .data = data, .post = &post});
    release_held(peer, lane);
    if (idle) write(to);
    return ticket;
  }

  Ticket start_receive(int from, std::uint32_t channel, std::span<std::byte> data) override {
    const Ticket ticket = new_post(from, channel, false);
    Post& post = posts_[ticket];
    post.target = data;
    Peer& peer = peer_at(from);
    Lane& lane = peer.lanes[channel];
    lane.receives.push_back(&post);
    if (is_large(data.size())) say_ready(from, channel, data.size());
    match(peer, lane);
    return ticket;
  }

  bool done(Ticket ticket) override {
    const Post& post = at(ticket);
    if (is_pending(post)) progress(0);
    if (is_pending(post)) {
      if (failed()) throw RankFailure{failed_rank_, failure_, announced_};
      if (peer_at(post.partner).ended)
        throw RankFailure{post.partner, fmt::format("rank {} has ended without rank {}'s message",
                                                    post.partner, rank_)};
      return false;
    }
    const bool fits = post.state == PostState::done;
    const int partner = post.partner;
    const std::uint32_t channel = post.channel;
    release(ticket);
    if (!fits)
      throw std::logic_error{fmt::format(
          "a message between ranks {} and {} on channel {} is received with another size than it "
          "is sent with",
          rank_, partner, channel)};
    return true;
  }

  void idle() override {
    if (!failed()) progress(2);
  }

  void cancel(Ticket ticket) override {
    Post& post = at(ticket);
    Peer& peer = peer_at(post.partner);
    if (post.is_send) {
      const auto is_it = [&](const Outgoing& out) { return out.post == &post; };
      std::erase_if(peer.lanes[post.channel].held, is_it);
      const auto place = std::find_if(peer.out.begin(), peer.out.end(), is_it);
      if (place != peer.out.end() && place->sent > 0) peer.socket.close();
      if (place != peer.out.end()) peer.out.erase(place);
    } else {
      std::erase(peer.lanes[post.channel].receives, &post);
      if (peer.post == &post) {
        peer.post = nullptr;
        peer.into = nullptr;
      }
    }
    release(ticket);
  }

  void abort(int blamed, const std::string& reason) override {
    fail(blamed, reason, blamed == rank_);
    tell_failure();
  }

 private:
  bool failed() const { return failed_rank_ >= 0; }
  void fail(int rank, const std::string& why, bool announced = false) {
    if (failed()) return;
    announced_ = announced;
    failed_rank_ = rank;
    failure_ = why;
  }
  void tell_failure() {
    if (told_) return;
    told_ = true;
    const std::string text = failure_.substr(0, most_text_bytes);
    for (Peer& peer : peers_) {
      if (!peer.socket.is_open()) continue;
      const bool between_frames = peer.out.empty() || peer.out.front().sent == 0;
      peer.out.clear();  // its memory may be gone soon
      // In the middle of a frame nothing else can be said: its reader learns it from the close.
      if (between_frames)
        send_last(peer,
                  {.bytes = text.size(),
                   .channel = static_cast<std::uint32_t>(failed_rank_),
                   .kind = announced_ ? FrameKind::abort : FrameKind::lost},
                  text);
      ::shutdown(peer.socket.handle(), SHUT_WR);
    }
  }
  Peer& peer_at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  Ticket new_post(int partner, std::uint32_t channel, bool is_send) {
    if (partner == rank_ || partner < 0 || partner >= size())
      throw std::logic_error{fmt::format("rank {} has no partner {}", rank_, partner)};
    if (free_.empty()) {
      free_.push_back(posts_.size());
      posts_.emplace_back();
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    posts_[ticket] = {PostState::waiting, is_send, partner, channel, {}};
    return ticket;
  }
  Post& at(Ticket ticket) {
    SIM_CHECK(ticket < posts_.size() && posts_[ticket].state != PostState::free, ticket);
    return posts_[ticket];
  }
  void release(Ticket ticket) {
    posts_[ticket].state = PostState::free;
    free_.push_back(ticket);
  }
  // Before all that waits in the connection but what is half sent: the partner may be waiting.
  void say_ready(int to, std::uint32_t channel, std::size_t bytes) {
    Peer& peer = peer_at(to);
    const bool half_sent = !peer.out.empty() && peer.out.front().sent > 0;
    peer.out.insert(peer.out.begin() + (half_sent ? 1 : 0),
                    {.frame = {.bytes = bytes, .channel = channel, .kind = FrameKind::ready}});
    if (!half_sent) write(to);
  }

  void progress(int timeout_ms) {
    waiting_.clear();
    for (const Peer& peer : peers_) {
      const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
      waiting_.push_back({peer.ended ? -1 : peer.socket.handle(), events, 0});
    }
    if (::poll(waiting_.data(), waiting_.size(), timeout_ms) <= 0) return;
    for (int rank = 0; rank < size(); ++rank) {
      const short events = waiting_[static_cast<std::size_t>(rank)].revents;
      if (events & POLLOUT) write(rank);
      if (events & (POLLIN | POLLHUP | POLLERR)) read(rank);
    }
  }

  void write(int rank) {
    Peer& peer = peer_at(rank);
    while (!peer.out.empty() && peer.socket.is_open() && !peer.ended) {
      Outgoing& out = peer.out.front();
      std::array<iovec, 2> parts{};
      std::size_t count = 0;
      if (out.sent < sizeof out.frame)
        parts[count++] = {reinterpret_cast<std::byte*>(&out.frame) + out.sent,
                          sizeof out.frame - out.sent};
      const std::size_t data_sent = out.sent - std::min(out.sent, sizeof out.frame);
      if (data_sent < out.data.size())
        parts[count++] = {const_cast<std::byte*>(out.data.data()) + data_sent,
                          out.data.size() - data_sent};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = count;
      const ssize_t sent = ::sendmsg(peer.socket.handle(), &message, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EINTR) continue;
        // A connection that is gone says so when it is read, after what was still in it.
        return;
      }
      out.sent += static_cast<std::size_t>(sent);
      if (out.sent < out.size()) continue;
      if (out.post != nullptr) out.post->state = PostState::done;
      peer.out.pop_front();
    }
  }

  void read(int rank) {
    Peer& peer = peer_at(rank);
    // Until nothing is there, but other peers get their turn too.
    for (int reads = 0; reads < 16 && peer.socket.is_open() && !peer.ended; ++reads) {
      const bool in_header = peer.frame_read < sizeof peer.frame;
      std::array<std::byte, 65536> thrown_away;
      std::byte* to = nullptr;
      std::size_t wanted = 0;
      if (in_header) {
        to = reinterpret_cast<std::byte*>(&peer.frame) + peer.frame_read;
        wanted = sizeof peer.frame - peer.frame_read;
      } else {
        wanted = bytes_behind(peer.frame) - peer.data_read;
        to = peer.into == nullptr ? thrown_away.data() : peer.into + peer.data_read;
        if (peer.into == nullptr) wanted = std::min(wanted, thrown_away.size());
      }
      const ssize_t count = ::recv(peer.socket.handle(), to, wanted, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count <= 0) return lose(rank, count < 0 ? errno : 0);
      (in_header ? peer.frame_read : peer.data_read) += static_cast<std::size_t>(count);
      if (in_header && peer.frame_read == sizeof peer.frame) begin_frame(rank);
      if (peer.frame_read == sizeof peer.frame && peer.data_read == bytes_behind(peer.frame))
        end_frame(rank);
    }
  }

  void lose(int rank, int error) {
    peer_at(rank).socket.close();
    fail(rank, error == 0 || error == ECONNRESET
                   ? fmt::format("rank {} has closed its connection to rank {}", rank, rank_)
                   : fmt::format("the connection of ranks {} and {} is broken: {}", rank_, rank,
                                 std::generic_category().message(error)));
  }

  void begin_frame(int rank) {
    Peer& peer = peer_at(rank);
    const std::size_t bytes = peer.frame.bytes;
    peer.into = nullptr;
    peer.post = nullptr;
    peer.kept = nullptr;
    if (is_farewell(peer.frame.kind) && bytes <= most_text_bytes &&
        peer.frame.channel < peers_.size()) {
      peer.text.resize(bytes);
      peer.into = peer.text.data();
    } else if (peer.frame.kind == FrameKind::data) {
      Lane& lane = lane_of(rank, peer.frame.channel);
      if (lane.kept.empty() && !lane.receives.empty()) {
        peer.post = lane.receives.front();
        lane.receives.pop_front();
        peer.post->state = PostState::moving;
        if (peer.post->target.size() == bytes) peer.into = peer.post->target.data();
      } else if (!is_large(bytes)) {
        keep(rank, lane, bytes);
      }
      // A large one without its receive: that was called off, and the message is thrown away.
    } else if (peer.frame.kind != FrameKind::ready && peer.frame.kind != FrameKind::announce &&
               (peer.frame.kind != FrameKind::bye || bytes != 0)) {
      throw std::logic_error{fmt::format("rank {} has sent a frame of no known kind", rank)};
    }
  }

  // The lane of a frame that came: a channel that this rank has not used costs its sender room.
  Lane& lane_of(int rank, std::uint32_t channel) {
    Peer& peer = peer_at(rank);
    if (!peer.lanes.contains(channel)) take_room(rank, lane_cost);
    return peer.lanes[channel];
  }

  void take_room(int rank, std::size_t bytes) {
    Peer& peer = peer_at(rank);
    if (peer.kept_bytes + bytes > most_kept_bytes)
      throw std::logic_error{
          fmt::format("rank {} has sent {} MiB of messages that rank {} has not asked for", rank,
                      most_kept_bytes >> 20U, rank_)};
    peer.kept_bytes += bytes;
  }

  void keep(int rank, Lane& lane, std::size_t bytes) {
    Peer& peer = peer_at(rank);
    take_room(rank, bytes + kept_cost);
    Kept kept{.bytes = bytes};
    kept.data.reset(new (std::nothrow) std::byte[bytes]);
    if (kept.data == nullptr)
      throw OutOfMemory{static_cast<std::int64_t>(bytes), "a message that came early"};
    lane.kept.push_back(std::move(kept));
    peer.kept = &lane.kept.back();
    peer.into = peer.kept->data.get();
  }

  void end_frame(int rank) {
    Peer& peer = peer_at(rank);
    peer.frame_read = 0;
    peer.data_read = 0;
    const bool farewell = is_farewell(peer.frame.kind) || peer.frame.kind == FrameKind::bye;
    Lane* const lane = farewell ? nullptr : &lane_of(rank, peer.frame.channel);
    if (peer.frame.kind == FrameKind::bye) {
      peer.ended = true;
    } else if (peer.frame.kind == FrameKind::ready) {
      if (++lane->ready > most_ready)
        throw std::logic_error{fmt::format("rank {} has asked rank {} for {} messages at once",
                                           rank, rank_, most_ready)};
      release_held(peer, *lane);
      write(rank);
    } else if (peer.frame.kind == FrameKind::announce) {
      lane->announced = peer.frame.bytes;
      match(peer, *lane);
    } else if (is_farewell(peer.frame.kind)) {
      const std::string_view text{reinterpret_cast<const char*>(peer.text.data()),
                                  peer.text.size()};
      fail(static_cast<int>(peer.frame.channel),
           text.empty() ? fmt::format("rank {} has failed without a cause", peer.frame.channel)
                        : sim::printable(text),
           peer.frame.kind == FrameKind::abort);
    } else if (peer.post != nullptr) {
      peer.post->state =
          peer.post->target.size() == peer.frame.bytes ? PostState::done : PostState::wrong_size;
    } else if (peer.kept != nullptr) {
      peer.kept->complete = true;
      match(peer, *lane);
    }
    peer.post = nullptr;
  }

  int rank_;
  std::vector<Peer> peers_;  // by rank; the own is unused
  int exceptions_;
  std::deque<Post> posts_;  // by ticket; a deque, so that they stay where they are
  std::vector<std::size_t> free_;
  std::vector<pollfd> waiting_;
  int failed_rank_ = -1;
  std::string failure_;
  bool announced_ = false;  // by the failed rank itself
  bool told_ = false;       // the others of the failure
};

}  // namespace
}  // namespace real::tcp

namespace real {

std::unique_ptr<Transport> make_tcp_transport(int rank, std::vector<Socket> sockets) {
  return std::make_unique<tcp::TcpTransport>(rank, std::move(sockets));
}

}  // namespace real
