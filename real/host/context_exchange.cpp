#include "real/host/context_exchange.hpp"

#include <algorithm>

#include "real/engine/keys_exchange.hpp"

namespace real {
namespace {

using sim::CollectiveKind;

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

std::unique_ptr<HostExchange> start_context_exchange(const BoundProgram& program, const BoundOp& op,
                                                     Transport& transport, Arena& arena,
                                                     const CollectiveCall& call) {
  const KeysExchange exchange = keys_exchange(program, op);
  const auto element = static_cast<std::size_t>(sim::bytes_of(exchange.columns.dtype));
  const std::size_t row = static_cast<std::size_t>(exchange.columns.row) * element;
  const std::size_t keys = static_cast<std::size_t>(exchange.columns.width) * element;
  const std::size_t rows = static_cast<std::size_t>(exchange.columns.tensor()) * element;
  const auto pieces_of = [&](const std::vector<KeysPiece>& from) {
    std::vector<Piece> pieces;
    for (const KeysPiece& piece : from) {
      const std::span<std::byte> bytes = arena.bytes(piece.place);
      pieces.push_back(piece.in_rows ? Piece{bytes.first(rows), row, keys}
                                     : Piece{bytes, keys, keys});
    }
    return pieces;
  };
  std::vector<int> members{call.members.begin(), call.members.end()};
  if (call.kind == CollectiveKind::ring_shift && exchange.backward)
    std::reverse(members.begin(), members.end());
  return std::make_unique<ContextExchange>(transport, call, std::move(members),
                                           pieces_of(exchange.from), pieces_of(exchange.to));
}

}  // namespace real
