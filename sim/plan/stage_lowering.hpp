// Lowers the work of one pipeline rank to a Program, in the order in which a Megatron-LM or PyTorch
// host issues it. README.md has the rules and their sources. The parts:
//   lower_stage.cpp          set-up, slots of the schedule
//   lower_messages.cpp       sends and receives
//   lower_forward.cpp        forward pass of a block, also when recomputed
//   lower_backward.cpp       gradients of inputs and weights
//   lower_context.cpp        attention over context-parallel ranks
//   lower_context_pytorch.cpp  the same as PyTorch's context_parallel has it
//   lower_context_heads.cpp  the same by all-to-all: all tokens of a share of the heads
//   lower_experts.cpp        routers, and the way of tokens to experts and back
//   lower_user_buffers.cpp   linears whose products are cut into parts
//   lower_micro_pipeline.cpp the same as PyTorch does it
//   lower_maxima.cpp         scales of 8-bit tensors
//   lower_data_parallel.cpp  parameters, buckets, gathering of weights
//   lower_gradients.cpp      reduction of gradients
//   lower_optimizer.cpp      gradient norm, Adam, what is summed once per step
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sim/plan/micro_pipeline.hpp"
#include "sim/plan/program_builder.hpp"
#include "sim/plan/schedule.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/user_buffers.hpp"

namespace sim {

class StageLowering {
 public:
  StageLowering(const ShardedModel& sharded, int stage);
  Program lower();

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  // A tensor on its way through the chain of operators: one holder of its buffer. Who keeps it
  // besides (a saved input, the residual sum, a checkpoint) holds it too; the last to let go of it
  // frees it.
  struct Value {
    BufferId buffer{none};
    Bytes bytes{};
    OpId ready{none};  // the operator that finishes it
    bool exists() const { return buffer.value != none; }
  };

  // What an operator of a block keeps between its forward and backward pass.
  struct Saved {
    BufferId input{none};    // its input, kept instead of freed
    BufferId extra{none};    // what it keeps besides
    BufferId core{none};     // what selective recomputation has run again
    BufferId output{none};   // its output, where the backward pass reads it
    BufferId weights{none};  // of choices, where an expert's activation multiplies by them
    BufferId keys{none};     // the slice that came last, where attention goes round a ring
    BufferId target_logit{none}, exponential_sum{none};  // of the loss
    // Until the split-off weight gradient: of its output, and of the tokens that this rank adds the
    // bias to, where those are fewer.
    BufferId gradient{none}, bias_gradient{none};
  };

  // Of attention over context-parallel ranks.
  struct ContextWork {
    std::uint32_t exchange_name = none, scatter_name = 0, slice_name = 0, merge_name = 0;
    std::uint32_t shift = none, shift_both = none;  // a slice or its gradient; both
    std::uint32_t shift_gradient = none;            // PyTorch: in fp32
    std::uint32_t attend = none, attend_backward = none;
    std::uint32_t merge = none, first_merge = none, begin_gradients = none, add_gradients = none;
    std::uint32_t gather = none, scatter = none;
    // All-to-all.
    struct Heads {
      std::uint32_t order = none, exchange = none;
      Bytes bytes{};
    };
    std::uint32_t order_name = 0;
    std::array<Heads, 3> heads{};  // queries (or output), keys, values
    bool exists() const { return exchange_name != none; }
  };

  // Of routers, and of the exchange of tokens.
  struct ExpertWork {
    std::uint32_t choose_name = 0, choose = none, choose_backward = none;
    std::uint32_t move_name = 0, permute = none, unpermute = none, sort = none;
    std::uint32_t exchange_name = 0, exchange = none, exchange_weights = none;
    std::uint32_t gather_name = 0, scatter_name = 0, gather = none, scatter = none;
    std::uint32_t gather_weights = none, scatter_weights = none;
  };

  // Interned work of an operator of a distinct block.
  struct OpWork {
    std::uint32_t name = 0, gradient_name = 0, weight_name = 0, bias_name = 0, encode_name = 0;
    std::uint32_t gather_name = 0, sum_name = 0;
    std::uint32_t forward = none, backward = none;
    std::uint32_t encode_input = none, encode_saved = none, encode_gradient = none;
    std::uint32_t encode_weight = none;
    // Linears: the products of a pass, in turn. Others that run again: one kernel.
    std::vector<std::uint32_t> products, products_again, input_gradients, weight_gradients;
    std::uint32_t sum_products = none;
    std::uint32_t reorder_name = 0, reorder_input = none, reorder_output = none;
    std::uint32_t gather_input = none;     // all-gather of the input (column)
    std::uint32_t sum_gradient = none;     // reduction of the input gradient (column)
    std::uint32_t sum_output = none;       // reduction of the output (row, embedding)
    std::uint32_t gather_gradient = none;  // all-gather of the output gradient (row, embedding)
    std::uint32_t loss_maximum = none, loss_sum = none;  // vocabulary-parallel loss
    std::uint32_t gather_logits = none, join_logits = none, own_logits = none;
    std::uint32_t add_products = none;
    UserBufferWork buffers;
    SlicedWork sliced_forward, sliced_again, sliced_gradient;
    std::uint32_t transpose_gradient = none;
    ContextWork context;
    ExpertWork experts;
    // A residual sum of the block reads the input of this operator; whose add_gradient, if any,
    // stands behind its backward pass.
    bool begins_branch = false;
    bool lends_input = false;         // to the first operator of another branch
    std::uint32_t branch_sum = none;  // index in the block
    std::uint32_t add_gradient = none, add_gradient_name = 0;
  };
  struct BlockWork {
    bool interned = false;
    std::vector<OpWork> ops;
  };

  // A block of this stage.
  struct StageBlock {
    std::uint32_t shape = 0;  // index into ShardedModel::blocks
    std::int16_t layer = -1;
    int chunk = 0;                             // of this rank
    std::uint32_t first_op = 0;                // of all operators of the stage
    std::uint32_t first_saved = 0;             // in the saved states of a micro-batch of its chunk
    bool checkpoint = false;                   // only its input is kept
    bool is_first = false, is_output = false;  // of the model
  };
  struct Chunk {
    std::uint32_t first_block = 0, blocks = 0;
    std::uint32_t saved = 0;       // operators: saved states of a micro-batch
    std::uint32_t saved_base = 0;  // of micro-batch 0 in saved_
    int last_backward = -1;        // index of the slot that completes its gradients
    std::int16_t global = 0;
  };

  // Where parameters lie.
  struct Place {
    std::int64_t elements = 0;
    std::uint32_t bucket = none;
    std::int64_t first = 0;
    int bytes_each = 0;  // as stored
  };

  // Parameters of an operator of the stage: its own, and the table that a tied head shares.
  struct Parameters {
    Place own, table;
    std::uint32_t same_as = none;  // the operator of the stage that holds the table; none: a copy
    bool shared_over_stages = false;  // a table that the first and the last stage hold
    BufferId encoded{none};  // 8-bit copy, unless stored so, and its transpose, made once per step
    std::int64_t encoded_bytes = 0;
    const Place& matrix() const { return table.elements > 0 ? table : own; }
  };

  // Gradients that are reduced together: a bucket, or under ZeRO-3 a block.
  struct Bucket {
    int chunk = 0;
    bool of_experts = false;
    int copies = 1, shards = 1;  // ranks with these parameters; those that share one copy
    std::uint32_t writers = 0;  // operators that write gradients into it, once per micro-batch each
    std::uint32_t pending = 0;  // of them, not yet ready in this backward pass
    std::int64_t elements = 0, padded = 0;
    std::int64_t weight_bytes = 0;    // of all elements, padded
    BufferId gradient{none};          // whole; ZeRO-2/3: alive until reduced
    BufferId gradient_shard{none};    // ZeRO-2/3
    BufferId weight{none};            // whole; ZeRO-3: while gathered
    BufferId weight_shard{none};      // ZeRO-3: what this rank owns of them
    BufferId optimizer{none};         // master weights and moments, or their shard
    bool holds_shared_table = false;  // and nothing else
    bool gathered = false;
    bool copied = false;  // out of the buffer of the gather
    bool keep_gathered = false;
    bool ready = false;  // ZeRO-0/1: all its gradients are there
    OpId weight_ready{none};
    std::uint32_t gather = none, reduce = none, replicate = none;      // collectives
    std::uint32_t copy = none;                                         // Execution::copies_weights
    std::uint32_t cast_out = none, cast_in = none, accumulate = none;  // kernels
    std::uint32_t cast_shard = none;                // to the wire, of the accumulated shard
    std::uint32_t first_block = 0, last_block = 0;  // of the stage, inclusive
  };

  struct OpenBucket {  // while parameters are put into it
    Bucket bucket;
    std::int64_t limit = 0;  // bytes of gradients at which it closes
    std::vector<Place*> places;
  };

  struct Frame {  // a micro-batch in a block
    const StageBlock* block = nullptr;
    const ShardedBlock* shape = nullptr;
    const BlockWork* work = nullptr;
    Saved* saved = nullptr;
    OpLabel label{};
    Pass pass = Pass::forward;
    bool keep = true;
    BufferId kept{none};  // outputs that need not be computed again
    std::size_t end = std::numeric_limits<std::size_t>::max();  // no operator from here on runs
  };

  struct Boundary {        // the tensor between two chunks
    Bytes message{};       // what a rank sends
    Bytes tensor{};        // what the receiver needs
    bool gathers = false;  // the receiver's tensor group puts it together
  };

  // lower_stage.cpp
  void make_blocks();
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

  // lower_messages.cpp
  Boundary boundary(int chunk) const;
  struct Incoming {
    Stream stream = Stream::forward_recv;
    Peer peer = Peer::previous_stage;
    int boundary = 0;
  };
  std::optional<Incoming> incoming(const Slot& slot) const;
  bool received_ahead(std::size_t slot) const;
  void post_receives();
  void post_receive(std::size_t slot);
  Value received(const Slot& slot);
  Value gather_received(const Slot& slot, const Value& part, Bytes tensor);
  void send(const Slot& slot, Stream stream, Peer peer, const Value& value,
            const Boundary& boundary);
  void wait_for_old_sends(Stream stream, std::size_t slot);
  void wait_for_messages();
  bool leads_pair(std::size_t index) const;
  // Of a slot: whether kernels go on beside what it sends; whether it is asked for one slot ahead.
  struct Messages {
    bool sent_beside = false, received_ahead = false;
  };
  Messages messages_of(std::size_t slot) const;
  void send_waiting_forward();

  // lower_forward.cpp
  bool begins_branch(const Frame& frame, const OpWork& work) const;
  static Value end_early(Frame& frame, std::size_t i, const Value& x);
  Value forward_block(Frame& frame, Value x);
  Value kept_output(Frame& frame, std::size_t i, Value x);
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
  Value gather_logits(Frame& frame, std::size_t i, Value own);
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

  // lower_backward.cpp
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
  Value own_logits(Frame& frame, std::size_t i, Value gradient);
  Value product_gradient(Frame& frame, std::size_t i, const Value& gradient);
  Value sum_gradient(const Frame& frame, std::size_t i, Value partial);
  Value add_product(Frame& frame, std::size_t i, Value sum, Value part);
  Value backward_head(Frame& frame, int microbatch);
  void recompute_attention(Frame& frame, std::size_t i);
  bool recomputes_attention(const ShardedOp& op) const;
  void free_saved(Saved& saved);
  bool needs_input_gradient(const Frame& frame, std::size_t i) const;

  // lower_context.cpp
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
  // lower_context_pytorch.cpp
  void intern_pytorch_context(const ShardedOp& op, ContextWork& work);
  void wait_in_graph(OpId exchanged);
  Value forward_gathered(Frame& frame, std::size_t i, Value x);
  Value backward_pytorch(Frame& frame, std::size_t i, Value gradient);
  Value own_gradients(const Frame& frame, std::size_t i, const Value& gradient);
  Value next_slice(const Frame& frame, std::size_t i, const Value& slice);
  Value send_gradients(const Frame& frame, std::size_t i, const Value& sum, Value& out, bool home);

  // lower_context_heads.cpp
  void intern_heads(const ShardedOp& op, ContextWork& work);
  Value forward_heads(Frame& frame, std::size_t i, Value x);
  Value backward_heads(Frame& frame, std::size_t i, Value gradient);
  Value exchange_heads(const Frame& frame, std::size_t i, const Value& tensor,
                       std::span<const ContextWork::Heads> parts);

  // lower_experts.cpp
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

  // lower_user_buffers.cpp
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

  // lower_micro_pipeline.cpp
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

  // lower_maxima.cpp
  void count_scaled_tensors();
  bool ends_layers(const Chunk& chunk, std::uint32_t i, int direction) const;
  void share_maxima(const Chunk& chunk, int microbatch, Pass pass);

  // lower_data_parallel.cpp
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
  bool accumulates() const { return zero_ >= 2 && layout_.micro_batches() > 1; }
  void gather_at_start();
  void gather_bucket(Bucket& bucket);
  void copy_weights(const StageBlock& block);
  void wait_for_weights(const StageBlock& block);
  void prefetch(std::uint32_t block, int direction);
  void gather_tied_table(const StageBlock& block);
  bool turns_around(const StageBlock& block) const;
  void release_weights(const StageBlock& block, bool after_forward);
  void release_unit(const StageBlock& block, Bucket& bucket, bool after_forward);

  // lower_gradients.cpp
  bool adds_gradients(const Frame& frame) const;
  void take_temporary_placeholder(const Place& place);
  bool has_kept_placeholder(const ModelOp& op) const;
  void allocate_kept_placeholders();
  BufferId write_gradient(const Frame& frame, const Place& place, BufferId own = BufferId{none});
  void add_gradient(const Frame& frame, std::size_t i, const Place& place, BufferId own);
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

  // lower_optimizer.cpp
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
  enum class DeepSpeedOptimizer : std::uint8_t { none, zero, bf16, fp16 };
  DeepSpeedOptimizer deepspeed_optimizer() const;
  std::int64_t norm_bytes() const;
  std::int64_t adam_bytes() const;
  static std::int64_t shard_of(const Bucket& bucket);

  OpLabel label(const char* name);

  const ShardedModel& model_;
  const Layout& layout_;
  int stage_ = 0;
  int zero_ = 0;           // 0 when there is nobody to share with
  bool converts_ = false;  // converts_gradients()
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
  std::size_t current_slot_ = 0;
  std::int64_t scaled_products_ = 0;  // in 8 bits, whose scales this rank shares
  bool has_messages_ = false;         // since the host has waited for some
  Value waiting_output_;              // of a forward pass that leads a pair: sent after the pair
  std::size_t waiting_slot_ = 0;
  std::array<Value, 2> posted_;  // messages for this slot and the next, by the slot's number
  // Before each slot: the sends issued last, by direction; none: there was none.
  std::vector<std::array<OpId, 2>> sent_before_slot_;
};

}  // namespace sim
