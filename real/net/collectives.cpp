#include "real/net/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <new>

#include "real/net/out_of_memory.hpp"
#include "real/net/rounds.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

using Kind = sim::CollectiveKind;

// A message that comes in, slice by slice. Reduced ones pass through two slices of scratch memory:
// the second fills while the first is reduced.
class IncomingStream {
 public:
  IncomingStream(const Incoming& message, std::byte* scratch)
      : message_{message}, scratch_{scratch} {}

  void post(Transport& transport, std::uint32_t channel) {
    const std::size_t most = scratch_ == nullptr ? message_.bytes : 2 * slice_bytes;
    while (posted_ < message_.bytes && posted_ - taken_ < most) {
      const std::size_t size = std::min(slice_bytes, message_.bytes - posted_);
      tickets_.push_back(transport.start_receive(message_.from, channel, {place(posted_), size}));
      posted_ += size;
    }
  }
  // Takes what has come; whether all has.
  bool take(Transport& transport, const CollectiveCall& call) {
    while (taken_ < message_.bytes) {
      if (!transport.done(tickets_.front())) return false;
      tickets_.pop_front();
      const std::size_t size = std::min(slice_bytes, message_.bytes - taken_);
      if (message_.with != nullptr)
        reduce_floats(call.reduction, place(taken_), message_.with + taken_,
                      message_.result + taken_, size);
      taken_ += size;
      post(transport, call.channel);
    }
    return true;
  }
  void cancel(Transport& transport) {
    for (const Ticket ticket : tickets_)
      transport.cancel(ticket);
  }

 private:
  std::byte* place(std::size_t at) const {
    if (scratch_ == nullptr) return message_.result + at;
    return scratch_ + at / slice_bytes % 2 * slice_bytes;
  }

  Incoming message_;
  std::byte* scratch_;
  std::size_t posted_ = 0, taken_ = 0;
  std::deque<Ticket> tickets_;
};

class RoundRun : public CollectiveRun {
 public:
  RoundRun(Transport& transport, const CollectiveCall& call, std::unique_ptr<Schedule> schedule)
      : transport_{transport}, call_{call}, schedule_{std::move(schedule)} {}
  RoundRun(const RoundRun&) = delete;
  RoundRun& operator=(const RoundRun&) = delete;

  ~RoundRun() override {
    for (IncomingStream& stream : incoming_)
      stream.cancel(transport_);
    for (const Ticket ticket : outgoing_)
      transport_.cancel(ticket);
  }

  bool progress() override {
    while (round_ < schedule_->rounds()) {
      if (!started_) start();
      if (!messages_through()) return false;
      for (const std::span<std::byte> sums : now_.complete)
        if (call_.reduction == Reduction::average)
          divide_floats(sums, static_cast<int>(call_.members.size()));
      ++round_;
      started_ = false;
    }
    return true;
  }

  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  void start() {
    now_.sends.clear();
    now_.receives.clear();
    now_.complete.clear();
    schedule_->fill(round_, now_);
    std::size_t scratch = 0;
    for (const Incoming& message : now_.receives)
      if (message.with != nullptr) scratch += scratch_of(message);
    reserve(scratch);
    incoming_.clear();
    std::byte* free = scratch_.get();
    for (const Incoming& message : now_.receives) {
      const bool reduces = message.with != nullptr;
      incoming_.emplace_back(message, reduces ? free : nullptr);
      if (reduces) free += scratch_of(message);
      incoming_.back().post(transport_, call_.channel);
    }
    for (const Outgoing& message : now_.sends)
      send(message);
    started_ = true;
  }
  static std::size_t scratch_of(const Incoming& message) {
    return message.bytes <= slice_bytes ? (message.bytes + 63) / 64 * 64 : 2 * slice_bytes;
  }
  void reserve(std::size_t bytes) {
    if (bytes <= scratch_bytes_) return;
    scratch_.reset(new (std::nothrow) std::byte[bytes]);
    if (scratch_ == nullptr)
      throw OutOfMemory{static_cast<std::int64_t>(bytes), "messages of a collective"};
    scratch_bytes_ = bytes;
  }
  void send(const Outgoing& message) {
    for (std::size_t at = 0; at < message.data.size(); at += slice_bytes) {
      const std::size_t size = std::min(slice_bytes, message.data.size() - at);
      outgoing_.push_back(
          transport_.start_send(message.to, call_.channel, message.data.subspan(at, size)));
      bytes_sent_ += size;
    }
  }
  // In order, so that sums do not depend on which message was first.
  bool messages_through() {
    while (taken_ < incoming_.size()) {
      if (!incoming_[taken_].take(transport_, call_)) return false;
      ++taken_;
    }
    while (!outgoing_.empty()) {
      if (!transport_.done(outgoing_.front())) return false;
      outgoing_.pop_front();
    }
    taken_ = 0;
    return true;
  }

  Transport& transport_;
  CollectiveCall call_;
  std::unique_ptr<Schedule> schedule_;
  int round_ = 0;
  bool started_ = false;
  Round now_;
  std::vector<IncomingStream> incoming_;
  std::size_t taken_ = 0;
  std::deque<Ticket> outgoing_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

[[noreturn]] void refuse(const CollectiveCall& call, const std::string& why) {
  throw std::invalid_argument{fmt::format("{}: {}", sim::word(call.kind), why)};
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}

void check_algorithm(const CollectiveCall& call) {
  static constexpr std::array names{"ring", "tree", "halving_doubling", "hierarchical"};
  using Algorithm = CollectiveAlgorithm;
  const Algorithm chosen = call.algorithm;
  bool known = true;
  if (call.kind == Kind::reduce_scatter || call.kind == Kind::all_gather)
    known = chosen == Algorithm::ring;
  else if (call.kind == Kind::broadcast || call.kind == Kind::reduce)
    known = chosen == Algorithm::ring || chosen == Algorithm::tree;
  else if (call.kind == Kind::barrier)
    known = chosen == Algorithm::tree;
  if (!known)
    refuse(call, fmt::format("has no algorithm {}", names[static_cast<std::size_t>(chosen)]));
  const bool by_node = call.kind == Kind::all_reduce &&
                       (chosen == Algorithm::hierarchical || chosen == Algorithm::tree);
  if (!by_node || (chosen == Algorithm::tree && call.members_per_node == 0)) return;
  if (call.members_per_node < 1 ||
      call.members.size() % static_cast<std::size_t>(call.members_per_node) != 0)
    refuse(call, fmt::format("{} members are no whole number of nodes with {}", call.members.size(),
                             call.members_per_node));
}

// check_sizes() checks what `input` and `output` must have, per byte of the whole: 1, 1/p, or
// nothing.
void check_sizes(const CollectiveCall& call, bool is_root) {
  const std::size_t p = call.members.size();
  const std::size_t in = call.input.size();
  const std::size_t out = call.output.size();
  bool fits = true;
  switch (call.kind) {
    case Kind::all_reduce:
      fits = in == out || in == 0;
      break;
    case Kind::all_gather:
      fits = out % p == 0 && (in == out / p || in == 0);
      break;
    case Kind::reduce_scatter:
      fits = in == out * p;
      break;
    case Kind::broadcast:
      fits = !is_root || in == out || in == 0;
      break;
    case Kind::reduce:
      fits = is_root ? in == out || in == 0 : true;
      break;
    case Kind::all_to_all:
      fits = in == out && out % p == 0;
      break;
    case Kind::barrier:
      fits = in == 0 && out == 0;
      break;
    case Kind::ring_shift:
      fits = in == out;
  }
  if (!fits) refuse(call, fmt::format("{} bytes in and {} out do not fit {} ranks", in, out, p));
  const auto element = static_cast<std::size_t>(sim::bytes_of(call.dtype));
  if (in % element != 0 || out % element != 0)
    refuse(call, fmt::format("{} bytes in and {} out are no whole number of {} elements", in, out,
                             sim::word(call.dtype)));
}

void copy(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) std::memmove(to, from.data(), from.size());
}

Elements elements_of(std::span<std::byte> bytes, sim::DType dtype) {
  const std::int64_t size = sim::bytes_of(dtype);
  return {bytes.data(), static_cast<std::int64_t>(bytes.size()) / size, size};
}
// This elements_of() is for a buffer that is only read.
Elements elements_of(std::span<const std::byte> bytes, sim::DType dtype) {
  return elements_of(std::span{const_cast<std::byte*>(bytes.data()), bytes.size()}, dtype);
}

// A barrier is an all-reduce of one element, as in PyTorch's ProcessGroupNCCL::barrier.
class Barrier : public Schedule {
 public:
  explicit Barrier(Exchange exchange) {
    exchange.buffer = {reinterpret_cast<std::byte*>(&token_), 1, sizeof token_};
    tree_ = tree_all_reduce(exchange);
  }
  int rounds() const override { return tree_->rounds(); }
  void fill(int round, Round& out) override { tree_->fill(round, out); }

 private:
  float token_ = 0;
  std::unique_ptr<Schedule> tree_;
};

std::unique_ptr<Schedule> all_reduce_schedule(const CollectiveCall& call,
                                              const Exchange& exchange) {
  switch (call.algorithm) {
    case CollectiveAlgorithm::ring:
      return ring_all_reduce(exchange);
    case CollectiveAlgorithm::tree:
      return tree_all_reduce(exchange);
    case CollectiveAlgorithm::halving_doubling:
      return halving_doubling_all_reduce(exchange);
    case CollectiveAlgorithm::hierarchical:
      return hierarchical_all_reduce(exchange);
  }
  return nullptr;
}

// Brings the data where the algorithm works on it in place.
std::unique_ptr<Schedule> make_schedule(const CollectiveCall& call, Exchange exchange) {
  exchange.buffer = elements_of(call.output, call.dtype);
  exchange.own = elements_of(call.output, call.dtype);
  const bool is_root = exchange.position == call.root;
  const auto own_part = [&] { return exchange.buffer.part(exchange.ranks(), exchange.position); };
  switch (call.kind) {
    case Kind::all_reduce:
      copy(call.input, call.output.data());
      return all_reduce_schedule(call, exchange);
    case Kind::all_gather:
      copy(call.input, own_part().data);
      return ring_all_gather(exchange);
    case Kind::reduce_scatter:
      exchange.buffer = elements_of(call.input, call.dtype);
      if (exchange.ranks() == 1) copy(call.input, call.output.data());
      return ring_reduce_scatter(exchange);
    case Kind::broadcast:
      if (is_root) copy(call.input, call.output.data());
      return rooted_broadcast(exchange, call.algorithm);
    case Kind::reduce:
      if (!call.input.empty()) exchange.buffer = elements_of(call.input, call.dtype);
      if (exchange.ranks() == 1) copy(call.input, call.output.data());
      return rooted_reduce(exchange, call.algorithm);
    case Kind::all_to_all:
      copy(call.input.subspan(static_cast<std::size_t>(own_part().data - call.output.data()),
                              own_part().bytes().size()),
           own_part().data);
      return pairwise_all_to_all(exchange, call.input.data());
    case Kind::barrier:
      return std::make_unique<Barrier>(exchange);
    case Kind::ring_shift:
      return ring_shift(exchange, call.input);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<CollectiveRun> start_collective(Transport& transport, const CollectiveCall& call) {
  const auto place = std::find(call.members.begin(), call.members.end(), transport.rank());
  SIM_CHECK(place != call.members.end(), transport.rank());
  Exchange exchange{.members = call.members,
                    .position = static_cast<int>(place - call.members.begin()),
                    .members_per_node = std::max(1, call.members_per_node),
                    .root = call.root};
  if (call.root < 0 || call.root >= exchange.ranks())
    refuse(call, fmt::format("has no member {} to be its root", call.root));
  if (reduces(call.kind) && call.dtype != sim::DType::fp32)
    refuse(call, fmt::format("cannot reduce {}: fp32 only", sim::word(call.dtype)));
  check_algorithm(call);
  check_sizes(call, exchange.position == call.root);
  if (call.kind == Kind::barrier) exchange.members_per_node = 1;
  return std::make_unique<RoundRun>(transport, call, make_schedule(call, exchange));
}

}  // namespace real
