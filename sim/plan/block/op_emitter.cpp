#include "sim/plan/block/op_emitter.hpp"

namespace sim::lowering {

OpId OpEmitter::compute(const Frame& frame, std::size_t i, std::uint32_t kernel, std::uint32_t name,
                        Action action) {
  OpLabel label = frame.label;
  label.name = name;
  const OpId op =
      builder_.add_kernel(kernel, Stream::compute, frame.pass, label, {action, site(frame, i)});
  const ShardedOp& shape = frame.shape->ops[i];
  if (action == Action::forward || action == Action::loss_exponentials)
    builder_.takes(shape.scratch_forward);
  if (action == Action::backward) builder_.takes(shape.scratch_backward);
  return op;
}

// The host launches a collective behind the kernels that it has issued (PyTorch,
// ProcessGroupNCCL::collective: syncStream with the current stream).
OpId OpEmitter::tensor_collective(const Frame& frame, std::size_t i, std::uint32_t work,
                                  std::uint32_t name, Action action) {
  OpLabel label = frame.label;
  label.name = name;
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  const OpId op = builder_.add_collective(work, Stream::tensor_comm, frame.pass, label,
                                          {action, site(frame, i)});
  if (action == Action::gather_output || action == Action::gather_input)
    builder_.takes(frame.shape->ops[i].scratch_gather);
  return op;
}

// Unlike tensor_collective(), it waits for nothing but what the caller has said.
OpId OpEmitter::collective_on(Stream stream, const Frame& frame, std::size_t i, std::uint32_t work,
                              std::uint32_t name, Action action) {
  OpLabel label = frame.label;
  label.name = name;
  return builder_.add_collective(work, stream, frame.pass, label, {action, site(frame, i)});
}

void OpEmitter::read_weight(const Frame& frame, std::size_t i) {
  const Parameters& parameters = store_.parameters[site(frame, i)];
  const std::uint32_t bucket = parameters.matrix().bucket;
  if (bucket != none) builder_.reads(store_.buckets[bucket].weight, Role::weight);
}

// Behind a gather of tokens, or before their sum is scattered: the same tensor, moved.
void OpEmitter::reorder(const Frame& frame, std::size_t i, std::uint32_t kernel, Value& tokens,
                        Action action) {
  if (kernel == none) return;
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(tokens);
  tokens.ready =
      compute(frame, i, kernel,
              action == Action::sum_products ? work.gradient_name : work.reorder_name, action);
  if (action == Action::reorder_tokens) builder_.takes(copied(tokens.bytes));
  builder_.writes(tokens.buffer, Role::output);
}

// Eight-bit products: the input every time, unless the norm before has written it so; the weight
// once per step, before its first micro-batch (Transformer Engine, is_first_microbatch), or each
// time, as under ZeRO-3, where it has been gathered.
void OpEmitter::encode_operands(Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  if (work.encode_input != none) {
    compute(frame, i, work.encode_input, work.encode_name, Action::encode);
    tensors_.read(x, Role::input);
  }
  if (work.encode_weight == none) return;
  const bool each_time = sharing_.zero == 3 || frame.shape->ops[i].encodes_weight_each_time;
  if (!each_time && (frame.label.microbatch > 0 || frame.pass != Pass::forward)) return;
  compute(frame, i, work.encode_weight, work.encode_name, Action::encode);
  read_weight(frame, i);
  const BufferId encoded = store_.parameters[site(frame, i)].encoded;
  if (encoded.value != none) builder_.writes(encoded, Role::encoded_weight);
}

void OpEmitter::encode_gradient(const Frame& frame, std::size_t i, const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  if (work.encode_gradient != none) {
    compute(frame, i, work.encode_gradient, work.encode_name, Action::encode);
    tensors_.read(gradient, Role::gradient);
  }
  if (work.encode_saved_weight == none || !needs_input_gradient(frame, i)) return;
  compute(frame, i, work.encode_saved_weight, work.encode_name, Action::encode);
  read_weight(frame, i);
}

}  // namespace sim::lowering
