#include "real/host/context_exchange.hpp"

#include <algorithm>

#include "real/engine/op_shapes.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

using sim::Action;
using sim::CollectiveKind;
using sim::Role;

// A part of a message: a whole buffer, or the last columns of its rows.
struct Piece {
  std::span<std::byte> bytes;
  std::size_t row = 0, columns = 0;  // bytes; equal: a whole buffer

  std::size_t size() const { return bytes.size() / row * columns; }
  void copy_to(std::byte* to) const {
    for (std::size_t at = 0; at < bytes.size(); at += row, to += columns)
      std::copy_n(bytes.data() + at + row - columns, columns, to);
  }
  void copy_from(const std::byte* from) const {
    for (std::size_t at = 0; at < bytes.size(); at += row, from += columns)
      std::copy_n(from, columns, bytes.data() + at + row - columns);
  }
};

std::size_t size_of(const std::vector<Piece>& pieces) {
  std::size_t size = 0;
  for (const Piece& piece : pieces)
    size += piece.size();
  return size;
}

class ContextExchange : public HostExchange {
 public:
  ContextExchange(Transport& transport, CollectiveCall call, std::vector<int> members,
                  const std::vector<Piece>& from, std::vector<Piece> to)
      : members_{std::move(members)},
        to_{std::move(to)},
        sent_(size_of(from)),
        came_(size_of(to_)) {
    std::byte* at = sent_.data();
    for (const Piece& piece : from) {
      piece.copy_to(at);
      at += piece.size();
    }
    call.members = members_;
    call.input = sent_;
    call.output = came_;
    run_ = start_collective(transport, call);
  }

  bool progress() override {
    if (!run_->progress()) return false;
    const std::byte* at = came_.data();
    for (const Piece& piece : to_) {
      piece.copy_from(at);
      at += piece.size();
    }
    return true;
  }

 private:
  std::vector<int> members_;
  std::vector<Piece> to_;
  std::vector<std::byte> sent_, came_;
  std::unique_ptr<CollectiveRun> run_;
};

}  // namespace

bool exchanges_keys(Action action) {
  return action == Action::shift_keys || action == Action::shift_gradients ||
         action == Action::gather_keys || action == Action::scatter_keys_gradient;
}

// In the backward pass the ring turns the other way.
std::unique_ptr<HostExchange> start_context_exchange(const BoundProgram& program, const BoundOp& op,
                                                     Transport& transport, Arena& arena,
                                                     const CollectiveCall& call) {
  const kernels::HeadsShape heads = OpShapes{program}.heads(0);
  const sim::Layout& layout = program.plan->layout;
  const auto element = static_cast<std::size_t>(sim::bytes_of(layout.activation_dtype));
  const std::size_t row = static_cast<std::size_t>(heads.row()) * element;
  const auto keys = static_cast<std::size_t>(2 * heads.kv_heads * heads.head_dim) * element;
  const auto tokens = static_cast<std::size_t>(layout.micro_batch * layout.tokens_held());
  const auto add = [&](std::vector<Piece>& to, Role role) {
    if (!op.operand(role).exists()) return;
    const std::span<std::byte> bytes = arena.bytes(op.operand(role));
    const bool gathered =
        op.action == Action::gather_keys ? role == Role::output : role == Role::keys_gradient;
    const bool whole = gathered || bytes.size() < tokens * row;
    SIM_CHECK(!whole || bytes.size() % (tokens * keys) == 0, bytes.size(), tokens, keys);
    to.push_back(whole ? Piece{bytes, keys, keys} : Piece{bytes.first(tokens * row), row, keys});
  };
  std::vector<Piece> from, to;
  add(from, Role::input);
  if (op.action != Action::gather_keys && op.action != Action::shift_keys)
    add(from, Role::keys_gradient);
  add(to, Role::output);
  if (op.action == Action::shift_gradients) add(to, Role::input_gradient);
  std::vector<int> members{call.members.begin(), call.members.end()};
  if (call.kind == CollectiveKind::ring_shift && op.pass == sim::Pass::backward)
    std::reverse(members.begin(), members.end());
  return std::make_unique<ContextExchange>(transport, call, std::move(members), from,
                                           std::move(to));
}

}  // namespace real
