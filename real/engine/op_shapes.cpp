#include "real/engine/op_shapes.hpp"

#include <algorithm>

#include "real/engine/data/tokens.hpp"
#include "real/engine/eight_bit.hpp"
#include "real/engine/kernels/lamb.hpp"
#include "real/engine/model_sites.hpp"
#include "sim/base/check.hpp"
#include "sim/model/key_heads.hpp"

namespace real {

using sim::Action;
using sim::Function;
using sim::Role;

namespace {

std::int64_t rows_of(std::int64_t bytes, std::int64_t width, sim::DType dtype) {
  const std::int64_t row = width * sim::bytes_of(dtype);
  SIM_CHECK(row > 0 && bytes % row == 0, bytes, row);
  return bytes / row;
}

}  // namespace

OpShapes::OpShapes(const BoundProgram& program)
    : program_{program},
      model_{*program.model},
      layout_{program.plan->layout},
      tensor_{program.plan->layout.tensor_parallel},
      tensor_rank_{program.at.tensor},
      tokens_{layout_.micro_batch * layout_.tokens_held()} {}

std::int64_t OpShapes::split(const BoundOp& op) const {
  return op.model_op->split == sim::TensorSplit::inner ? tensor_ : 1;
}

bool OpShapes::is_head_norm(const BoundOp& op) const {
  return op.model_op->split == sim::TensorSplit::inner && is_norm(op.model_op->function);
}

kernels::NormShape OpShapes::norm(const BoundOp& op) const {
  // Forward writes the output, backward reads its gradient: both have the shape of the input.
  const Operand& rows = op.operand(op.action == Action::forward ? Role::output : Role::gradient);
  const std::int64_t width = op.model_op->in_features;
  return {.function = op.model_op->function,
          .dtype = activations(),
          .rows = rows_of(rows.bytes, width, activations()),
          .width = width,
          .epsilon = kernels::norm_epsilon};
}

kernels::HeadsShape OpShapes::heads(std::int64_t bytes) const {
  kernels::HeadsShape shape{
      .dtype = activations(),
      .tokens = 0,
      .sequence = token_rows(layout_).held(),
      .heads = model_.attention.heads / tensor_,
      .kv_heads = shares_key_heads() ? 1 : model_.attention.kv_heads / tensor_,
      .head_dim = model_.attention.head_dim,
      .context = context_share(program_),
      .value_dim = 0,
      .rotary_dim = rotary_dim(model_)};
  shape.tokens = shares_key_heads() ? tokens_ : rows_of(bytes, shape.row(), shape.dtype);
  return shape;
}

std::int64_t OpShapes::turned(const BoundOp& op) const {
  if (op.model_op == nullptr) return 0;
  if (op.model_op->function == Function::rotary) return rotary_dim(model_);
  return op.model_op->function == Function::latent_rotary ? model_.shape->latent.rotary_dim : 0;
}

// The rank's heads lie at the start of a tensor that has room for those of all ranks.
bool OpShapes::shares_key_heads() const {
  return sim::shares_key_heads(model_, static_cast<int>(tensor_));
}

kernels::SharedHeads OpShapes::shared_heads() const {
  const sim::AttentionShape& all = model_.attention;
  const std::int64_t d = all.head_dim, queries = all.heads * d / tensor_;
  const std::int64_t key = tensor_rank_ * all.kv_heads / tensor_;
  return {.dtype = activations(),
          .tokens = tokens_,
          .ranks = tensor_,
          .features = (all.heads + 2 * all.kv_heads) * d,
          .own = {{{tensor_rank_ * queries, queries},
                   {(all.heads + key) * d, d},
                   {(all.heads + all.kv_heads + key) * d, d}}}};
}

kernels::AttentionShape OpShapes::attention(const BoundOp& op) const {
  return {.heads = {.dtype = activations(),
                    .tokens = op.kernel->batch * op.kernel->m,
                    .sequence = op.kernel->m,
                    .heads = op.kernel->heads,
                    .kv_heads = op.kernel->kv_heads,
                    .head_dim = op.kernel->k,
                    .value_dim = op.kernel->values},
          .causal = op.kernel->causal,
          .fused = sim::is_flash(op.kernel->attention),
          .rules = {},
          .window = sim::is_shorter(op.model_op->window, op.kernel->m) ? op.model_op->window : 0};
}

kernels::LatentHeads OpShapes::latent_heads() const {
  const sim::LatentAttention& latent = model_.shape->latent;
  return {.dtype = activations(),
          .tokens = {.tokens = tokens_,
                     .sequence = token_rows(layout_).held(),
                     .first_token = 0,
                     .context = context_share(program_)},
          .heads = model_.attention.heads,
          .plain = latent.plain_dim,
          .rotary = latent.rotary_dim,
          .value = latent.value_dim};
}

kernels::SplitRows OpShapes::latent_rows() const {
  const sim::LatentAttention& latent = model_.shape->latent;
  return {.dtype = activations(),
          .rows = tokens_,
          .first = latent.key_value_rank,
          .second = latent.rotary_dim};
}

bool OpShapes::makes_rotary_keys(const BoundOp& op) const {
  if (!model_.has_latent_attention() || op.model_op->kind != sim::ModelOpKind::linear) return false;
  return next_is_narrower(program_.program->sites.at(op.subject), 0);
}

bool OpShapes::passes_rotary_keys(const BoundOp& op) const {
  if (!model_.has_latent_attention() || !is_norm(op.model_op->function)) return false;
  return next_is_narrower(program_.program->sites.at(op.subject), -1);
}

// Whether the norm behind the operator at this place takes fewer features than that makes.
bool OpShapes::next_is_narrower(const sim::Site& site, int offset) const {
  if (site.place != sim::BlockPlace::layer) return false;
  const std::vector<sim::ModelOp>& ops = block_of(model_, site).ops;
  const auto at = static_cast<std::size_t>(site.op + offset);
  return site.op + offset >= 0 && at + 1 < ops.size() && ops[at].kind == sim::ModelOpKind::linear &&
         is_norm(ops[at + 1].function) && ops[at + 1].in_features < ops[at].out_features;
}

kernels::ActivationShape OpShapes::activation(const BoundOp& op) const {
  const std::int64_t width = op.model_op->out_features / split(op);
  const Operand& rows = op.operand(op.action == Action::forward ? Role::output : Role::gradient);
  return {.function = op.model_op->function,
          .dtype = activations(),
          .rows = rows_of(rows.bytes, width, activations()),
          .width = width};
}

kernels::ChoiceShape OpShapes::choice(const BoundOp& op) const {
  const Role role = op.action == Action::choose ? Role::choice_weights : Role::choice_gradient;
  return {.dtype = activations(),
          .routing = routing_of(model_, rows_of(op.operand(role).bytes, 1, sim::DType::fp32))};
}

kernels::CopyShape OpShapes::copies(const BoundOp& op) const {
  const std::int64_t width = op.model_op->in_features;
  const Operand& copies = op.operand(is_to_experts(op) ? Role::output : Role::input);
  return {.dtype = activations(),
          .routing = routing_of(model_, rows_of(copies.bytes, width, activations())),
          .width = width};
}

kernels::SortShape OpShapes::sorted(const BoundOp& op) const {
  const std::int64_t width = op.model_op->in_features;
  const std::int64_t rows = rows_of(op.operand(Role::output).bytes, width, activations());
  return {.dtype = activations(), .arrived = arrived_at(program_, rows), .width = width};
}

kernels::WeighedShape OpShapes::weighed(const BoundOp& op) const {
  const std::int64_t rows = rows_of(op.operand(Role::choice_weights).bytes, 1, sim::DType::fp32);
  return {.function = op.model_op->function,
          .dtype = activations(),
          .arrived = arrived_at(program_, rows),
          .width = op.model_op->out_features / feature_share(program_, *op.model_op).ranks};
}

std::int64_t OpShapes::inputs_of_linear(const BoundOp& op) const {
  const bool row = op.model_op->split == sim::TensorSplit::row;
  return op.model_op->in_features / (row ? tensor_ : 1);
}

std::int64_t OpShapes::matrix_elements(const BoundOp& op, std::int64_t all) const {
  if (op.model_op->kind != sim::ModelOpKind::linear || op.model_op->biases == 0) return all;
  const std::int64_t in = inputs_of_linear(op);
  return all / (in + 1) * in;
}

kernels::ColumnSum OpShapes::bias_sum(const BoundOp& op) const {
  // The site's gradient is a matrix [out, in] and the bias [out]: (in + 1) out elements.
  const std::int64_t in = inputs_of_linear(op);
  const std::int64_t out =
      rows_of(op.operand(Role::weight_gradient).bytes, in + 1, op.gradient_dtype);
  // The plan's gradient of the narrow product is without its rotary keys.
  const bool whole = !makes_rotary_keys(op);
  return {.dtype = activations(),
          .gradient_dtype = op.gradient_dtype,
          .rows = whole ? rows_of(op.operand(Role::gradient).bytes, out, activations()) : tokens_,
          .width = out,
          .accumulate = op.accumulate};
}

kernels::TableShape OpShapes::table(const BoundOp& op, const Operand& parameters,
                                    sim::DType parameter_dtype) const {
  const std::int64_t width = op.model_op->out_features;
  const std::int64_t rows = rows_of(parameters.bytes, width, parameter_dtype);
  const bool sliced = op.model_op->split == sim::TensorSplit::vocabulary;
  return {.dtype = activations(),
          .first_row = sliced ? tensor_rank_ * rows : 0,
          .rows = rows,
          .width = width};
}

kernels::Positions OpShapes::positions(const BoundOp& op, std::int64_t bytes) const {
  const std::int64_t tokens = rows_of(bytes, op.model_op->out_features, activations());
  const bool sliced = layout_.sequence_parallel && tensor_ > 1;
  SIM_CHECK(tokens * (sliced ? tensor_ : 1) == tokens_, tokens, tokens_);
  return {.tokens = tokens,
          .sequence = token_rows(layout_).held(),
          .first_token = sliced ? tensor_rank_ * tokens : 0,
          .context = context_share(program_)};
}

kernels::LossShape OpShapes::loss(const BoundOp& op) const {
  // fp32 exponentials may take the place of fp32 logits: there is no input then.
  const Operand& input = op.operand(Role::input);
  const bool logits = input.exists();
  const std::int64_t bytes = logits ? input.bytes : op.operand(Role::saved).bytes;
  kernels::LossShape shape{.dtype = activations()};
  const sim::DType dtype = logits ? activations() : sim::DType::fp32;
  const std::int64_t row = rows(op) * sim::bytes_of(dtype);
  SIM_CHECK(bytes % row == 0, bytes, row);
  const bool sliced = op.model_op->split == sim::TensorSplit::vocabulary;
  shape.classes = bytes / row;
  shape.first = sliced ? tensor_rank_ * shape.classes : 0;
  shape.valid = std::clamp<std::int64_t>(op.model_op->in_features - shape.first, 0, shape.classes);
  return shape;
}

GemmShape OpShapes::gemm(const BoundOp& op) const {
  const sim::Kernel& kernel = *op.kernel;
  GemmShape shape{.dtype = activations(), .output = activations()};
  shape.out = features_of(op);
  switch (op.action) {
    case Action::forward:
      shape.pass = GemmPass::forward;
      shape.tokens = kernel.m, shape.in = kernel.k;
      // The outputs of a row-split product are summed over the tensor group: one rank adds the
      // bias.
      shape.bias = op.model_op->biases > 0 &&
                   (op.model_op->split != sim::TensorSplit::row || tensor_rank_ == 0);
      break;
    case Action::input_gradient:
      shape.pass = GemmPass::input_gradient;
      shape.tokens = kernel.m, shape.in = kernel.n;
      // Each of several products has a gradient of its own, or they have one together.
      shape.accumulate = op.first_feature > 0 && op.model_op->products == 1;
      break;
    default:
      shape.pass = GemmPass::weight_gradient;
      shape.tokens = kernel.k, shape.in = kernel.n;
      shape.output = op.gradient_dtype;
      shape.accumulate = op.accumulate;
      shape.scale = gradient_scale(program_, *op.model_op);
  }
  if (op.products > 1) {
    const Operand& rows = op.operand(op.action == Action::forward ? Role::output : Role::gradient);
    shape.stride = rows.bytes / (shape.tokens * kernel.batch * sim::bytes_of(activations()));
  }
  if (is_coded(op)) shape.coded = coded_operands(model_.execution.eight_bit, shape.pass);
  return shape;
}

kernels::TokenIds OpShapes::ids(const BoundOp& op, const std::int32_t* all,
                                std::int64_t shift) const {
  const TokenRows rows = token_rows(layout_);
  return {
      .ids = all + op.microbatch * layout_.micro_batch * rows.of_sequence * rows.width() + shift,
      .tokens = tokens_,
      .sequence = rows.tokens,
      .stride = rows.width()};
}

kernels::TokenIds OpShapes::labels(const BoundOp& op, const std::int32_t* all) const {
  const kernels::TokenIds tokens = ids(op, all, layout_.sequence_length);
  return {.ids = tokens.ids, .tokens = layout_.micro_batch, .sequence = 1, .stride = tokens.stride};
}

std::int64_t OpShapes::rows(const BoundOp& op) const {
  return op.model_op->once_per_sequence ? layout_.micro_batch : tokens_;
}

std::int64_t OpShapes::first_sequence(const BoundOp& op) const {
  const std::int64_t before = layout_.batches_before(program_.at.data) + op.microbatch;
  return before * layout_.micro_batch * token_rows(layout_).samples;
}

// Behind an exchange of heads a rank has some of those of its tensor rank.
std::int64_t OpShapes::first_head(const BoundOp& op, const FeatureShare& share) const {
  const std::int64_t held = model_.attention.heads / share.ranks;
  const std::int64_t within = op.kernel->heads < held ? program_.at.context * op.kernel->heads : 0;
  return share.rank * held + within;
}

std::int64_t OpShapes::workspace_of(const BoundOp& op, const kernels::Table& kernels,
                                    Attentions attentions) const {
  if (op.action == Action::gradient_norm) return kernels.square_sum_workspace();
  if (op.action == Action::bias_gradient) return kernels.bias_gradient_workspace(bias_sum(op));
  if (op.action == Action::adam && layout_.optimizer == sim::OptimizerKind::lamb)
    return kernels::lamb_workspace;
  const bool backward = op.action == Action::backward || op.action == Action::attend_backward;
  if (!backward && op.action != Action::forward) return 0;
  const Function function = function_of(model_, *op.model_op);
  if (function == Function::attention) {
    const kernels::AttentionShape shape = attention(op);
    return attention_for(shape, attentions).workspace(shape, backward);
  }
  if (!backward) return 0;
  if (function == Function::lookup) return kernels.embedding_backward_workspace(tokens_);
  if (!is_norm(function)) return 0;
  if (!is_head_norm(op)) return kernels.norm_backward_workspace(norm(op));
  return kernels.head_norm_backward_workspace(heads(op.operand(Role::gradient).bytes));
}

}  // namespace real
