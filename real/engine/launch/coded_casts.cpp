#include "real/engine/launch/coded_casts.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Pass;
using sim::Role;

namespace {

bool goes_back(Pass pass) {
  return pass == Pass::backward || pass == Pass::weight_backward;
}

std::int64_t bytes_in_order(const kernels::CodedShape& shape) {
  return coded_bytes(shape.scaling, shape.rows, shape.columns);
}

}  // namespace

Launch all_in_turn(std::vector<Launch> launches) {
  std::erase_if(launches, [](const Launch& launch) { return !launch; });
  if (launches.size() == 1) return std::move(launches.front());
  return [launches = std::move(launches)](kernels::StreamHandle stream) {
    for (const Launch& launch : launches)
      launch(stream);
  };
}

// A cast is for the next product of its linear.
const BoundOp& CodedCasts::product_behind(const BoundOp& op) const {
  for (const BoundOp* at = &op; at != program_.ops.data() + program_.ops.size(); ++at)
    if (is_coded(*at) && at->subject == op.subject) return *at;
  SIM_CHECK(false, op.model_op->name);
}

kernels::CodedShape CodedCasts::shape_of(const BoundOp& product, CodedTensor tensor) const {
  const GemmShape shape = shapes_.gemm(product);
  const sim::EightBit software = program_.model->execution.eight_bit;
  return {.dtype = shapes_.activations(),
          .format = format_of(software, tensor),
          .scaling = scaling_of(software, tensor),
          .rows = tensor == CodedTensor::weight ? shape.out : shape.tokens,
          .columns = tensor == CodedTensor::gradient ? shape.out : shape.in};
}

// Where the scale lies with which a tensor was cast last.
kernels::TensorScale* CodedCasts::kept_scale(const BoundOp& op, CodedTensor tensor) const {
  const std::int64_t index = sites_.index.at(op.subject);
  SIM_CHECK(index >= 0, op.model_op->name);
  if (tensor == CodedTensor::weight) return memory_.kept + index;
  const std::int64_t pair = index * sites_.microbatches + op.microbatch;
  return memory_.kept + sites_.count + 2 * pair + (tensor == CodedTensor::gradient ? 1 : 0);
}

Launch CodedCasts::cast(const BoundOp& product, CodedTensor tensor, const std::byte* values,
                        Places to, Scale how) const {
  SIM_CHECK(values != nullptr, product.model_op->name, static_cast<int>(tensor));
  const kernels::CodedShape shape = shape_of(product, tensor);
  kernels::Encoded operands{.values = values, .rows = to.rows, .turned = to.turned};
  const auto encode = [&] { return as_launch(kernels_.encode, shape, operands); };
  if (shape.scaling != Scaling::tensor) return encode();
  kernels::TensorScale* kept = kept_scale(product, tensor);
  operands.scale = kept;
  if (how == Scale::as_before) return encode();
  if (!sites_.delayed) {
    Launch makes =
        kernels::in_turn(as_launch(kernels_.find_maximum, shape.dtype, shape.rows * shape.columns,
                                   values, memory_.maximum),
                         as_launch(kernels_.make_scale, shape.format, memory_.maximum, kept));
    return kernels::in_turn(std::move(makes), encode());
  }
  const std::int64_t index = sites_.index.at(product.subject);
  const bool back = tensor == CodedTensor::gradient;
  const kernels::DelayedScales& state = back ? memory_.backward : memory_.forward;
  const std::int64_t place = back ? 2 * index : 3 * index + (tensor == CodedTensor::weight ? 1 : 0);
  operands.scale = state.scales + place;
  operands.maximum = state.maxima + place;
  operands.kept = kept;
  return encode();
}

Launch CodedCasts::turn(const BoundOp& product, CodedTensor tensor, const std::uint8_t* codes,
                        std::uint8_t* to) const {
  const kernels::CodedShape shape = shape_of(product, tensor);
  SIM_CHECK(shape.scaling == Scaling::tensor, product.model_op->name);
  return as_launch(kernels_.turn_codes, shape.rows, shape.columns, codes, to);
}

CodedCasts::Codes CodedCasts::codes_at(const BoundOp& product, CodedTensor tensor,
                                       const std::uint8_t* codes, Launch cast) const {
  const kernels::CodedShape shape = shape_of(product, tensor);
  const void* scales = shape.scaling == Scaling::tensor
                           ? static_cast<const void*>(&kept_scale(product, tensor)->inverse)
                           : codes + shape.rows * shape.columns;
  return {.codes = codes, .scales = scales, .cast = std::move(cast)};
}

// Whether the slot was filled for this product before. From now on it is.
bool CodedCasts::fill(const BoundOp& product, CodedTensor tensor, bool turned) {
  const bool of_weight = tensor == CodedTensor::weight;
  const Use use{product.subject, of_weight ? -1 : product.microbatch,
                goes_back(product.pass) ? Pass::backward : product.pass};
  std::optional<Use>& held = held_[static_cast<std::size_t>(slot_of(tensor, turned))];
  return std::exchange(held, use) == use;
}

template <class Make>
CodedCasts::Codes CodedCasts::from_slot(const BoundOp& product, CodedTensor tensor, bool turned,
                                        Make make) {
  std::uint8_t* to = slot(tensor, turned);
  const bool there = fill(product, tensor, turned);
  return codes_at(product, tensor, to, there ? Launch{} : make(to));
}

Launch CodedCasts::encode(const BoundOp& op) {
  if (op.operand(Role::weight).exists()) return encode_weight(op);
  if (op.operand(Role::gradient).exists()) return encode_gradient(op);
  return goes_back(op.pass) ? encode_saved(op) : encode_input(op);
}

bool CodedCasts::keeps_codes(const BoundOp& op) const {
  const Operand& saved = op.operand(Role::saved);
  return saved.exists() && saved.bytes == bytes_in_order(shape_of(op, CodedTensor::input));
}

// Codes that are kept lie as the weight gradient reads them, unless an operator turns them then.
CodedCasts::Places CodedCasts::input_places(const BoundOp& product) const {
  Places places{.rows = slot(CodedTensor::input, false)};
  if (!keeps_codes(product)) return places;
  std::uint8_t* kept = codes_in(product, Role::saved);
  (sites_.turns_saved.at(product.subject) ? places.rows : places.turned) = kept;
  return places;
}

Launch CodedCasts::encode_input(const BoundOp& op) {
  const BoundOp& product = product_behind(op);
  SIM_CHECK(product.microbatch == op.microbatch && product.pass == op.pass, op.model_op->name);
  fill(product, CodedTensor::input, false);
  const bool again = sites_.delayed && op.pass == Pass::recompute;
  return cast(product, CodedTensor::input, at(op, Role::input), input_places(product),
              again ? Scale::as_before : Scale::anew);
}

CodedCasts::Codes CodedCasts::input(const BoundOp& product) {
  const Places places = input_places(product);
  const bool again = sites_.delayed && product.pass == Pass::recompute;
  const bool there = fill(product, CodedTensor::input, false);
  return codes_at(product, CodedTensor::input, places.rows,
                  there ? Launch{}
                        : cast(product, CodedTensor::input, at(product, Role::input), places,
                               again ? Scale::as_before : Scale::anew));
}

Launch CodedCasts::turned_input(const BoundOp& product, std::uint8_t* to) const {
  if (keeps_codes(product))
    return turn(product, CodedTensor::input, codes_in(product, Role::saved), to);
  const Role role = product.operand(Role::input).exists() ? Role::input : Role::saved;
  return cast(product, CodedTensor::input, at(product, role), {.turned = to}, Scale::as_before);
}

Launch CodedCasts::encode_saved(const BoundOp& op) {
  const BoundOp& product = product_behind(op);
  fill(product, CodedTensor::input, true);
  return turned_input(product, slot(CodedTensor::input, true));
}

CodedCasts::Codes CodedCasts::kept_input(const BoundOp& product) {
  if (keeps_codes(product) && !sites_.turns_saved.at(product.subject))
    return codes_at(product, CodedTensor::input, codes_in(product, Role::saved));
  return from_slot(product, CodedTensor::input, true,
                   [&](std::uint8_t* to) { return turned_input(product, to); });
}

// Once per step, with both orders side by side; or at every use, in the order that is read.
Launch CodedCasts::encode_weight(const BoundOp& op) {
  const BoundOp& product = product_behind(op);
  const std::byte* values = at(op, Role::weight);
  if (!op.operand(Role::encoded_weight).exists()) {
    const bool turned = goes_back(op.pass);
    fill(product, CodedTensor::weight, turned);
    std::uint8_t* to = slot(CodedTensor::weight, turned);
    return cast(product, CodedTensor::weight, values,
                turned ? Places{.turned = to} : Places{.rows = to}, Scale::anew);
  }
  const std::int64_t order = bytes_in_order(shape_of(product, CodedTensor::weight));
  std::uint8_t* to = codes_in(op, Role::encoded_weight);
  const bool both = op.operand(Role::encoded_weight).bytes == 2 * order;
  SIM_CHECK(both || op.operand(Role::encoded_weight).bytes == order, op.model_op->name, order);
  return cast(product, CodedTensor::weight, values,
              {.rows = to, .turned = both ? to + order : nullptr}, Scale::anew);
}

CodedCasts::Codes CodedCasts::weight(const BoundOp& product, bool turned) {
  if (!product.operand(Role::encoded_weight).exists())
    return from_slot(product, CodedTensor::weight, turned, [&](std::uint8_t* to) {
      return cast(product, CodedTensor::weight, at(product, Role::weight),
                  turned ? Places{.turned = to} : Places{.rows = to}, Scale::anew);
    });
  const std::int64_t order = bytes_in_order(shape_of(product, CodedTensor::weight));
  const std::uint8_t* rows = codes_in(product, Role::encoded_weight);
  if (!turned) return codes_at(product, CodedTensor::weight, rows);
  if (product.operand(Role::encoded_weight).bytes == 2 * order)
    return codes_at(product, CodedTensor::weight, rows + order);
  return from_slot(product, CodedTensor::weight, true,
                   [&](std::uint8_t* to) { return turn(product, CodedTensor::weight, rows, to); });
}

Launch CodedCasts::encode_gradient(const BoundOp& op) {
  const BoundOp& product = product_behind(op);
  fill(product, CodedTensor::gradient, false);
  fill(product, CodedTensor::gradient, true);
  return cast(
      product, CodedTensor::gradient, at(op, Role::gradient),
      {.rows = slot(CodedTensor::gradient, false), .turned = slot(CodedTensor::gradient, true)},
      Scale::anew);
}

// A weight gradient that comes later casts again what the input gradient has cast.
CodedCasts::Codes CodedCasts::gradient(const BoundOp& product, bool turned) {
  return from_slot(product, CodedTensor::gradient, turned, [&](std::uint8_t* to) {
    return cast(product, CodedTensor::gradient, at(product, Role::gradient),
                turned ? Places{.turned = to} : Places{.rows = to},
                turned ? Scale::as_before : Scale::anew);
  });
}

CodedCasts::Pair CodedCasts::operands_of(const BoundOp& op) {
  switch (op.action) {
    case sim::Action::forward:
      return {input(op), weight(op, false)};
    case sim::Action::input_gradient:
      return {gradient(op, false), weight(op, true)};
    default:
      return {gradient(op, true), kept_input(op)};
  }
}

}  // namespace real
