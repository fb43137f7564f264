// Parameter buckets and the state of a stage: casts, sums of gradients, norm, Adam; and the scan
// for numbers that are not finite.
#include <algorithm>

#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using kernels::StreamHandle;
using sim::Action;
using sim::Role;

// Behind the last real element of a bucket is padding, which nobody reads.
std::int64_t KernelLaunches::owned_real(const BoundBucket& bucket) {
  return std::clamp<std::int64_t>(bucket.elements - bucket.owned_first, 0, bucket.owned);
}

// The owned elements in a buffer that holds them alone or the whole bucket.
std::byte* KernelLaunches::owned_part(const BoundBucket& bucket, const Operand& operand,
                                      sim::DType dtype) const {
  const std::int64_t size = sim::bytes_of(dtype);
  if (operand.bytes == bucket.owned * size) return at(operand);
  SIM_CHECK(operand.bytes == bucket.padded * size, operand.bytes, bucket.padded, size);
  return at(operand) + bucket.owned_first * size;
}

Launch KernelLaunches::state_op(const BoundOp& op) {
  switch (op.action) {
    case Action::cast_out:
    case Action::cast_in:
      return cast(op);
    case Action::accumulate:
      return accumulate(op);
    case Action::prepare_gradients:
      return prepare_gradients(op);
    case Action::copy_weights:
      return copy_weights(op);
    case Action::zero_gradients:
      return zero_gradients();
    case Action::gradient_norm:
      return gradient_norm(op);
    case Action::adam:
      if (shapes_.layout().optimizer == sim::OptimizerKind::lamb) return lamb(op);
      return adam();
    case Action::collect_maxima:
    case Action::update_scales:
      return maxima(op);
    case Action::parameters_from_host:
    case Action::gradients_from_host:
    case Action::gradients_to_host:
    case Action::update_on_host:
    case Action::weights_from_host:
    case Action::activations_to_host:
    case Action::activations_from_host:
      return host_op(op);
    case Action::outer_gradient:
    case Action::mean_outer:
    case Action::apply_outer:
    case Action::last_from_host:
    case Action::outer_from_host:
    case Action::outer_to_host:
      return outer_op(op);
    default:
      return compression_op(op);
  }
}

Launch KernelLaunches::cast(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  const bool out = op.action == Action::cast_out;
  return cast_gradients(op, {.from = out ? layout.gradient_dtype : layout.reduce_dtype,
                             .to = out ? layout.reduce_dtype : layout.gradient_dtype});
}

Launch KernelLaunches::accumulate(const BoundOp& op) {
  const sim::Layout& layout = shapes_.layout();
  return cast_gradients(
      op, {.from = layout.reduce_dtype, .to = layout.gradient_dtype, .accumulate = true});
}

// Casts the whole input or output, or the part that this rank owns where the other is that part.
Launch KernelLaunches::cast_gradients(const BoundOp& op, const kernels::Cast& how) {
  const Operand& input = op.operand(Role::input);
  const Operand& output = op.operand(Role::output);
  const std::int64_t read = input.bytes / sim::bytes_of(how.from);
  const std::int64_t written = output.bytes / sim::bytes_of(how.to);
  const std::int64_t elements = std::min(read, written);
  const BoundBucket& bucket = parts_.program.buckets.at(op.subject);
  const std::byte* from = read > elements ? owned_part(bucket, input, how.from) : at(input);
  std::byte* to = written > elements ? owned_part(bucket, output, how.to) : at(output);
  return as_launch(kernels_.cast, how, elements, from, to);
}

// Gradients that are read for their norm alone, or copied there and back, stay as they are.
Launch KernelLaunches::prepare_gradients(const BoundOp& op) {
  const BoundProgram& program = parts_.program;
  if (!program.model->execution.scales_gradients) return [](StreamHandle) {};
  const bool experts = program.program->parameter_buckets.at(op.subject).of_experts;
  const auto role = experts ? sim::GroupRole::expert_data : sim::GroupRole::data;
  const std::size_t ranks = program.groups[static_cast<std::size_t>(role)].ranks.size();
  const sim::DType dtype = shapes_.gradients();
  const kernels::Cast how{
      .from = dtype, .to = dtype, .scale = 1 / static_cast<float>(std::max<std::size_t>(1, ranks))};
  const Operand& all = op.operand(Role::output);
  return as_launch(kernels_.cast, how, all.bytes / sim::bytes_of(dtype), at(all), at(all));
}

// Gathered weights lie where they are read.
Launch KernelLaunches::copy_weights(const BoundOp& op) {
  if (!op.operand(Role::input).exists()) return [](StreamHandle) {};
  const Operand& from = op.operand(Role::input);
  return as_launch(kernels_.copy, at(op, Role::output), at(from), from.bytes);
}

Launch KernelLaunches::zero_gradients() {
  struct LaunchPiece {
    std::byte* memory;
    std::int64_t bytes;
  };
  std::vector<LaunchPiece> pieces;
  for (const BoundBucket& bucket : parts_.program.buckets) {
    if (bucket.gradient.exists()) pieces.push_back({at(bucket.gradient), bucket.gradient.bytes});
  }
  return [pieces, zero = kernels_.zero](StreamHandle stream) {
    for (const LaunchPiece& piece : pieces)
      zero(piece.memory, piece.bytes, stream);
  };
}

// The sum was set to zero at the start of the step. A loss that is not finite makes it so, too: the
// ranks share the norm, not the loss, and must agree whether Adam does anything.
Launch KernelLaunches::gradient_norm(const BoundOp& op) {
  struct LaunchPiece {
    const std::byte* values;
    std::int64_t elements;
  };
  const sim::DType dtype = shapes_.gradients();
  std::vector<LaunchPiece> pieces;
  for (const BoundBucket& bucket : parts_.program.buckets) {
    const std::byte* gradient = owned_part(bucket, bucket.gradient, dtype);
    for (const OwnedRange& range : bucket.counted) {
      const auto first = static_cast<std::int64_t>(range.first);
      const auto count = static_cast<std::int64_t>(range.count);
      if (count > 0) pieces.push_back({gradient + first * sim::bytes_of(dtype), count});
    }
  }
  float* sum = parts_.memory.square_sum;
  const double* loss = parts_.memory.loss;
  const kernels::Workspace space = workspace(op);
  return [=, add = kernels_.square_sum, require = kernels_.require_finite](StreamHandle stream) {
    bool first = true;
    for (const LaunchPiece& piece : pieces) {
      add({.dtype = dtype, .accumulate = !first}, piece.elements, piece.values, sum, space, stream);
      first = false;
    }
    require(loss, sum, stream);
  };
}

// The state of a bucket, wherever it lies: that of an offloaded optimizer has gradients and weights
// of its own beside it.
KernelLaunches::AdamPiece KernelLaunches::adam_piece(std::size_t index) const {
  const sim::Layout& layout = shapes_.layout();
  const bool masters = layout.master_weights;
  const BoundBucket& bucket = parts_.program.buckets[index];
  const bool on_host = bucket.host_gradient.exists();
  std::byte* state = at(bucket.optimizer);
  const std::int64_t moment = sim::bytes_of(layout.moment_dtype);
  const bool fresh = layout.compression == sim::GradientCompression::one_bit_lamb;
  SIM_CHECK(
      bucket.optimizer.bytes == bucket.owned * ((masters ? 4 : 0) + 2 * moment + (fresh ? 4 : 0)),
      bucket.optimizer.bytes);
  std::byte* m = state + (masters ? bucket.owned * 4 : 0);
  return {
      .state = {.weight_dtype = layout.activation_dtype,
                .gradient_dtype = layout.gradient_dtype,
                .moment_dtype = layout.moment_dtype,
                .weight = on_host ? at(bucket.host_weight)
                                  : owned_part(bucket, bucket.weight, layout.activation_dtype),
                .master = masters ? reinterpret_cast<float*>(state) : nullptr,
                .m = m,
                .v = m + bucket.owned * moment,
                .gradient = on_host ? at(bucket.host_gradient)
                                    : owned_part(bucket, bucket.gradient, layout.gradient_dtype),
                .clip_scale = parts_.memory.clip_scale,
                .step = parts_.memory.adam,
                .gate = parts_.memory.gate},
      .elements = owned_real(bucket),
      .decay = parts_.memory.decay.at(index)};
}

kernels::Adam KernelLaunches::adam_settings() const {
  const sim::Training& training = parts_.training;
  return {.rate = training.learning_rate.peak,
          .beta1 = training.beta1,
          .beta2 = training.beta2,
          .epsilon = training.epsilon,
          .decay = training.weight_decay};
}

Launch KernelLaunches::adam() {
  std::vector<AdamPiece> pieces;
  for (std::size_t i = 0; i < parts_.program.buckets.size(); ++i) {
    const BoundBucket& bucket = parts_.program.buckets[i];
    if (owned_real(bucket) > 0 && !bucket.host_gradient.exists()) pieces.push_back(adam_piece(i));
  }
  const bool one_bit = shapes_.layout().compression == sim::GradientCompression::one_bit;
  return kernels::in_turn(finish_norm(), [pieces, settings = adam_settings(),
                                          adam = one_bit ? parts_.compression->one_bit_update
                                                         : kernels_.adam](StreamHandle stream) {
    for (const AdamPiece& piece : pieces)
      adam(settings, piece.state, piece.elements, piece.decay, stream);
  });
}

Launch KernelLaunches::finish_norm() {
  const StepMemory& memory = parts_.memory;
  return as_launch(kernels_.finish_norm, memory.square_sum, parts_.training.clip, memory.norm,
                   memory.clip_scale);
}

namespace {

// The format of what an operator leaves in a role.
sim::DType format_of(const BoundOp& op, Role role, const sim::Layout& layout) {
  switch (role) {
    case Role::maximum:
    case Role::target_logit:
    case Role::exponential_sum:
    case Role::choice_weights:
    case Role::choice_gradient:
      return sim::DType::fp32;
    case Role::weight_gradient:
      return layout.gradient_dtype;
    case Role::saved: {
      const sim::Function function = op.model_op->function;
      const bool statistics = function == sim::Function::attention ||
                              function == sim::Function::cross_entropy ||
                              function == sim::Function::route;
      return statistics ? sim::DType::fp32 : layout.activation_dtype;
    }
    default:
      break;
  }
  switch (op.action) {
    case Action::collect_maxima:
      return sim::DType::fp32;
    case Action::accumulate:
    case Action::cast_in:
    case Action::gradients_from_host:
      return layout.gradient_dtype;
    case Action::cast_out:
      return layout.reduce_dtype;
    case Action::receive:
      return op.transfer->dtype;
    default:
      return op.collective != nullptr ? op.collective->dtype : layout.activation_dtype;
  }
}

}  // namespace

Launch KernelLaunches::scan_of(const BoundOp& op, std::int32_t index) {
  struct LaunchPiece {
    sim::DType dtype;
    std::int64_t elements;
    const std::byte* values;
  };
  std::vector<LaunchPiece> pieces;
  std::int32_t* first = parts_.memory.first_not_finite;
  if (op.action == Action::gradient_norm || op.action == Action::sum_gradient_norm) {
    pieces.push_back(
        {sim::DType::fp32, 1, reinterpret_cast<const std::byte*>(parts_.memory.square_sum)});
  } else {
    for (const Role role : written_roles) {
      const Operand& operand = op.operand(role);
      const bool factor = role == Role::saved && op.model_op == nullptr;  // of compressed gradients
      if (!operand.exists() || factor ||
          sim::action_row(op.action).written == sim::Written::message)
        continue;
      const sim::DType dtype = format_of(op, role, shapes_.layout());
      const std::int64_t elements =
          written_elements(parts_.program, op, role, operand.bytes / sim::bytes_of(dtype));
      if (elements > 0) pieces.push_back({dtype, elements, at(operand)});
    }
  }
  return [=, find = kernels_.find_not_finite](StreamHandle stream) {
    for (const LaunchPiece& piece : pieces)
      find(piece.dtype, piece.elements, piece.values, index, first, stream);
  };
}

// The ranks of a tensor group hold the same pieces of their shards.
std::vector<Operand> summed_pieces(const BoundProgram& program, std::int64_t size) {
  std::vector<Operand> pieces;
  for (const sim::Site& site : program.program->sites) {
    if (site.summed == 0) continue;
    const BoundBucket& bucket = program.buckets.at(site.bucket);
    const std::int64_t held = bucket.gradient.bytes / size;
    const std::int64_t start = held == bucket.padded ? 0 : bucket.owned_first;
    const std::int64_t first = std::clamp<std::int64_t>(site.summed_first - start, 0, held);
    const std::int64_t last =
        std::clamp<std::int64_t>(site.summed_first + site.summed - start, 0, held);
    if (first == last) continue;
    pieces.push_back({bucket.gradient.offset + first * size, (last - first) * size});
  }
  return pieces;
}

}  // namespace real
