// Where the tokens of a micro-batch go in one layer when its router chooses by its scores: filled
// by the kernel that chooses and by the exchanges, read by whatever moves or computes their copies.
//
// Copies that are sent lie by expert, then by token. Those that come lie part by part, one of each
// rank that sent some; of a part, expert by expert. Sorted, they lie expert by expert, and of an
// expert part by part. Without padding neither has gaps: buffers are as large as the worst case,
// and only their beginning is used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "real/engine/bound_program.hpp"

namespace real {

// How a router makes weights of its scores (Megatron-LM, core/transformer/moe/moe_utils.py,
// topk_softmax_with_capacity). softmax: over the experts that a token has chosen; where that is
// one, over all. sigmoid: of each, over the sum of those that are chosen; where that is one, as it
// is.
enum class RouterScore : std::uint8_t { softmax, sigmoid };

struct RoutingShape {
  std::int64_t tokens = 0, per_token = 1, experts = 1;
  std::int64_t groups = 0,
               groups_per_token = 0;   // a token chooses among the experts of some groups
  std::int64_t parts = 1, part = 0;    // ranks that share the experts, and which of them this is
  std::int64_t shares = 1, share = 0;  // ranks that share each expert's features
  std::int64_t capacity = 0;           // rows of an expert at most; 0: no limit
  bool padded = false;                 // to the capacity, with rows of zeros
  std::int64_t held() const { return experts / parts; }  // experts of this rank
  std::int64_t copies() const { return tokens * per_token; }
};

class RoutingTable {
 public:
  static constexpr std::int64_t dropped = -1;

  explicit RoutingTable(const RoutingShape& shape);

  const RoutingShape& shape() const { return shape_; }
  // Experts of the copies of a token, in the order of its choices.
  std::span<std::int32_t> experts_of(std::int64_t token);
  std::span<const std::int32_t> experts_of(std::int64_t token) const;
  // Gives each copy its row, from experts_of() of all tokens. `weights`: of the copies; an expert
  // beyond its capacity keeps those with the largest (moe_token_drop_policy "probs").
  void place(std::span<const float> weights);
  // Row among the copies that are sent, or `dropped`.
  std::int64_t row_of(std::int64_t token, std::int64_t choice) const {
    return rows_[static_cast<std::size_t>(token * shape_.per_token + choice)];
  }
  std::span<const std::int64_t> chosen() const { return chosen_; }  // of each expert
  std::span<const std::int64_t> sent() const { return sent_; }      // rows of each expert
  std::int64_t rows_sent() const;

  // Rows of each expert of this rank that have come from part `part` of share `share`.
  std::span<std::int64_t> came(std::int64_t share, std::int64_t part);
  std::span<std::int64_t> came(std::int64_t share);  // of all parts, one behind the other
  std::int64_t rows_came(std::int64_t share, std::int64_t part) const;
  std::int64_t rows_came(std::int64_t share) const;
  // Behind the last came(): makes the order.
  void arrive();
  std::int64_t rows_arrived() const { return static_cast<std::int64_t>(order_.size()); }
  std::span<const std::int64_t> rows_of_experts() const { return held_; }
  // Where the copy that stands at `row` when sorted lay when it came.
  std::int64_t came_at(std::int64_t row) const { return order_[static_cast<std::size_t>(row)]; }

 private:
  void drop(std::span<const float> weights);

  RoutingShape shape_;
  std::vector<std::int32_t> experts_;               // [tokens, per_token]
  std::vector<std::int64_t> rows_, chosen_, sent_;  // rows: [tokens, per_token]
  std::vector<std::int64_t> came_, held_, order_;   // came: [shares, parts, held experts]
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
  // REQUIRES: is_of_experts(op).
  RoutingTable& of(const BoundOp& op);
  // The largest number of rows that are sent, and that come from the ranks with a share of the
  // experts: how large the plan's buffers are.
  std::int64_t planned_sent(const BoundOp& op) const;
  std::int64_t planned_came(const BoundOp& op) const;

  void begin_step();  // loads start anew
  void count(const BoundOp& op);
  std::vector<LayerLoad> loads() const;

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // layer, micro-batch
  struct Entry {
    std::unique_ptr<RoutingTable> table;
    std::int64_t planned_sent = 0, planned_came = 0;
  };
  Key key_of(const BoundOp& op) const;
  const Entry& entry(const BoundOp& op) const;
  RoutingShape shape_of(const BoundOp& chooses) const;

  const BoundProgram& program_;
  RouterScore score_;
  std::map<Key, Entry> entries_;
  std::map<std::int32_t, std::vector<std::int64_t>> loads_;
};

// Whether an operator chooses experts, moves copies of tokens or works on them.
bool is_of_experts(const BoundOp& op);

}  // namespace real
