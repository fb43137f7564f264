// Runs programs on names instead of numbers: every buffer holds what was last written to it ("the
// output of operator 7 for micro-batch 2, partial"), and every operand must hold what the chain
// rule asks for. Collectives change what is partial or sliced, never whose tensor it is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "tests/catch.hpp"

namespace sim::test {

enum class Kind { nothing, output, saved, gradient, target, sum, maximum };

struct Content {
  Kind kind = Kind::nothing;
  int op = -1;  // of the whole model, in forward order
  int microbatch = -1;
  bool partial = false;  // a sum over the tensor group is missing
  bool whole = true;     // all tokens
  bool operator==(const Content&) const = default;
};

std::string to_text(const Content& content);

// The operators of a model in a row.
struct Chain {
  std::vector<const ModelOp*> ops;
  std::vector<int> first_of_block;  // input block, layers, output block, end

  explicit Chain(const Model& model) {
    const auto add = [&](const Block& block) {
      first_of_block.push_back(static_cast<int>(ops.size()));
      for (const ModelOp& op : block.ops)
        ops.push_back(&op);
    };
    add(model.input);
    for (const Block& layer : model.layers)
      add(layer);
    add(model.output);
    first_of_block.push_back(static_cast<int>(ops.size()));
  }

  const ModelOp& at(int op) const { return *ops[static_cast<std::size_t>(op)]; }
  int of(const Site& site) const {
    const std::size_t layers = first_of_block.size() - 3;
    const std::size_t block = site.place == BlockPlace::input    ? 0
                              : site.place == BlockPlace::output ? layers + 1
                                                                 : 1 + std::size_t(site.layer);
    return first_of_block[block] + site.op;
  }
  int first_in_block(int op) const {
    int first = 0;
    for (const int begin : first_of_block)
      if (begin <= op) first = begin;
    return first;
  }
  // The operator that the sum at `op` begins its branch with.
  int branch_of(int op) const { return first_in_block(op) + at(op).residual_of; }
  // The sum whose branch `op` begins, or -1.
  int sum_of(int op) const {
    for (int later = op + 1; later < static_cast<int>(ops.size()); ++later) {
      if (first_in_block(later) != first_in_block(op)) break;
      if (at(later).residual_of >= 0 && branch_of(later) == op) return later;
    }
    return -1;
  }
  // Sums and added tables hand on the gradient of their output as it is.
  int gradient_of(int op) const {
    while (op + 1 < static_cast<int>(ops.size())) {
      const ModelOp& next = at(op + 1);
      const bool sum = next.residual_of >= 0 && next.backward_elements == 0;
      const bool table = next.kind == ModelOpKind::elementwise && next.weights > 0;
      if (!sum && !table) break;
      ++op;
    }
    return op;
  }
};

// The gradients of a bucket, counted in contributions of operators.
struct Gradients {
  int written = 0;     // by this rank, and still its own
  int reduced = 0;     // averaged over the ranks that share a copy
  int replicated = 0;  // and over the copies
};

// One program; fails at the first operand that is not what it should be.
class Interpreter {
 public:
  Interpreter(const Model& model, const Plan& plan, const Program& program)
      : chain_{model},
        in_slices_{model.execution.symmetric_memory},
        layout_{plan.layout},
        makes_again_{plan.layout.recompute == Recompute::operators &&
                     !keeps_tensors(model.execution, plan.layout)},
        program_{program},
        held_(program.buffers.size()),
        gradients_(program.buffers.size()) {}

  void run();

 private:
  const BufferUse* find(Role role) const {
    for (const BufferUse& use : program_.buffer_uses(now_))
      if (use.role == role) return &use;
    return nullptr;
  }
  Content& held(Role role) {
    const BufferUse* use = find(role);
    REQUIRE(use != nullptr);
    return held_[use->buffer.value];
  }
  Gradients& counted(Role role) {
    const BufferUse* use = find(role);
    REQUIRE(use != nullptr);
    return gradients_[use->buffer.value];
  }
  void expect(Role role, const Content& content) {
    INFO("role " << static_cast<int>(role) << " expects " << to_text(content) << ", holds "
                 << to_text(held(role)));
    REQUIRE((held(role) == content));
  }
  void expect_if_there(Role role, const Content& content) {
    if (find(role) != nullptr) expect(role, content);
  }
  int microbatch() const { return program_.label[now_.value].microbatch; }
  int op() const { return chain_.of(program_.sites[program_.subject[now_.value]]); }
  bool outside(int op) const { return chain_.at(op).split == TensorSplit::sequence; }
  // Tokens of a tensor between operators, by who uses it.
  bool whole_for(int op) const { return !layout_.sequence_parallel || !outside(op); }
  bool whole_after(int op) const {
    const TensorSplit split = chain_.at(op).split;
    const bool leaves = split == TensorSplit::sequence || split == TensorSplit::row ||
                        chain_.at(op).kind == ModelOpKind::embedding;
    return !layout_.sequence_parallel || !leaves;
  }
  Content output(int of, bool whole) const {
    return {Kind::output, of, microbatch(), false, whole};
  }
  Content gradient(int of, bool whole) const {
    return {Kind::gradient, chain_.gradient_of(of), microbatch(), false, whole};
  }
  bool sums_output(int op) const {
    const ModelOp& at = chain_.at(op);
    return layout_.tensor_parallel > 1 &&
           (at.split == TensorSplit::row || at.kind == ModelOpKind::embedding);
  }

  void forward();
  void backward();
  Content linear_input_gradient(int at) const;
  void linear_gradients(Action action);
  bool expect_kept_in_8_bits(int at);
  void gather(const Content& sliced);
  void sum(Content partial);
  const ModelOp& linear() { return chain_.at(op()); }
  bool part_of_input() { return linear().split == TensorSplit::column; }
  // Products that are cut into parts (chain_rule_slices.cpp).
  void exchange();
  void place_slice();
  void pull_slice();
  void add_slice(const BufferUse& to, Content content);
  void multiply_slice(Role operand_role, Role result_role, Content operand, Content result);
  void sum_slices();
  void multiply_part();
  void gradient_part();
  void scatter_part();

  void loss_part(Action action);
  void loss_reduction();
  int chunk_begin(int chunk) const;
  Content at_boundary(bool receives) const;
  // Operators on gradients (chain_rule_gradients.cpp).
  void reduction(Action action);
  void add_gradient();
  std::vector<int> writers_of_gradients() const;
  void adam();

  void step(Action action);

  Chain chain_;
  bool in_slices_;  // AsyncTP
  const Layout& layout_;
  bool makes_again_ = false;  // recomputation by operators: empty kernels for what was kept
  const Program& program_;
  OpId now_;
  std::vector<Content> held_;
  std::map<std::uint32_t, std::set<std::int16_t>> came_;  // slices of a buffer
  std::map<std::pair<std::uint32_t, std::int16_t>, Content> halves_;
  std::vector<Gradients> gradients_;
};

}  // namespace sim::test
