// Ranks as threads. A message is two posts, the send and the receive; whoever posts second takes
// both off the mailbox of the receiver and copies from memory to memory, outside of all locks.
//
// Invariants:
//  1. A lane of a mailbox (one sender, one channel) holds posts of one direction only.
//  2. A post is in a lane while `waiting`; the thread that takes it out makes it `copying`, then
//     `done` or `wrong_size`. The owner frees it after that, or takes it out itself.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "real/net/transport.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

enum class PostState : std::uint8_t { free, waiting, copying, done, wrong_size };

struct Post {
  std::atomic<PostState> state{PostState::free};
  bool is_send = false;
  int partner = 0;
  std::uint32_t channel = 0;
  std::span<const std::byte> source;
  std::span<std::byte> target;
  std::size_t size() const { return is_send ? source.size() : target.size(); }
};

struct Mailbox {
  std::mutex mutex;
  std::map<std::pair<int, std::uint32_t>, std::deque<Post*>> lanes;  // by sender and channel
};

struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  std::uint64_t count = 0;
  std::atomic<bool> gone{false};  // its rank's Transport is destroyed
};

struct SharedWorld {
  explicit SharedWorld(int size)
      : mailboxes(static_cast<std::size_t>(size)), bells(static_cast<std::size_t>(size)) {}

  void ring(int rank) {
    Bell& bell = bells[static_cast<std::size_t>(rank)];
    {
      const std::lock_guard lock{bell.mutex};
      ++bell.count;
    }
    bell.rung.notify_one();
  }
  void ring_all() {
    for (std::size_t rank = 0; rank < bells.size(); ++rank)
      ring(static_cast<int>(rank));
  }
  void abort(int blamed, const std::string& reason, bool by_itself) {
    {
      const std::lock_guard lock{failure_mutex};
      if (failed.load(std::memory_order_relaxed)) return;
      failed_rank = blamed;
      failure = reason;
      announced = by_itself;
      failed.store(true, std::memory_order_release);
    }
    ring_all();
  }

  std::vector<Mailbox> mailboxes;  // by receiver
  std::vector<Bell> bells;
  std::mutex failure_mutex;  // of the three below; they do not change once `failed`
  int failed_rank = -1;
  std::string failure;
  bool announced = false;
  std::atomic<bool> failed{false};
};

class LocalTransport : public Transport {
 public:
  // The world lives as long as one of its ranks: the last to leave cannot be known before.
  LocalTransport(std::shared_ptr<SharedWorld> world, int rank)
      : world_{std::move(world)}, rank_{rank}, exceptions_{std::uncaught_exceptions()} {}

  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;

  ~LocalTransport() override {
    for (Post& post : posts_)
      if (post.state.load(std::memory_order_acquire) != PostState::free) withdraw(post);
    if (std::uncaught_exceptions() > exceptions_)
      world_->abort(rank_, "rank " + std::to_string(rank_) + " has failed", true);
    world_->bells[static_cast<std::size_t>(rank_)].gone.store(true, std::memory_order_release);
    world_->ring_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->bells.size()); }

  Ticket start_send(int to, std::uint32_t channel, std::span<const std::byte> data) override {
    const auto [ticket, post] = new_post(to, channel);
    post->is_send = true;
    post->source = data;
    meet(to, {rank_, channel}, post);
    return ticket;
  }

  Ticket start_receive(int from, std::uint32_t channel, std::span<std::byte> data) override {
    const auto [ticket, post] = new_post(from, channel);
    post->is_send = false;
    post->target = data;
    meet(rank_, {from, channel}, post);
    return ticket;
  }

  bool done(Ticket ticket) override {
    Post& post = at(ticket);
    // In this order: what was through before the partner went counts.
    const bool failed = world_->failed.load(std::memory_order_acquire);
    const bool gone = bell(post.partner).gone.load(std::memory_order_acquire);
    const PostState state = post.state.load(std::memory_order_acquire);
    if (state == PostState::copying) return false;
    if (state == PostState::waiting) {
      if (failed) throw RankFailure{world_->failed_rank, world_->failure, world_->announced};
      if (gone) {
        const std::string name = std::to_string(post.partner);
        throw RankFailure{post.partner, "rank " + name + " has ended without rank " +
                                            std::to_string(rank_) + "'s message"};
      }
      return false;
    }
    release(ticket);
    if (state == PostState::wrong_size)
      throw std::logic_error{"a message between ranks " + std::to_string(rank_) + " and " +
                             std::to_string(post.partner) + " on channel " +
                             std::to_string(post.channel) +
                             " is received with another size than it is sent with"};
    return true;
  }

  void idle() override {
    Bell& own = bell(rank_);
    std::unique_lock lock{own.mutex};
    own.rung.wait_for(lock, std::chrono::milliseconds{2}, [&] { return own.count != seen_; });
    seen_ = own.count;
  }

  void cancel(Ticket ticket) override {
    withdraw(at(ticket));
    release(ticket);
  }

  void abort(int blamed, const std::string& reason) override {
    world_->abort(blamed, reason, blamed == rank_);
  }

 private:
  Bell& bell(int rank) { return world_->bells[static_cast<std::size_t>(rank)]; }

  std::pair<Ticket, Post*> new_post(int partner, std::uint32_t channel) {
    if (partner == rank_ || partner < 0 || partner >= size())
      throw std::logic_error{"rank " + std::to_string(rank_) + " has no partner " +
                             std::to_string(partner)};
    if (free_.empty()) {
      free_.push_back(posts_.size());
      posts_.emplace_back();
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    Post& post = posts_[ticket];
    post.partner = partner;
    post.channel = channel;
    return {ticket, &post};
  }
  Post& at(Ticket ticket) {
    SIM_CHECK(ticket < posts_.size(), ticket);
    Post& post = posts_[ticket];
    SIM_CHECK(post.state.load(std::memory_order_relaxed) != PostState::free, ticket);
    return post;
  }
  void release(Ticket ticket) {
    posts_[ticket].state.store(PostState::free, std::memory_order_relaxed);
    free_.push_back(ticket);
  }

  // Puts a post into the mailbox, or completes it with the one that waits there.
  void meet(int receiver, std::pair<int, std::uint32_t> key, Post* post) {
    Mailbox& mailbox = world_->mailboxes[static_cast<std::size_t>(receiver)];
    Post* other = nullptr;
    {
      const std::lock_guard lock{mailbox.mutex};
      std::deque<Post*>& lane = mailbox.lanes[key];
      if (lane.empty() || lane.front()->is_send == post->is_send) {
        post->state.store(PostState::waiting, std::memory_order_relaxed);
        lane.push_back(post);
        return;
      }
      other = lane.front();
      lane.pop_front();
      other->state.store(PostState::copying, std::memory_order_relaxed);
    }
    const Post& from = post->is_send ? *post : *other;
    const Post& to = post->is_send ? *other : *post;
    const bool fits = from.size() == to.size();
    if (fits && from.size() > 0) std::memcpy(to.target.data(), from.source.data(), from.size());
    const PostState state = fits ? PostState::done : PostState::wrong_size;
    const int partner = post->partner;
    post->state.store(state, std::memory_order_release);
    other->state.store(state, std::memory_order_release);  // its owner may free it from here on
    world_->ring(partner);
  }

  // The memory of the post is not touched afterwards.
  void withdraw(Post& post) {
    const int receiver = post.is_send ? post.partner : rank_;
    const int sender = post.is_send ? rank_ : post.partner;
    Mailbox& mailbox = world_->mailboxes[static_cast<std::size_t>(receiver)];
    {
      const std::lock_guard lock{mailbox.mutex};
      std::deque<Post*>& lane = mailbox.lanes[{sender, post.channel}];
      const auto place = std::find(lane.begin(), lane.end(), &post);
      if (place != lane.end()) {
        lane.erase(place);
        return;
      }
    }
    while (post.state.load(std::memory_order_acquire) == PostState::copying)
      std::this_thread::yield();
  }

  std::shared_ptr<SharedWorld> world_;
  int rank_;
  int exceptions_;
  std::deque<Post> posts_;  // by ticket; a deque, so that they stay where they are
  std::vector<std::size_t> free_;
  std::uint64_t seen_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_world(int size) {
  SIM_CHECK(size > 0, size);
  const auto world = std::make_shared<SharedWorld>(size);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank)
    transports.push_back(std::make_unique<LocalTransport>(world, rank));
  return transports;
}

}  // namespace real
