// RoutingTable says where the tokens of a micro-batch go in one layer when its router chooses by
// its scores: how many rows there are. Which ones they are, kernels know (kernels::RoutedTokens).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/routed.hpp"

namespace real {

class RoutingTable {
 public:
  using Counts = std::span<const std::int32_t>;

  RoutingTable(const RoutingShape& shape, std::int64_t room_sent, std::int64_t room_arrived);

  // Memory of the counts, and of all else. It may lie anywhere.
  std::int64_t counts_bytes() const;
  std::int64_t rest_bytes() const;
  // `known`: the counts where the host reads them; on a host the counts themselves.
  void lie_at(std::byte* counts, std::byte* rest, const std::byte* known);

  const RoutingShape& shape() const { return tokens_.shape; }
  const kernels::RoutedTokens& tokens() const { return tokens_; }
  // Whether other ranks have to tell how many rows come.
  bool is_told() const { return shape().sources() > 1 && !shape().padded; }

  Counts chosen() const { return {known_, experts()}; }                   // of each expert
  Counts sent() const { return counts().subspan(experts(), experts()); }  // rows of each
  // Rows of each expert of this rank that have come from part `part` of share `share`.
  Counts came(std::int64_t share, std::int64_t part) const;
  std::int64_t rows_sent(std::int64_t first, std::int64_t experts) const;
  std::int64_t rows_sent() const { return rows_sent(0, shape().experts); }
  std::int64_t rows_came(std::int64_t share, std::int64_t part) const;
  std::int64_t rows_came(std::int64_t share) const;
  std::int64_t rows_of(std::int64_t expert) const;  // of this rank's, by number

 private:
  std::size_t experts() const { return static_cast<std::size_t>(shape().experts); }
  std::size_t counts_size() const {
    return 2 * experts() + static_cast<std::size_t>(shape().sources() * shape().held()) + 1;
  }
  Counts counts() const { return {known_, counts_size()}; }

  kernels::RoutedTokens tokens_;
  const std::int32_t* known_ = nullptr;
};

// Tokens that chose each expert of a layer, of one rank or of all.
struct LayerLoad {
  std::int64_t layer = 0;
  std::vector<std::int64_t> tokens;
};

// The tables of a program, one for each layer with experts and each micro-batch.
class RoutingTables {
 public:
  RoutingTables(const BoundProgram& program, RouterScore score);

  RouterScore score() const { return score_; }
  // Memory of all tables, that of the counts first.
  std::int64_t counts_bytes() const;
  std::int64_t bytes() const;
  void lie_at(std::byte* memory, const std::byte* known);
  void lie_on_host();  // in memory of its own

  // REQUIRES: is_of_experts(op).
  RoutingTable& of(const BoundOp& op) const;
  // The largest number of rows that are sent, and that come from the ranks with a share of the
  // experts: how large the plan's buffers are.
  std::int64_t planned_sent(const BoundOp& op) const;
  std::int64_t planned_came(const BoundOp& op) const;
  // Bytes of a row that an exchange moves.
  std::int64_t row_bytes(const BoundOp& exchange) const;

  // Behind a step: of its last forward passes.
  std::vector<LayerLoad> loads() const;

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [key, entry] : entries_)
      visit(*entry.table);
  }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // layer, micro-batch
  struct Entry {
    std::unique_ptr<RoutingTable> table;
    std::int64_t planned_sent = 0, planned_came = 0;
  };
  Key key_of(const BoundOp& op) const;
  const Entry& entry(const BoundOp& op) const;
  RoutingShape shape_of(const BoundOp& chooses) const;
  void measure_rooms();

  const BoundProgram& program_;
  RouterScore score_;
  std::map<Key, Entry> entries_;
  std::vector<std::int64_t> memory_;
};

// Whether an operator chooses experts, moves copies of tokens or works on them.
bool is_of_experts(const BoundOp& op);

}  // namespace real
