// Lowers the work of one pipeline rank to a Program, in the order in which a Megatron-LM or PyTorch
// host issues it. RULES.md has the rules and their sources. The parts:
//   stage.cpp          set-up, slots of the schedule
//   messages.cpp       sends and receives
//   forward.cpp        forward pass of a block, also when recomputed
//   backward.cpp       gradients of inputs and weights
//   context.cpp        attention over context-parallel ranks
//   context_pytorch.cpp  the same as PyTorch's context_parallel has it
//   context_heads.cpp  the same by all-to-all: all tokens of a share of the heads
//   experts.cpp        routers, and the way of tokens to experts and back
//   user_buffers.cpp   linears whose products are cut into parts
//   micro_pipeline.cpp the same as PyTorch does it
//   maxima.cpp         scales of 8-bit tensors
//   data_parallel.cpp  parameters, buckets, gathering of weights
//   gradients.cpp      reduction of gradients
//   held_units.cpp     ZeRO-3 under torch.distributed.pipelining
//   optimizer.cpp      gradient norm, Adam, what is summed once per step
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "sim/plan/lowering/lowering_state.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/program/program_builder.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/rank_messages.hpp"

namespace sim::lowering {

class StageLowering {
 public:
  StageLowering(const ShardedModel& sharded, const PipelineOrder& order, int stage);
  Program lower();

 private:
  // stage.cpp
  bool moves_parameters() const;
  void make_blocks();
  void find_gradients();
  void make_work();
  std::uint32_t interned(const std::optional<Kernel>& kernel);  // none: no kernel
  std::vector<std::uint32_t> interned(const std::vector<Kernel>& kernels);
  void intern_op(const ShardedOp& op, OpWork& work);
  // Tokens of an operator as they travel when they are gathered over the tensor group.
  struct Gathered {
    DType dtype;
    Bytes bytes;
  };
  Gathered as_gathered(const ShardedOp& op, Bytes tokens) const;
  void intern_products(const ShardedOp& op, OpWork& work);
  void intern_collectives(const ShardedOp& op, OpWork& work);
  std::size_t estimated_ops() const;
  void lower_slot(std::size_t index);
  void lower_forward_slot(const Slot& slot);
  void lower_backward_slot(const Slot& slot);
  Frame frame(const StageBlock& block, int microbatch, Pass pass);
  OpLabel boundary_label(const char* name, const Chunk& chunk, int microbatch);
  void find_branches(const ShardedBlock& block, BlockWork& work);
  void intern_gradient_sum(const ShardedOp& op, std::size_t i, OpWork& work);
  void recompute_block(const StageBlock& block, int microbatch);
  const Chunk& chunk_of(const Slot& slot) const {
    return chunks_[static_cast<std::size_t>(slot.chunk)];
  }
  std::uint32_t checkpoint_index(const StageBlock& block, int microbatch) const;

  // messages.cpp
  Boundary boundary(int chunk) const;
  Value& turning(const Slot& slot);
  void wait_for_taken_sends(Stream stream);
  void pass_on(const Slot& slot, const Value& value);
  bool received_ahead(std::size_t slot) const;
  void post_receives();
  void post_receive(std::size_t slot);
  void post_in_order(std::size_t slot, const SlotMessage& from);
  Value received(const Slot& slot);
  Value gather_received(const Slot& slot, const Value& part, Bytes tensor);
  void send(const Slot& slot, const SlotMessage& message, const Value& value);
  void wait_for_old_sends(Stream stream, std::size_t slot);
  void wait_for_messages();
  bool leads_pair(std::size_t index) const;
  // Of a slot: whether kernels go on beside what it sends; whether it is asked for one slot ahead.
  struct Messages {
    bool sent_beside = false, received_ahead = false;
  };
  Messages messages_of(std::size_t slot) const;
  void send_waiting_forward();

  // forward.cpp
  bool begins_branch(const Frame& frame, const OpWork& work) const;
  void wait_before_mlp(const OpWork& work);
  static Value end_early(Frame& frame, std::size_t i, const Value& x);
  Value forward_block(Frame& frame, Value x);
  Value kept_output(Frame& frame, std::size_t i, Value x);
  static bool holds_output(const Frame& frame, std::size_t i);
  static bool is_held(const Frame& frame, std::size_t i);
  Value held_output(Frame& frame, std::size_t i, const Value& x);
  Value gather_input(Frame& frame, std::size_t i, const Value& x);
  void reorder(const Frame& frame, std::size_t i, std::uint32_t kernel, Value& tokens,
               Action action = Action::reorder_tokens);
  void keep_outputs(const StageBlock& block, int microbatch);
  Value forward_op(Frame& frame, std::size_t i, Value x);
  void wait_for_lengths();
  Value forward_linear(Frame& frame, std::size_t i, Value x);
  Value forward_loss(Frame& frame, std::size_t i, Value x);
  void encode_operands(Frame& frame, std::size_t i, const Value& x);
  Value sum_over_tensor(const Frame& frame, std::size_t i, Value partial);
  Value gather_output(Frame& frame, std::size_t i, Value own);
  void keep_or_free(Frame& frame, std::size_t i, const Value& x);
  void keep_beside(Frame& frame, std::size_t i, Bytes bytes);
  void keep_output(Frame& frame, std::size_t i, const Value& out);
  void keep_loss(Frame& frame, std::size_t i, const Value& x);
  OpId compute(const Frame& frame, std::size_t i, std::uint32_t kernel, std::uint32_t name,
               Action action);
  OpId tensor_collective(const Frame& frame, std::size_t i, std::uint32_t work, std::uint32_t name,
                         Action action);
  std::uint32_t site(const Frame& frame, std::size_t i) const {
    return frame.block->first_op + static_cast<std::uint32_t>(i);
  }
  BufferId activation(Bytes bytes);
  Value fresh(Bytes bytes);
  void hold(BufferId buffer) { ++holders_[buffer.value]; }
  void let_go(BufferId& buffer, Role role);
  void drop(const Value& value, Role role);
  void read(const Value& value, Role role);
  void wait_for(const Value& value);
  void read_weight(const Frame& frame, std::size_t i);

  // backward.cpp
  Value backward_block(Frame& frame, Value gradient);
  Value backward_op(Frame& frame, std::size_t i, Value gradient);
  Value backward_kernel(Frame& frame, std::size_t i, Value gradient);
  Value backward_loss(Frame& frame, std::size_t i);
  void take_loss_metrics(const Chunk& chunk);
  bool overlaps_wgrad() const;
  Value backward_linear(Frame& frame, std::size_t i, Value gradient);
  Value input_gradient(Frame& frame, std::size_t i, const Value& gradient);
  void weight_gradient(Frame& frame, std::size_t i, const Value& gradient, const Value& own_tokens,
                       const Value& gathered);
  Value add_residual_gradient(Frame& frame, std::size_t i, Value gradient);
  void pass_branch(const Frame& frame, std::size_t i, const Value& gradient);
  void deferred_weight_gradients(Frame& frame);
  Value gather_saved_input(Frame& frame, std::size_t i);
  void encode_gradient(const Frame& frame, std::size_t i, const Value& gradient);
  Value gather_gradient(Frame& frame, std::size_t i, Value gradient);
  Value own_output(Frame& frame, std::size_t i, Value gradient);
  Value scatter_output_gradient(Frame& frame, std::size_t i, Value gradient);
  Value product_gradient(Frame& frame, std::size_t i, const Value& gradient);
  Value sum_gradient(const Frame& frame, std::size_t i, Value partial);
  Value add_product(Frame& frame, std::size_t i, Value sum, Value part);
  Value backward_head(Frame& frame, int microbatch);
  void recompute_attention(Frame& frame, std::size_t i);
  bool recomputes_attention(const ShardedOp& op) const;
  void free_saved(Saved& saved);
  bool needs_input_gradient(const Frame& frame, std::size_t i) const;

  // context.cpp
  void intern_context(const ShardedOp& op, ContextWork& work);
  void intern_slices(const ContextAttention& context, ContextWork& work);
  Value forward_context(Frame& frame, std::size_t i, Value x);
  Value forward_ring(Frame& frame, std::size_t i, Value x);
  Value attend_own(const Frame& frame, std::size_t i, const Value& x, const Value& log_sum_exp);
  void attend_slice(Frame& frame, std::size_t i, const Value& x, const Value& slice,
                    const Value& out, const Value& log_sum_exp, int step);
  Value backward_context(Frame& frame, std::size_t i, Value gradient);
  Value backward_ring(Frame& frame, std::size_t i, Value gradient);
  Value attend_backward(Frame& frame, std::size_t i, const Value& gradient, Value& slice,
                        bool last);
  void merge_gradients(const Frame& frame, std::size_t i, const Value& part, const Value& out,
                       Value& keys_gradient, bool last);
  Value gather_keys(const Frame& frame, std::size_t i, BufferId qkv);
  ContextForm context_form() const { return model_.model->execution.context; }
  bool gathers_slices() const {
    return layout_.context_exchange == ContextExchange::all_gather &&
           context_form() != ContextForm::transformer_engine;
  }
  OpId exchange(const Frame& frame, std::size_t i, std::uint32_t work, Action action);
  // context_pytorch.cpp
  void intern_pytorch_context(const ShardedOp& op, ContextWork& work);
  void wait_in_graph(OpId exchanged);
  Value forward_gathered(Frame& frame, std::size_t i, Value x);
  Value backward_pytorch(Frame& frame, std::size_t i, Value gradient);
  Value own_gradients(const Frame& frame, std::size_t i, const Value& gradient);
  Value next_slice(const Frame& frame, std::size_t i, const Value& slice);
  Value send_gradients(const Frame& frame, std::size_t i, const Value& sum, Value& out, bool home);

  // context_heads.cpp
  void intern_heads(const ShardedOp& op, ContextWork& work);
  Value forward_heads(Frame& frame, std::size_t i, Value x);
  Value backward_heads(Frame& frame, std::size_t i, Value gradient);
  Value exchange_heads(const Frame& frame, std::size_t i, const Value& tensor,
                       std::span<const ContextWork::Heads> parts);

  // experts.cpp
  void allocate_expert_workspaces();
  void intern_experts(const ShardedOp& op, ExpertWork& work);
  Value forward_router(Frame& frame, std::size_t i, Value x);
  Value backward_router(Frame& frame, std::size_t i, Value gradient);
  Value send_to_experts(Frame& frame, std::size_t i, const Value& x);
  Value bring_from_experts(Frame& frame, std::size_t i, const Value& x);
  Value move_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t kernel,
                    Bytes bytes, Action action = Action::move_tokens);
  Value exchange_tokens(const Frame& frame, std::size_t i, const Value& x, std::uint32_t work,
                        std::uint32_t name, Bytes bytes);
  void send_weights(const Frame& frame, std::size_t i);
  void scatter_weights(const Frame& frame, std::size_t i);
  void return_weights(const Frame& frame, std::size_t i);
  void weigh_choices(Frame& frame, std::size_t i);
  void weigh_choices_backward(const Frame& frame, std::size_t i);

  // user_buffers.cpp
  void intern_user_buffers(const ShardedOp& op, UserBufferWork& work);
  std::uint32_t shift_by_copy_engines(const Gathered& slice);
  BufferId user_buffer(Bytes bytes);
  Value in_user_buffer(BufferId buffer, Bytes bytes);
  OpId in_buffers(const Frame& frame, std::size_t i, std::uint32_t work, std::uint32_t name,
                  Action action);
  Value forward_exchanged(Frame& frame, std::size_t i, Value x);
  Value forward_scattered(Frame& frame, std::size_t i, Value x);
  Value backward_exchanged(Frame& frame, std::size_t i, Value& gradient);
  void place_saved_input(const Frame& frame, std::size_t i);
  void place_gradient(const Frame& frame, std::size_t i, const Value& gradient);
  void transpose_gradient(const Frame& frame, std::size_t i, const Value& gradient);

  // micro_pipeline.cpp
  struct SlicedSide;
  SlicedWork intern_sliced(const SlicedPass& pass, const ShardedOp& op);
  void intern_slices(const ShardedOp& op, OpWork& work);
  Bytes symmetric_bytes() const;
  static SlicedSide forward_side(const Frame& frame, std::size_t i);
  static SlicedSide gradient_side(const Frame& frame, std::size_t i);
  Value forward_sliced(Frame& frame, std::size_t i, const SlicedWork& work, Value x);
  Value gathered_gradient(Frame& frame, std::size_t i, Value& gradient);
  Value scattered_gradient(Frame& frame, std::size_t i, const Value& gradient);
  Value multiply_gathered(const Frame& frame, std::size_t i, const SlicedWork& work,
                          const SlicedSide& side, Value& tokens);
  Value multiply_scattered(Frame& frame, std::size_t i, const SlicedWork& work,
                           const SlicedSide& side, const Value& operand);

  // maxima.cpp
  void count_scaled_tensors();
  bool ends_layers(const Chunk& chunk, std::uint32_t i, int direction) const;
  void share_maxima(const Chunk& chunk, int microbatch, Pass pass);

  // data_parallel.cpp
  void make_parameters();
  void make_buckets();
  static void add_to_bucket(OpenBucket& open, std::uint32_t block, Place& place);
  Bucket new_bucket(int chunk, bool of_experts) const;
  void close_bucket(OpenBucket& open);
  void intern_bucket(Bucket& bucket);
  void intern_reduction(Bucket& bucket);
  void allocate_bucket_copies();
  void allocate_parameters();
  void describe_parameters();
  bool reduces_each_microbatch() const { return zero_ >= 2 && !holds_; }
  bool accumulates() const { return reduces_each_microbatch() && layout_.micro_batches() > 1; }
  void gather_at_start();
  void gather_bucket(Bucket& bucket);
  void copy_weights(const StageBlock& block);
  void wait_for_weights(const StageBlock& block);
  void prefetch(std::uint32_t block, int direction);
  void gather_tied_table(const StageBlock& block);
  bool turns_around(const StageBlock& block) const;
  void release_weights(const StageBlock& block, bool after_forward);
  void release_unit(const StageBlock& block, Bucket& bucket, bool after_forward);
  void free_unit(Bucket& bucket);

  // gradients.cpp
  bool adds_gradients(const Frame& frame) const;
  void take_temporary_placeholder(const Place& place);
  bool has_kept_placeholder(const ModelOp& op) const;
  void allocate_kept_placeholders();
  BufferId write_gradient(const Frame& frame, const Place& place, BufferId own = BufferId{none});
  void add_gradient(const Frame& frame, std::size_t i, const Place& place, BufferId own);
  void add_to_sum(const Frame& frame, const ApartGradient& apart);
  void gradient_ready(const Frame& frame, std::size_t i);
  void gradient_written(std::uint32_t index);
  void prepare_bucket(std::uint32_t index);
  OpLabel reduction_label(std::uint32_t index, const char* name);
  void reduce_bucket(std::uint32_t index);
  void reduce_ready(int first_chunk);
  bool aligns_reductions() const;
  void reduce_aligned();
  void reduce_remaining();
  BufferId cast_for_wire(std::uint32_t index, const OpLabel& made);
  void add_up_shard(std::uint32_t index, BufferId message, const OpLabel& made);
  void average_over_replicas(std::uint32_t index, BufferId message, const OpLabel& made);
  BufferId message_buffer(std::int64_t elements);
  bool synchronises() const;
  bool scatters_gradients(const Bucket& bucket) const;
  bool is_last_microbatch() const;

  // held_units.cpp
  bool is_first_microbatch(const Frame& frame) const;
  void add_held_gradients(const Frame& frame);

  // optimizer.cpp
  void zero_gradients();
  void touch_gradients(Access access);
  void write_updated_state();
  std::int64_t summed_elements() const;
  void sum_tensor_gradients();
  void sum_tied_gradients();
  void optimizer_step();
  std::uint32_t memory_pass(std::int64_t bytes, OpKind kind, DType dtype, int launches = 1);
  std::int64_t owned_elements() const;
  std::int64_t all_elements() const;
  enum class DeepSpeedOptimizer : std::uint8_t { absent, zero, bf16, fp16 };
  DeepSpeedOptimizer deepspeed_optimizer() const;
  std::int64_t norm_bytes() const;
  std::int64_t update_bytes() const;
  static std::int64_t shard_of(const Bucket& bucket);

  OpLabel label(const char* name);

  const ShardedModel& model_;
  const Layout& layout_;
  Placement placement_;
  RankMessages messages_;
  int stage_ = 0;
  int zero_ = 0;           // 0 when there is nobody to share with
  bool converts_ = false;  // converts_gradients()
  bool holds_ = false;     // holds_units()
  DType gradient_dtype_;   // summed_gradient_dtype()
  int shards_ = 1;         // ranks that share one copy
  int expert_copies_ = 1;  // ranks with the same experts
  ProgramBuilder builder_;
  std::vector<Slot> slots_;
  std::vector<StageBlock> blocks_;
  std::vector<Chunk> chunks_;
  std::vector<BlockWork> work_;
  std::vector<Saved> saved_;
  std::vector<Value> checkpoints_;
  std::vector<BufferId> kept_outputs_;
  BufferId symmetric_memory_{none};     // of micro-pipelined linears
  std::vector<std::uint16_t> holders_;  // of each buffer that is not persistent
  // Of the block under way, by the operator that begins the branch: the tensor and the gradient
  // that go past it. By the operator that a second branch starts from: the gradient that this made.
  std::vector<Value> past_branch_, gradient_past_branch_, lent_gradient_;
  Value choice_weights_, choice_gradient_;  // on their way between router and experts
  std::vector<Parameters> parameters_;
  std::vector<Site> sites_;
  std::vector<Bucket> buckets_;                             // in the order of their reduction
  std::vector<std::vector<std::uint32_t>> units_of_block_;  // ZeRO-3: its buckets
  std::uint32_t next_reduction_ = 0;
  std::vector<ApartGradient> held_gradients_;  // of the block under way
  std::size_t current_slot_ = 0;
  std::int64_t scaled_products_ = 0;  // in 8 bits, whose scales this rank shares
  bool has_messages_ = false;         // since the host has waited for some
  Value waiting_output_;              // of a forward pass that leads a pair: sent after the pair
  std::size_t waiting_slot_ = 0;
  std::vector<Value> posted_;  // messages that were asked for, by slot
  // By neighbour: how many of its messages were asked for; what was sent to it, and how many of
  // these it has asked for by now, where messages may wait long.
  std::array<std::size_t, 2> asked_for_{}, taken_{};
  std::array<std::vector<OpId>, 2> sent_;
  // By direction and micro-batch: what goes on from a chunk to the next one of this rank.
  std::array<std::vector<Value>, 2> turning_;
  // Before each slot: the sends issued last, by direction; none: there was none.
  std::vector<std::array<OpId, 2>> sent_before_slot_;
};

}  // namespace sim::lowering
