// Runs programs on names instead of numbers: every buffer holds what was last written to it ("the
// output of operator 7 for micro-batch 2, partial"), and every operand must hold what the chain
// rule asks for. Collectives change what is partial or sliced, never whose tensor it is.
#include <fmt/format.h>

#include <map>
#include <set>

#include "sim/model/framework.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

enum class Kind { nothing, output, saved, gradient, target, sum, maximum };

struct Content {
  Kind kind = Kind::nothing;
  int op = -1;  // of the whole model, in forward order
  int microbatch = -1;
  bool partial = false;  // a sum over the tensor group is missing
  bool whole = true;     // all tokens
  bool operator==(const Content&) const = default;
};

std::string to_text(const Content& content) {
  return fmt::format("kind {} op {} micro-batch {}{}{}", static_cast<int>(content.kind), content.op,
                     content.microbatch, content.partial ? ", partial" : "",
                     content.whole ? "" : ", sliced");
}

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

class Interpreter {
 public:
  Interpreter(const Model& model, const Plan& plan, const Program& program)
      : chain_{model},
        in_slices_{model.execution.symmetric_memory},
        layout_{plan.layout},
        program_{program},
        held_(program.buffers.size()),
        gradients_(program.buffers.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      now_ = OpId{i};
      INFO("operator " << i << " (" << program_.name(now_) << ") of stage " << program_.stage);
      step(program_.action[i]);
    }
  }

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

  void forward() {
    const int at = op();
    const ModelOp& model_op = chain_.at(at);
    const bool again = find(Role::output) == nullptr && model_op.kind == ModelOpKind::attention;
    if (model_op.in_place) {
      expect(Role::output, output(at - 1, true));
    } else if (find(Role::input) != nullptr) {
      // Where the output was kept, the input need not be gathered.
      const bool may_be_kept = layout_.recompute == Recompute::operators &&
                               program_.pass[now_.value] == Pass::recompute &&
                               model_op.kind == ModelOpKind::linear;
      expect(Role::input, output(at - 1, may_be_kept ? held(Role::input).whole : whole_for(at)));
    }
    if (model_op.residual_of >= 0) {
      const int first = chain_.branch_of(at);
      expect(Role::residual, output(first - 1, whole_for(at)));
    }
    if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, at, microbatch()};
    if (model_op.kind == ModelOpKind::cross_entropy) {
      held(Role::target_logit) = {Kind::target, at, microbatch()};
      held(Role::exponential_sum) = {Kind::sum, at, microbatch()};
    } else if (!again) {
      // What a recomputation by operators has kept is the sum already.
      const bool kept = layout_.recompute == Recompute::operators && sums_output(at) &&
                        program_.pass[now_.value] == Pass::recompute;
      const bool partial = sums_output(at) && !kept;
      const bool whole = kept ? whole_after(at) : partial || whole_for(at);
      held(Role::output) = {Kind::output, at, microbatch(), partial, whole};
    }
  }

  void backward() {
    const int at = op();
    const ModelOp& model_op = chain_.at(at);
    const Content saved{Kind::saved, at, microbatch()};
    expect_if_there(Role::saved, saved);
    if (model_op.kind == ModelOpKind::cross_entropy) {
      expect(Role::saved, saved);
      expect(Role::target_logit, {Kind::target, at, microbatch()});
      expect(Role::exponential_sum, {Kind::sum, at, microbatch()});
      held(Role::input_gradient) = gradient(at - 1, true);
      return;
    }
    expect_if_there(Role::input, output(at - 1, whole_for(at)));
    if (model_op.kind == ModelOpKind::attention) expect(Role::input, output(at - 1, true));
    if (model_op.backward_reads_output) expect(Role::saved_output, output(at, whole_for(at)));
    const bool adds_behind = model_op.residual_of >= 0 && find(Role::residual_gradient) != nullptr;
    if (adds_behind) {  // post-norm: the sum's second part
      const int first = chain_.branch_of(at);
      Content branch = gradient(first - 1, whole_for(at));
      branch.kind = Kind::nothing;
      expect(Role::gradient, branch);
      expect(Role::residual_gradient, gradient(at, whole_for(at)));
      held(Role::input_gradient) = gradient(first - 1, whole_for(at));
      return;
    }
    expect(Role::gradient, gradient(at, whole_for(at)));
    if (chain_.sum_of(at) >= 0) {
      expect(Role::residual_gradient, gradient(chain_.sum_of(at), whole_for(at)));
    }
    if (find(Role::input_gradient) != nullptr) {
      held(Role::input_gradient) = gradient(at - 1, whole_for(at));
    }
    if (find(Role::weight_gradient) != nullptr) ++counted(Role::weight_gradient).written;
  }

  // A branch that begins with a linear: its input gradient is not all of it yet.
  Content linear_input_gradient(int at) const {
    Content made = gradient(at - 1, true);
    if (chain_.sum_of(at) >= 0) made.kind = Kind::nothing;
    return made;
  }

  void linear_gradients(Action action) {
    const int at = op();
    const ModelOp& model_op = chain_.at(at);
    const bool row_bias = action == Action::bias_gradient && model_op.split == TensorSplit::row;
    expect(Role::gradient, gradient(at, row_bias ? whole_after(at) : whole_for(at)));
    if (action == Action::input_gradient) {
      Content made = linear_input_gradient(at);
      const bool split =
          model_op.split == TensorSplit::column || model_op.split == TensorSplit::vocabulary;
      made.partial = split && layout_.tensor_parallel > 1;
      held(Role::input_gradient) = made;
      return;
    }
    if (action == Action::weight_gradient && !expect_kept_in_8_bits(at))
      expect(Role::input, output(at - 1, whole_for(at)));
    ++counted(Role::weight_gradient).written;
  }

  bool expect_kept_in_8_bits(int at) {
    if (find(Role::saved) == nullptr || layout_.compute_dtype != DType::fp8) return false;
    expect(Role::saved, {Kind::saved, at, microbatch()});
    return true;
  }

  void gather(const Content& sliced) {
    if (find(Role::input) == nullptr) {
      REQUIRE(expect_kept_in_8_bits(op()));
    } else {
      expect(Role::input, sliced);
      if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, op(), microbatch()};
    }
    Content whole = sliced;
    whole.whole = true;
    held(Role::output) = whole;
  }

  // In place, or scattered over the tokens.
  void sum(Content partial) {
    partial.partial = true;
    const bool scatters = find(Role::input) != nullptr;
    expect(scatters ? Role::input : Role::output, partial);
    REQUIRE(scatters == layout_.sequence_parallel);
    partial.partial = false;
    partial.whole = !scatters;
    held(Role::output) = partial;
  }

  const ModelOp& linear() { return chain_.at(op()); }
  bool part_of_input() { return linear().split == TensorSplit::column; }

  // A slice of a column's input, or of the gradient of a row's output: the own one at first, then
  // what came before. When they have all come, the tensor is whole.
  void exchange() {
    const Content own = part_of_input() ? output(op() - 1, false) : gradient(op(), false);
    Content whole = own;
    whole.whole = true;
    const bool first = !(held(Role::input) == whole);
    if (first && part_of_input()) expect(Role::input, own);
    held(Role::output) = whole;
  }

  // Slices in symmetric memory: the own one of a tensor that is gathered, or in its halves those
  // that are made for partners.
  void place_slice() {
    const bool backward = find(Role::gradient) != nullptr;
    const Content own = backward ? gradient(op(), false) : output(op() - 1, false);
    expect(backward ? Role::gradient : Role::input, own);
    held(Role::workspace) = held(Role::output) = own;
    came_[find(Role::output)->buffer.value] = {find(Role::output)->part};
  }

  void pull_slice() {
    const BufferUse& from = *find(Role::input);
    const BufferUse& to = *find(Role::output);
    const bool gathers = from.part == BufferUse::whole;
    const auto half = halves_.find({from.buffer.value, from.part});
    REQUIRE(gathers != (half != halves_.end()));
    add_slice(to, gathers ? held_[from.buffer.value] : half->second);
    if (!gathers) halves_.erase(half);
  }

  void add_slice(const BufferUse& to, Content content) {
    std::set<std::int16_t>& slices = came_[to.buffer.value];
    REQUIRE(slices.insert(to.part).second);
    content.whole = std::ssize(slices) == layout_.tensor_parallel;
    held_[to.buffer.value] = content;
  }

  // A product of a slice that has come, or one that is made for a partner or for the rank itself.
  void multiply_slice(Role operand_role, Role result_role, Content operand, Content result) {
    const BufferUse& from = *find(operand_role);
    const BufferUse& to = *find(result_role);
    if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, op(), microbatch()};
    if (from.part != BufferUse::whole) {
      operand.whole = held(operand_role).whole;
      expect(operand_role, operand);
      REQUIRE(came_[from.buffer.value].contains(from.part));
      held(result_role) = result;
      return;
    }
    expect(operand_role, operand);
    result.partial = true;
    if (program_.buffers[to.buffer.value].persistent) {
      REQUIRE(halves_.try_emplace({to.buffer.value, to.part}, result).second);
    } else {
      add_slice(to, result);
    }
  }

  void sum_slices() {
    Content partial = held(Role::input);
    REQUIRE(partial.partial);
    REQUIRE(partial.whole);
    partial.partial = partial.whole = false;
    held(Role::output) = partial;
  }

  void multiply_part() {
    const int at = op();
    if (in_slices_)
      return multiply_slice(Role::input, Role::output, output(at - 1, true), output(at, true));
    if (part_of_input()) {
      const bool own = !held(Role::input).whole;
      expect(Role::input, output(at - 1, !own));
    } else {
      expect(Role::input, output(at - 1, true));
    }
    if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, at, microbatch()};
    held(Role::output) = {Kind::output, at, microbatch(), sums_output(at), true};
  }

  void gradient_part() {
    if (in_slices_)
      return multiply_slice(Role::gradient, Role::input_gradient, gradient(op(), true),
                            linear_input_gradient(op()));
    expect(Role::gradient, gradient(op(), true));
    held(Role::input_gradient) = linear_input_gradient(op());
  }

  void scatter_part() {
    Content partial = output(op(), true);
    partial.partial = true;
    expect(Role::input, partial);
    held(Role::output) = output(op(), false);
  }

  void loss_part(Action action) {
    const int at = op();
    const Content maximum{Kind::maximum, at, microbatch()};
    if (action == Action::loss_maximum) {
      expect(Role::input, output(at - 1, true));
      held(Role::maximum) = {Kind::maximum, at, microbatch(), true};
      return;
    }
    expect(Role::maximum, maximum);
    if (find(Role::input) != nullptr) {
      expect(Role::input, output(at - 1, true));
    } else {
      expect(Role::saved, output(at - 1, true));  // the logits, in place
    }
    held(Role::saved) = {Kind::saved, at, microbatch()};
    held(Role::target_logit) = {Kind::target, at, microbatch(), true};
    held(Role::exponential_sum) = {Kind::sum, at, microbatch(), true};
  }

  void loss_reduction() {
    REQUIRE(held(Role::output).partial);
    held(Role::output).partial = false;
  }

  // The tensor at a boundary of this stage's chunk, as its label says.
  int chunk_begin(int chunk) const {
    const std::size_t layers = chain_.first_of_block.size() - 3;
    const std::size_t per_chunk = layers / static_cast<std::size_t>(layout_.chunks());
    return chain_.first_of_block[1 + per_chunk * static_cast<std::size_t>(chunk)];
  }
  Content at_boundary(bool receives) const {
    const int chunk = program_.label[now_.value].chunk;
    const bool forward = program_.pass[now_.value] == Pass::forward;
    const int begin = chunk_begin(forward == receives ? chunk : chunk + 1);
    const bool whole = !layout_.sequence_parallel;
    return forward ? output(begin - 1, whole) : gradient(begin - 1, whole);
  }

  void reduction(Action action) {
    Gradients& to = counted(Role::output);
    const Gradients from = find(Role::input) != nullptr ? counted(Role::input) : to;
    switch (action) {
      case Action::reduce:
        to = {0, from.written, 0};
        break;
      case Action::replicate:
        REQUIRE(to.written == 0);
        to.replicated = to.reduced;
        break;
      case Action::accumulate:
        to.reduced += from.reduced;
        break;
      default:
        to = from;  // casts
    }
    for (const BufferUse& use : program_.buffer_uses(now_))
      if (use.access == Access::free) gradients_[use.buffer.value] = {};
  }

  void adam() {
    std::vector<int> writers(program_.parameter_buckets.size());
    for (std::uint32_t i = 0; i < now_.value; ++i) {
      for (const BufferUse& use : program_.buffer_uses(OpId{i})) {
        if (use.role != Role::weight_gradient) continue;
        const Site& site = program_.sites[program_.subject[i]];
        ++writers[site.bucket];
      }
    }
    for (std::size_t i = 0; i < writers.size(); ++i) {
      const ParameterBucket& bucket = program_.parameter_buckets[i];
      const bool sharded = bucket.gradient_shard.value != UINT32_MAX;
      const Gradients& got = gradients_[(sharded ? bucket.gradient_shard : bucket.gradient).value];
      INFO("bucket " << i << ": written " << got.written << " reduced " << got.reduced
                     << " replicated " << got.replicated << " of " << writers[i]);
      if (layout_.data_parallel == 1) {
        REQUIRE(got.written == writers[i]);
        continue;
      }
      REQUIRE(got.written == 0);
      REQUIRE(got.reduced == writers[i]);
      const bool hybrid = bucket.shards > 1 && bucket.shards < layout_.data_parallel;
      REQUIRE(got.replicated == (hybrid ? writers[i] : 0));
    }
  }

  void step(Action action) {
    switch (action) {
      case Action::forward:
        return forward();
      case Action::backward:
        return backward();
      case Action::input_gradient:
      case Action::weight_gradient:
      case Action::bias_gradient:
        return linear_gradients(action);
      case Action::exchange_part:
        return exchange();
      case Action::multiply_part:
        return multiply_part();
      case Action::gradient_part:
        return gradient_part();
      case Action::scatter_part:
        return scatter_part();
      case Action::place_slice:
        return place_slice();
      case Action::pull_slice:
        return pull_slice();
      case Action::sum_slices:
        return sum_slices();
      case Action::loss_maximum:
      case Action::loss_exponentials:
        return loss_part(action);
      case Action::reduce_maximum:
      case Action::reduce_sum:
        return loss_reduction();
      case Action::gather_input:
        return gather(output(op() - 1, false));
      case Action::gather_gradient:
        return gather(gradient(op(), false));
      case Action::sum_output:
        return sum(output(op(), true));
      case Action::sum_gradient:
        return sum(linear_input_gradient(op()));
      case Action::send:
        return expect(Role::input, at_boundary(false));
      case Action::receive:
      case Action::gather_received:
        held(Role::output) = at_boundary(true);
        return;
      case Action::cast_out:
      case Action::reduce:
      case Action::replicate:
      case Action::accumulate:
      case Action::cast_in:
        return reduction(action);
      case Action::adam:
        return adam();
      default:
        return;
    }
  }

  Chain chain_;
  bool in_slices_;  // AsyncTP
  const Layout& layout_;
  const Program& program_;
  OpId now_;
  std::vector<Content> held_;
  std::map<std::uint32_t, std::set<std::int16_t>> came_;  // slices of a buffer
  std::map<std::pair<std::uint32_t, std::int16_t>, Content> halves_;
  std::vector<Gradients> gradients_;
};

}  // namespace

TEST_CASE("Every operand holds what the chain rule asks for", "[plan][property]") {
  std::vector<Model> models;
  models.reserve(test::transformer_kinds);
  for (int kind = 0; kind < test::transformer_kinds; ++kind)
    models.push_back(test::transformer(kind));
  // The same by a compiler, with tensor parallelism of its own and recomputation that ends early.
  for (int kind = 0; kind < test::transformer_kinds; ++kind) {
    models.push_back(test::transformer(kind));
    test::run_compiled(models.back().execution);
    models.back().execution.stops_recomputation = true;
  }
  int legal = 0, in_slices = 0;
  for (std::uint64_t seed = 20000; seed < 23000; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.context_parallel = 1;  // refused by the real engine
    if (seed % 3 == 0) {
      layout.activation_dtype = layout.compute_dtype = DType::fp32;
      layout.eight_bit_parameters = false;
    }
    const auto kind = static_cast<std::size_t>(seed % models.size());
    if (!layout_problems(layout, models[kind]).empty()) continue;
    ++legal;
    in_slices += models[kind].execution.symmetric_memory && layout.cuts_products() ? 1 : 0;
    CAPTURE(seed, kind, test::to_text(layout));
    const Plan plan = make_plan(models[kind], layout);
    for (const Program& program : plan.programs)
      Interpreter{models[kind], plan, program}.run();
  }
  CHECK(legal > 600);
  CHECK(in_slices > 40);
}
