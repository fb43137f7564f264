// From buffers, sites and buckets to places in the arena.
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "real/engine/bind_buckets.hpp"
#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/adapters.hpp"
#include "real/engine/model_sites.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace real {

using sim::Access;
using sim::Action;
using sim::BufferUse;
using sim::OpId;
using sim::Program;
using sim::Role;

namespace {

// The part of a site's parameters that an operator writes the gradient of.
enum class GradientPart : std::uint8_t { all, matrix, bias };

GradientPart gradient_part(Action action) {
  if (action == Action::weight_gradient) return GradientPart::matrix;
  if (action == Action::bias_gradient) return GradientPart::bias;
  return GradientPart::all;
}

class Binder {
 public:
  Binder(const sim::Plan& plan, const sim::Model& model, sim::RankId rank)
      : plan_{plan}, program_{plan.program(rank)}, arena_{sim::arena_layout(program_)} {
    bound_.plan = &plan;
    bound_.model = &model;
    bound_.program = &program_;
    bound_.rank = rank;
    bound_.at = sim::coordinates_of(plan.layout, rank);
    bound_.arena_bytes = arena_.size.count();
    bound_.host_bytes = arena_.host.count();
    bound_.host_on_disk = plan.layout.uses_disk();
  }

  BoundProgram run() {
    bind_groups();
    if (plan_.layout.trains_adapters()) place_frozen();
    bind_buckets(bound_, arena_);
    survey();
    bound_.signals.assign(program_.size(), false);
    bound_.ops.reserve(program_.size());
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      bind_op(OpId{i});
      for (const OpId earlier : program_.dependencies(OpId{i}))
        bound_.signals[earlier.value] = true;
    }
    return std::move(bound_);
  }

 private:
  void bind_groups() {
    const auto& of_role = plan_.group_of[bound_.rank.value];
    for (std::size_t role = 0; role < of_role.size(); ++role) {
      if (of_role[role] == sim::Plan::no_group) continue;
      BoundGroup& group = bound_.groups[role];
      group.index = of_role[role];
      group.ranks = plan_.groups[group.index].ranks;
      while (group.ranks[static_cast<std::size_t>(group.position)] != bound_.rank)
        ++group.position;
    }
  }

  // Products of a linear in one pass of a micro-batch.
  struct LinearPass {
    int products = 0;
    std::int64_t features = 0;  // of those that were bound
  };
  using PassKey = std::tuple<std::uint32_t, std::int32_t, sim::Pass, Action>;

  static bool is_product(Action action, const sim::ModelOp& op) {
    return op.kind == sim::ModelOpKind::linear &&
           (action == Action::forward || action == Action::input_gradient ||
            action == Action::weight_gradient);
  }

  // The model operator of an operator; null: it works on no site.
  const sim::ModelOp* model_op_of(std::size_t i) const {
    if (!subject_is_site(program_.action[i]) || program_.subject[i] == Program::no_subject)
      return nullptr;
    return &model_op(*bound_.model, program_.sites[program_.subject[i]]);
  }

  PassKey pass_of(std::size_t i) const {
    return {program_.subject[i], program_.label[i].microbatch, program_.pass[i],
            program_.action[i]};
  }

  // survey() finds what later operators say of earlier ones.
  void survey() {
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      is_zeroed_ = is_zeroed_ || program_.action[i] == Action::zero_gradients;
      if (program_.action[i] == Action::add_weight_gradient)
        for (const BufferUse& use : program_.buffer_uses(OpId{i}))
          if (use.role == Role::input) added_later_.insert(use.buffer.value);
      const sim::ModelOp* op = model_op_of(i);
      if (op != nullptr && is_product(program_.action[i], *op))
        ++linear_passes_[pass_of(i)].products;
    }
  }

  void bind_product(std::size_t i, BoundOp& to) {
    LinearPass& pass = linear_passes_.at(pass_of(i));
    to.products = pass.products;
    to.first_feature = pass.features;
    pass.features += features_of(to);
  }

  void bind_op(OpId op) {
    const std::size_t i = op.value;
    BoundOp& to = bound_.ops.emplace_back();
    to.kind = program_.kind[i];
    to.action = program_.action[i];
    to.stream = program_.stream[i];
    to.pass = program_.pass[i];
    to.microbatch = program_.label[i].microbatch;
    to.subject = program_.subject[i];
    const std::uint32_t work = program_.work[i];
    if (sim::runs_kernel(to.kind)) to.kernel = &program_.kernels[work];
    if (to.kind == sim::OpKind::collective) to.collective = &program_.collectives[work];
    if (to.kind == sim::OpKind::send || to.kind == sim::OpKind::recv)
      to.transfer = &program_.transfers[work];
    to.model_op = model_op_of(i);
    const sim::Site* site = to.model_op != nullptr ? &program_.sites[to.subject] : nullptr;
    if (to.model_op != nullptr && is_product(to.action, *to.model_op)) bind_product(i, to);
    const bool of_context =
        to.action >= Action::shift_keys && to.action <= Action::order_behind_exchange;
    if (of_context || to.action == Action::adapt) to.turn = turns_[pass_of(i)]++;
    bind_operands(op, site, to);
    if (site != nullptr && !bound_.frozen.empty()) bind_frozen(to);
    bind_codes(to);
  }

  // The codes of a weight, cast once per step, are no operand of the products that read them.
  void bind_codes(BoundOp& to) {
    Operand& codes = to.operands[static_cast<std::size_t>(Role::encoded_weight)];
    if (to.action == Action::encode && codes.exists()) codes_of_site_[to.subject] = codes;
    const bool multiplies = to.kernel != nullptr && sim::is_quantized(to.kernel->dtype) &&
                            (to.action == Action::forward || to.action == Action::input_gradient);
    if (multiplies) codes = codes_of_site_[to.subject];
  }

  void place_frozen() {
    for (const sim::Site& site : program_.sites) {
      const std::int64_t elements = frozen_elements(model_op(*bound_.model, site));
      bound_.frozen.push_back(elements == 0 ? -1 : bound_.arena_bytes + bound_.host_bytes);
      bound_.host_bytes += elements * sim::bytes_of(plan_.layout.activation_dtype);
    }
  }

  // An adapter's first product makes what its linear is said to keep.
  void bind_frozen(BoundOp& to) {
    const auto slot = [](Role role) { return static_cast<std::size_t>(role); };
    if (to.action == Action::adapt) {
      if (to.turn == 0 && to.pass != sim::Pass::backward)
        to.operands[slot(Role::saved)] = kept_by_linear_[{to.subject, to.microbatch, to.pass}];
      return;
    }
    const std::int64_t offset = bound_.frozen[to.subject];
    if (offset < 0) return;
    const std::int64_t element = sim::bytes_of(plan_.layout.activation_dtype);
    to.operands[slot(Role::weight)] = {offset, frozen_elements(*to.model_op) * element};
    const bool adapted = program_.sites[to.subject].elements > 0;
    if (!adapted || to.action != Action::forward) return;
    kept_by_linear_[{to.subject, to.microbatch, to.pass}] =
        std::exchange(to.operands[slot(Role::saved)], Operand{});
  }

  // State is found through the buckets, but that of meetings, which may come from the host. Buffers
  // of parameters that the operator only happens to free, as the last one issued, are none of its
  // operands.
  void bind_operands(OpId op, const sim::Site* site, BoundOp& to) {
    const auto uses = program_.buffer_uses(op);
    const std::size_t first = program_.first_buffer_use[op.value];
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const BufferUse& use = uses[i];
      const std::int64_t offset = arena_.offset_of_use[first + i];
      if (use.role == Role::state && !sim::is_of_meeting(to.action)) continue;
      const sim::Buffer& buffer = program_.buffers[use.buffer.value];
      Operand operand{offset, (buffer.size + buffer.host).count()};
      if (use.role == Role::weight) {
        if (!reads_weight_of(site, use.buffer)) continue;
        operand = part_of(*site, operand, sim::bytes_of(plan_.layout.activation_dtype));
      }
      if (use.role == Role::weight_gradient) {
        SIM_CHECK(site != nullptr, op.value);
        const bool apart = added_later_.contains(use.buffer.value);
        to.gradient_dtype = apart ? sim::written_gradient_dtype(*bound_.model, plan_.layout)
                                  : plan_.layout.gradient_dtype;
        if (!apart) operand = part_of(*site, operand, sim::bytes_of(to.gradient_dtype));
        to.accumulate = was_written(use.buffer, *site, to);
      }
      Operand& slot = to.operands[static_cast<std::size_t>(use.role)];
      SIM_CHECK(!slot.exists() || slot.offset == operand.offset, op.value,
                static_cast<int>(use.role));
      slot = operand;
    }
    for (const BufferUse& use : uses) {
      if (use.access == Access::free) end_life(use.buffer);
    }
  }

  bool reads_weight_of(const sim::Site* site, sim::BufferId buffer) const {
    if (site == nullptr || site->elements == 0) return false;
    return program_.parameter_buckets[site->bucket].weight == buffer;
  }

  static Operand part_of(const sim::Site& site, const Operand& bucket, std::int64_t element) {
    const Operand part{bucket.offset + site.first * element, site.elements * element};
    SIM_CHECK((site.first + site.elements) * element <= bucket.bytes, site.first, site.elements,
              bucket.bytes);
    return part;
  }

  // Whether these gradients hold something that counts: persistent ones may be zeroed at the start
  // of the step, others are begun by whoever writes them first. A tied head and its table have one
  // place. The two factors of an adapter are written one by one, and so are the matrices of
  // products.
  bool was_written(sim::BufferId buffer, const sim::Site& site, const BoundOp& op) {
    if (program_.buffers[buffer.value].persistent && is_zeroed_) return true;
    const GradientPart part = gradient_part(op.action);
    if (op.model_op->biases == 0) SIM_CHECK(part != GradientPart::bias, site.first);
    const bool second =
        part == GradientPart::bias || (op.action == Action::adapt && op.turn == adapter_up_weight);
    const std::int64_t first = site.first + op.first_feature * op.model_op->in_features;
    return !written_.insert({buffer.value, second ? -1 - first : first}).second;
  }

  void end_life(sim::BufferId buffer) {
    written_.erase(written_.lower_bound({buffer.value, INT64_MIN}),
                   written_.upper_bound({buffer.value, INT64_MAX}));
  }

  const sim::Plan& plan_;
  const Program& program_;
  sim::ArenaLayout arena_;
  BoundProgram bound_;
  std::set<std::pair<std::uint32_t, std::int64_t>> written_;  // gradients of lives under way
  std::map<PassKey, int> turns_;
  std::map<PassKey, LinearPass> linear_passes_;
  bool is_zeroed_ = false;               // gradients, at the start of the step
  std::set<std::uint32_t> added_later_;  // gradients that are added to those of a bucket
  std::map<std::tuple<std::uint32_t, std::int32_t, sim::Pass>, Operand> kept_by_linear_;
  std::map<std::uint32_t, Operand> codes_of_site_;
};

}  // namespace

bool subject_is_site(Action action) {
  return action <= Action::add_weight_gradient;
}

const sim::Block& block_of(const sim::Model& model, const sim::Site& site) {
  if (site.place == sim::BlockPlace::input) return model.input;
  if (site.place == sim::BlockPlace::output) return model.output;
  return model.layers.at(static_cast<std::size_t>(site.layer));
}

const sim::ModelOp& model_op(const sim::Model& model, const sim::Site& site) {
  return block_of(model, site).ops.at(static_cast<std::size_t>(site.op));
}

std::int64_t features_of(const BoundOp& product) {  // m, n, k: Kernel in sim/program/op_work.hpp
  const sim::Kernel& kernel = *product.kernel;
  if (product.action == Action::forward) return kernel.n;
  return product.action == Action::input_gradient ? kernel.k : kernel.m;
}

std::int64_t frozen_elements(const sim::ModelOp& op) {
  const bool tied = op.tied_to_embedding;
  return (tied ? op.in_features * op.out_features : static_cast<std::int64_t>(op.weights)) +
         static_cast<std::int64_t>(op.biases);
}

BoundProgram bind(const sim::Plan& plan, const sim::Model& model, sim::RankId rank) {
  return Binder{plan, model, rank}.run();
}

}  // namespace real
