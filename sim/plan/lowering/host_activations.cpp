// Sources: NVIDIA/TransformerEngine, pytorch/cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler:
// the tensors of a layer are copied while the next one runs, at whose end the stream of kernels
// waits for the copies and their memory is given back; in the backward pass those of the layer
// before come back while one runs. Megatron-LM, core/pipeline_parallel/
// fine_grained_activation_offload.py: the same for the inputs of some modules.
// deepspeedai/DeepSpeed, runtime/activation_checkpointing/checkpointing.py, cpu_checkpointing: the
// checkpoints, by an engine of its own.
#include "sim/plan/lowering/host_activations.hpp"

#include <algorithm>
#include <string_view>

#include "sim/plan/lowering/host_transfers.hpp"

namespace sim::lowering {
namespace {

// The operators of a layer whose inputs are those of a module.
std::vector<std::string_view> operators_of(OffloadModule module) {
  switch (module) {
    case OffloadModule::attn_norm:
      return {"input_norm", "attention_norm"};
    case OffloadModule::qkv_linear:
      return {"qkv", "query", "query_down", "key_value_down"};
    case OffloadModule::core_attn:
      return {"attention"};
    case OffloadModule::attn_proj:
      return {"attention_projection"};
    case OffloadModule::mlp_norm:
      return {"post_attention_norm", "output_norm"};
    case OffloadModule::expert_fc1:
      return {"expert_up"};
    case OffloadModule::moe_act:
      return {"expert_activation"};
    case OffloadModule::fused_group_mlp:
      return {"expert_up", "expert_activation", "expert_down"};
  }
  return {};
}

}  // namespace

HostActivations::HostActivations(LoweringContext& context) : StagePart{context} {
  if (layout_.offloads_activations())
    kept_.resize(context.blocks.size() * static_cast<std::size_t>(layout_.micro_batches()));
}

std::size_t HostActivations::index_of(std::uint32_t block, int microbatch) const {
  return std::size_t{block} * static_cast<std::size_t>(layout_.micro_batches()) +
         static_cast<std::size_t>(microbatch);
}

// The last layer of a chunk is needed first: it stays, unless a number of layers is said.
bool HostActivations::goes(const StageBlock& block) const {
  if (block.layer < 0) return false;
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(block.chunk)];
  int before = 0, layers = 0;
  for (std::uint32_t i = 0; i < chunk.blocks; ++i) {
    const StageBlock& other = context_.blocks[chunk.first_block + i];
    if (other.layer < 0) continue;
    if (&other < &block) ++before;
    ++layers;
  }
  return before < (layout_.offload_layers > 0 ? layout_.offload_layers : layers - 1);
}

bool HostActivations::is_of_modules(const Frame& frame, std::size_t i) const {
  if (layout_.offload_modules.empty()) return true;
  const ShardedOp& op = frame.shape->ops[i];
  const std::int64_t elements =
      std::max(op.input, op.whole_input).count() / bytes_of(layout_.activation_dtype);
  if (elements < layout_.offload_least) return false;
  const std::string& name = op.op->name;
  return std::ranges::any_of(layout_.offload_modules, [&](OffloadModule module) {
    const std::vector<std::string_view> names = operators_of(module);
    return std::find(names.begin(), names.end(), name) != names.end();
  });
}

// Tensors that only the operators of this layer hold, for their backward pass.
std::vector<BufferId> HostActivations::kept_by(const Frame& frame) const {
  std::map<std::uint32_t, int> held;
  std::vector<BufferId> wanted;
  const auto hold = [&](BufferId buffer, bool goes) {
    if (buffer.value == none) return;
    ++held[buffer.value];
    if (goes && std::find(wanted.begin(), wanted.end(), buffer) == wanted.end())
      wanted.push_back(buffer);
  };
  const bool all = layout_.offload_modules.empty();
  for (std::size_t i = 0; i < frame.shape->ops.size(); ++i) {
    const Saved& saved = frame.saved[i];
    hold(saved.input, is_of_modules(frame, i));
    for (const BufferId buffer : {saved.extra, saved.output, saved.held.buffer,
                                  saved.replay_input.buffer, saved.weights, saved.keys})
      hold(buffer, all);
  }
  std::erase_if(wanted, [&](BufferId buffer) {
    return tensors_.holders_of(buffer) != held.at(buffer.value);
  });
  return wanted;
}

// All streams that may still work on what the layer keeps.
void HostActivations::behind_forward(const Frame& frame) {
  if (kept_.empty()) return;
  send_pending();
  if (!goes(*frame.block)) return;
  for (const Stream stream : {Stream::compute, Stream::tensor_comm, Stream::context_comm})
    builder_.wait_for_stream(Stream::host_copy, stream);
  const auto at = static_cast<std::uint32_t>(frame.block - context_.blocks.data());
  pending_ = {.block = index_of(at, frame.label.microbatch),
              .label = frame.label,
              .buffers = kept_by(frame)};
}

void HostActivations::end_forward() {
  if (!kept_.empty()) send_pending();
}

// Returns a free buffer of the same size, behind the read of its last content; else a new one.
BufferId HostActivations::host_buffer(Bytes bytes) {
  std::vector<HostBuffer>& free = free_[bytes.count()];
  if (free.empty()) return builder_.host_buffer(bytes);
  const HostBuffer found = free.back();
  free.pop_back();
  builder_.wait(Stream::host_copy, found.read);
  return found.buffer;
}

// Issued behind the next layer, whose kernels its copies do not wait for; those of the one behind
// that wait for the copies.
void HostActivations::send_pending() {
  if (pending_.buffers.empty()) return;
  Kept& kept = kept_[pending_.block];
  OpLabel label = pending_.label;
  label.name = builder_.name("activations.to_host");
  for (const BufferId buffer : pending_.buffers) {
    const Bytes bytes = builder_.size_of(buffer);
    const BufferId there = host_buffer(bytes);
    kept.sent = builder_.add_kernel(host_copy(context_, bytes), Stream::host_copy, Pass::forward,
                                    label, {Action::activations_to_host});
    builder_.frees(buffer, Role::input);
    builder_.writes(there, Role::output);
    kept.tensors.push_back({buffer, there});
  }
  builder_.wait(Stream::compute, kept.sent);
  pending_ = {};
}

// When the kernels issued so far are done.
void HostActivations::bring(std::uint32_t block, int microbatch) {
  Kept& kept = kept_[index_of(block, microbatch)];
  if (kept.tensors.empty()) return;
  const StageBlock& of = context_.blocks[block];
  OpLabel label = context_.label("activations.from_host");
  label.layer = of.layer;
  label.chunk = context_.chunks[static_cast<std::size_t>(of.chunk)].global;
  label.microbatch = microbatch;
  builder_.wait_for_stream(Stream::host_load, Stream::compute);
  builder_.wait(Stream::host_load, kept.sent);
  for (const Moved& moved : kept.tensors) {
    const Bytes bytes = builder_.size_of(moved.device);
    kept.back = builder_.add_kernel(host_copy(context_, bytes), Stream::host_load, Pass::backward,
                                    label, {Action::activations_from_host});
    builder_.reads(moved.host, Role::input);
    builder_.writes(moved.device, Role::output);
    free_[bytes.count()].push_back({moved.host, kept.back});
  }
  kept.tensors.clear();
}

// Brings back the tensors of the block. Those of the block before come back beside its kernels.
void HostActivations::before_backward(std::uint32_t block, int microbatch) {
  if (kept_.empty()) return;
  bring(block, microbatch);
  const OpId back = kept_[index_of(block, microbatch)].back;
  if (back.value != none)
    for (const Stream stream : {Stream::compute, Stream::tensor_comm, Stream::context_comm})
      builder_.wait(stream, back);
  const Chunk& chunk = context_.chunks[static_cast<std::size_t>(context_.blocks[block].chunk)];
  if (block > chunk.first_block) bring(block - 1, microbatch);
}

}  // namespace sim::lowering
