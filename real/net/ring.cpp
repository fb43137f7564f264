// Ring algorithms (Patarasuk & Yuan 2009): in each of p - 1 steps a rank passes one of p parts on.
//   reduce-scatter, all-gather: (p-1)/p n bytes sent by each rank; all-reduce: twice that
#include <algorithm>

#include "real/net/rounds.hpp"

namespace real {

void Ring::reduce_scatter(int step, const Elements& buffer, Round& out) const {
  out.send(next(), buffer.part(ranks(), part(-step)).bytes());
  const std::span<std::byte> mine = buffer.part(ranks(), part(-step - 1)).bytes();
  out.reduce(previous(), mine.data(), mine);
}

void Ring::all_gather(int step, int shift, const Elements& buffer, Round& out) const {
  out.send(next(), buffer.part(ranks(), part(shift - step)).bytes());
  out.receive(previous(), buffer.part(ranks(), part(shift - step - 1)).bytes());
}

namespace {

class RingAllReduce : public Schedule {
 public:
  explicit RingAllReduce(const Exchange& exchange)
      : ring_{exchange.members, exchange.position}, buffer_{exchange.buffer} {}
  int rounds() const override { return 2 * ring_.steps(); }
  void fill(int round, Round& out) override {
    if (round >= ring_.steps()) return ring_.all_gather(round - ring_.steps(), 1, buffer_, out);
    ring_.reduce_scatter(round, buffer_, out);
    if (round == ring_.steps() - 1)
      out.complete.push_back(buffer_.part(ring_.ranks(), ring_.part(1)).bytes());
  }

 private:
  Ring ring_;
  Elements buffer_;
};

class RingAllGather : public Schedule {
 public:
  explicit RingAllGather(const Exchange& exchange)
      : ring_{exchange.members, exchange.position}, buffer_{exchange.buffer} {}
  int rounds() const override { return ring_.steps(); }
  void fill(int round, Round& out) override { ring_.all_gather(round, 0, buffer_, out); }

 private:
  Ring ring_;
  Elements buffer_;
};

// Leaves the input as it is: partial sums travel through two parts of scratch memory. In step s
// position i receives part i - s - 2 and sends what it made in the step before, so that its own
// part comes last.
class RingReduceScatter : public Schedule {
 public:
  explicit RingReduceScatter(const Exchange& exchange)
      : ring_{exchange.members, exchange.position}, input_{exchange.buffer}, own_{exchange.own} {
    const auto bytes = static_cast<std::size_t>(own_.count * own_.size);
    const int buffers = std::min(2, ring_.steps() - 1);
    for (int i = 0; i < buffers; ++i)
      partial_[i] = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  int rounds() const override { return ring_.steps(); }
  void fill(int round, Round& out) override {
    const std::size_t bytes = own_.bytes().size();
    const Elements first = input_.part(ring_.ranks(), ring_.part(-1));
    if (round == 0)
      out.send(ring_.next(), first.bytes());
    else
      out.send(ring_.next(), {partial_[(round - 1) % 2].get(), bytes});
    const Elements with = input_.part(ring_.ranks(), ring_.part(-round - 2));
    const bool last = round == ring_.steps() - 1;
    const std::span<std::byte> result{last ? own_.data : partial_[round % 2].get(), bytes};
    out.reduce(ring_.previous(), with.data, result);
    if (last) out.complete.push_back(result);
  }

 private:
  Ring ring_;
  Elements input_, own_;
  std::unique_ptr<std::byte[]> partial_[2];
};

class RingShift : public Schedule {
 public:
  RingShift(const Exchange& exchange, std::span<const std::byte> input)
      : ring_{exchange.members, exchange.position}, input_{input}, output_{exchange.buffer} {}
  int rounds() const override { return 1; }
  void fill(int, Round& out) override {
    out.send(ring_.next(), input_);
    out.receive(ring_.previous(), output_.bytes());
  }

 private:
  Ring ring_;
  std::span<const std::byte> input_;
  Elements output_;
};

class PairwiseAllToAll : public Schedule {
 public:
  PairwiseAllToAll(const Exchange& exchange, const std::byte* input)
      : exchange_{exchange}, input_{input} {}
  int rounds() const override { return exchange_.ranks() - 1; }
  void fill(int round, Round& out) override {
    const int p = exchange_.ranks();
    const int to = (exchange_.position + round + 1) % p;
    const int from = (exchange_.position - round - 1 + p) % p;
    const std::span<const std::byte> part = exchange_.buffer.part(p, to).bytes();
    out.send(exchange_.member(to), {input_ + (part.data() - exchange_.buffer.data), part.size()});
    out.receive(exchange_.member(from), exchange_.buffer.part(p, from).bytes());
  }

 private:
  Exchange exchange_;
  const std::byte* input_;
};

}  // namespace

std::unique_ptr<Schedule> ring_all_reduce(const Exchange& exchange) {
  return std::make_unique<RingAllReduce>(exchange);
}
std::unique_ptr<Schedule> ring_reduce_scatter(const Exchange& exchange) {
  return std::make_unique<RingReduceScatter>(exchange);
}
std::unique_ptr<Schedule> ring_all_gather(const Exchange& exchange) {
  return std::make_unique<RingAllGather>(exchange);
}
std::unique_ptr<Schedule> ring_shift(const Exchange& exchange, std::span<const std::byte> input) {
  return std::make_unique<RingShift>(exchange, input);
}
std::unique_ptr<Schedule> pairwise_all_to_all(const Exchange& exchange, const std::byte* input) {
  return std::make_unique<PairwiseAllToAll>(exchange, input);
}

}  // namespace real
