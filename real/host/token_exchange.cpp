#include "real/host/token_exchange.hpp"

#include <algorithm>
#include <vector>

#include "real/host/kernels/kernels_routed.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Rows of a buffer.
struct Slice {
  std::int64_t first = 0, rows = 0;
};

// Between the ranks that share the experts (all-to-all), or the features of each (all-gather,
// reduce-scatter: a sum in the order of the ranks).
class TokenExchange : public HostExchange {
 public:
  explicit TokenExchange(const TokenExchangeCall& call)
      : call_{call},
        table_{call.table},
        shape_{call.table.shape()},
        sums_{call.kind == sim::CollectiveKind::reduce_scatter} {
    if (call.to_experts && table_.is_told())
      exchange_counts();
    else
      move_rows();
  }

  bool progress() override {
    if (!messages_done()) return false;
    if (counting_) {
      counting_ = false;
      if (!is_all_to_all() || shape_.shares == 1) host::order_arrived(table_.tokens(), nullptr);
      move_rows();
      if (!messages_done()) return false;
    }
    if (sums_) add_up();
    return true;
  }

 private:
  bool is_all_to_all() const { return call_.kind == sim::CollectiveKind::all_to_all; }
  int members() const { return static_cast<int>(call_.members.size()); }

  // Both sides know that an empty message does not exist.
  void send(int to, std::span<const std::byte> data) {
    if (data.empty()) return;
    pending_.push_back(std::make_unique<Pending>(
        call_.transport,
        call_.transport.start_send(call_.members[index(to)], call_.channel, data)));
  }
  void receive(int from, std::span<std::byte> into) {
    if (into.empty()) return;
    pending_.push_back(std::make_unique<Pending>(
        call_.transport,
        call_.transport.start_receive(call_.members[index(from)], call_.channel, into)));
  }
  bool messages_done() {
    while (!pending_.empty() && pending_.back()->done())
      pending_.pop_back();
    return pending_.empty();
  }

  // Rows of a member's experts; or all that came to this rank.
  std::span<const std::int32_t> counts_for(int member) const {
    if (is_all_to_all())
      return table_.sent().subspan(index(member * shape_.held()), index(shape_.held()));
    return came(shape_.share, 0, shape_.parts);
  }
  std::span<std::int32_t> counts_from(int member) const {
    return is_all_to_all() ? came(shape_.share, member, 1) : came(member, 0, shape_.parts);
  }
  std::span<std::int32_t> came(std::int64_t share, std::int64_t part, std::int64_t parts) const {
    std::int32_t* const all = table_.tokens().came;
    return {all + (share * shape_.parts + part) * shape_.held(), index(parts * shape_.held())};
  }
  void exchange_counts() {
    counting_ = true;
    for (int member = 0; member < members(); ++member) {
      const std::span<const std::int32_t> counts = counts_for(member);
      if (member == call_.position) {
        if (is_all_to_all()) std::copy(counts.begin(), counts.end(), counts_from(member).begin());
        continue;
      }
      receive(member, std::as_writable_bytes(counts_from(member)));
      send(member, std::as_bytes(counts));
    }
  }

  // Where the copies lie that a member gets or has sent: before the exchange to the experts, behind
  // it, and behind the gathering.
  Slice sent_to(int member) const {
    const std::int64_t before = member * shape_.held();
    return {table_.rows_sent(0, before), table_.rows_sent(before, shape_.held())};
  }
  Slice came_from(int member) const {
    Slice slice{0, table_.rows_came(shape_.share, member)};
    for (int before = 0; before < member; ++before)
      slice.first += table_.rows_came(shape_.share, before);
    return slice;
  }
  Slice gathered_from(int member) const {
    Slice slice{0, table_.rows_came(member)};
    for (int before = 0; before < member; ++before)
      slice.first += table_.rows_came(before);
    return slice;
  }
  Slice all_that_came() const { return {0, table_.rows_came(shape_.share)}; }

  Slice slice_for(int member) const {
    if (is_all_to_all()) return call_.to_experts ? sent_to(member) : came_from(member);
    return call_.to_experts ? all_that_came() : gathered_from(member);
  }
  Slice slice_from(int member) const {
    if (is_all_to_all()) return call_.to_experts ? came_from(member) : sent_to(member);
    return call_.to_experts ? gathered_from(member) : all_that_came();
  }

  template <class Byte>
  std::span<Byte> bytes(std::span<Byte> of, Slice slice) const {
    SIM_CHECK(index((slice.first + slice.rows) * call_.row) <= of.size(), slice.first, slice.rows,
              call_.row, of.size());
    return of.subspan(index(slice.first * call_.row), index(slice.rows * call_.row));
  }

  void move_rows() {
    if (sums_) parts_.resize(index(members()));
    for (int member = 0; member < members(); ++member) {
      const std::span<const std::byte> from = bytes(call_.input, slice_for(member));
      std::span<std::byte> into = bytes(call_.output, slice_from(member));
      if (sums_) {
        parts_[index(member)].resize(into.size() / sizeof(float));
        into = std::as_writable_bytes(std::span{parts_[index(member)]});
      }
      if (member == call_.position) {
        std::copy(from.begin(), from.end(), into.begin());
        continue;
      }
      receive(member, into);
      send(member, from);
    }
  }

  void add_up() {
    const std::span<std::byte> into = bytes(call_.output, all_that_came());
    auto* sums = reinterpret_cast<float*>(into.data());
    for (std::size_t i = 0; i < into.size() / sizeof(float); ++i) {
      float sum = parts_[0][i];
      for (std::size_t member = 1; member < parts_.size(); ++member)
        sum += parts_[member][i];
      sums[i] = sum;
    }
  }

  TokenExchangeCall call_;
  const RoutingTable& table_;
  const RoutingShape& shape_;
  bool sums_ = false, counting_ = false;
  std::vector<std::vector<float>> parts_;
  std::vector<std::unique_ptr<Pending>> pending_;  // gone first: it writes into the rest
};

}  // namespace

std::unique_ptr<HostExchange> start_token_exchange(const TokenExchangeCall& call) {
  return std::make_unique<TokenExchange>(call);
}

}  // namespace real
