#include "real/engine/eight_bit.hpp"

#include <algorithm>

#include "real/engine/op_shapes.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::EightBit;
using sim::Role;

namespace {

constexpr std::int64_t forward_tensors = 3, backward_tensors = 2;  // of a linear
constexpr std::int64_t unit = 256;                                 // alignment

bool scales_tensors(EightBit software) {
  return sim::delays_scaling(software) || software == EightBit::transformer_engine_tensorwise ||
         software == EightBit::torchao;
}

// Takes arrays out of a block, one behind the other.
class Taker {
 public:
  explicit Taker(std::byte* start) : start_{start} {}
  template <class T>
  T* take(std::int64_t count) {
    std::byte* at = start_ == nullptr ? nullptr : start_ + bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + unit - 1) / unit * unit;
    return reinterpret_cast<T*>(at);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* start_;
  std::int64_t bytes_ = 0;
};

kernels::DelayedScales take_delayed(Taker& taker, Float8 format, std::int64_t tensors) {
  return {.format = format,
          .tensors = tensors,
          .maxima = taker.take<float>(tensors),
          .scales = taker.take<kernels::TensorScale>(tensors),
          .history = taker.take<float>(tensors * kernels::scale_history),
          .updates = taker.take<std::int32_t>(tensors)};
}

CodedMemory place_scales(const CodedSites& sites, EightBit software, std::byte* start) {
  CodedMemory memory{.scales = start};
  Taker taker{start};
  memory.maximum = taker.take<float>(1);
  memory.kept = taker.take<kernels::TensorScale>(sites.kept_scales());
  if (sites.delayed) {
    memory.forward =
        take_delayed(taker, format_of(software, CodedTensor::input), forward_tensors * sites.count);
    memory.backward = take_delayed(taker, format_of(software, CodedTensor::gradient),
                                   backward_tensors * sites.count);
  }
  memory.scale_bytes = sites.count > 0 ? taker.bytes() : 0;
  return memory;
}

void raise(std::int64_t& bytes, std::int64_t to) {
  bytes = std::max(bytes, to);
}

}  // namespace

bool can_scale(EightBit software) {
  return scales_tensors(software) || software == EightBit::transformer_engine_blockwise ||
         software == EightBit::transformer_engine_mxfp8;
}

Scaling scaling_of(EightBit software, CodedTensor tensor) {
  SIM_CHECK(can_scale(software), static_cast<int>(software));
  if (scales_tensors(software)) return Scaling::tensor;
  if (software == EightBit::transformer_engine_mxfp8) return Scaling::blocks_of_32;
  return tensor == CodedTensor::weight ? Scaling::squares_of_128 : Scaling::blocks_of_128;
}

Float8 format_of(EightBit software, CodedTensor tensor) {
  const bool wide = scales_tensors(software) && tensor == CodedTensor::gradient;
  return wide ? Float8::e5m2 : Float8::e4m3;
}

CodedOperands coded_operands(EightBit software, GemmPass pass) {
  const CodedTensor first = pass == GemmPass::forward ? CodedTensor::input : CodedTensor::gradient;
  const CodedTensor second =
      pass == GemmPass::weight_gradient ? CodedTensor::input : CodedTensor::weight;
  return {.exist = true,
          .first = format_of(software, first),
          .second = format_of(software, second),
          .first_scaling = scaling_of(software, first),
          .second_scaling = scaling_of(software, second)};
}

bool is_coded(const BoundOp& op) {
  const bool multiplies = op.action == Action::forward || op.action == Action::input_gradient ||
                          op.action == Action::weight_gradient;
  return multiplies && op.kind == sim::OpKind::gemm && op.model_op != nullptr &&
         op.kernel != nullptr && sim::is_quantized(op.kernel->dtype);
}

CodedSites coded_sites(const BoundProgram& program) {
  CodedSites sites;
  const std::size_t all = program.program->sites.size();
  sites.index.assign(all, -1);
  sites.turns_saved.assign(all, false);
  sites.microbatches = program.plan->layout.batches_of(program.at.data);
  sites.delayed = sim::delays_scaling(program.model->execution.eight_bit);
  for (const BoundOp& op : program.ops)
    if (is_coded(op)) sites.index[op.subject] = 0;
  for (std::int64_t& index : sites.index)
    if (index == 0) index = sites.count++;
  for (const BoundOp& op : program.ops) {
    const bool casts = op.action == Action::encode && op.subject < all &&
                       sites.index[op.subject] >= 0 && !op.operand(Role::weight).exists() &&
                       !op.operand(Role::gradient).exists();
    const bool late = op.pass == sim::Pass::backward || op.pass == sim::Pass::weight_backward;
    if (casts && late) sites.turns_saved[op.subject] = true;
  }
  return sites;
}

CodedNeeds coded_needs(const BoundProgram& program) {
  CodedNeeds needs;
  const OpShapes shapes{program};
  const EightBit software = program.model->execution.eight_bit;
  const auto raise_both = [&](CodedTensor tensor, std::int64_t rows, std::int64_t columns) {
    const std::int64_t bytes = coded_bytes(scaling_of(software, tensor), rows, columns);
    raise(needs.slots[static_cast<std::size_t>(slot_of(tensor, false))], bytes);
    raise(needs.slots[static_cast<std::size_t>(slot_of(tensor, true))], bytes);
  };
  for (const BoundOp& op : program.ops) {
    if (!is_coded(op)) continue;
    const GemmShape shape = shapes.gemm(op);
    raise_both(CodedTensor::input, shape.tokens, shape.in);
    raise_both(CodedTensor::weight, shape.out, shape.in);
    raise_both(CodedTensor::gradient, shape.tokens, shape.out);
  }
  const CodedSites sites = coded_sites(program);
  if (sites.count > 0) needs.scales = place_scales(sites, software, nullptr).scale_bytes;
  return needs;
}

CodedMemory coded_memory(const BoundProgram& program, std::byte* scales, std::int64_t bytes) {
  if (bytes == 0) return {};
  return place_scales(coded_sites(program), program.model->execution.eight_bit, scales);
}

void reset_scales(const CodedMemory& memory, const kernels::Table& kernels,
                  kernels::StreamHandle stream) {
  if (memory.scale_bytes == 0) return;
  kernels.zero(memory.scales, memory.scale_bytes, stream);
  for (const kernels::DelayedScales* state : {&memory.forward, &memory.backward})
    for (std::int64_t i = 0; i < state->tensors; ++i)
      kernels.make_scale(state->format, memory.maximum, state->scales + i, stream);
}

}  // namespace real
