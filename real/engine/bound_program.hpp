// A rank's Program made ready to run: every operator with the place of each operand in the arena.
// Both backends execute this; neither looks at buffers, sites or buckets again to find memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/memory/arena.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

namespace real {

struct Operand {
  // Bytes from the start of the arena, behind which the host's memory goes on (arena.hpp of
  // sim/memory); -1: the operator has none.
  std::int64_t offset = -1;
  std::int64_t bytes = 0;
  bool exists() const { return offset >= 0; }
};

struct BoundOp {
  sim::OpKind kind = sim::OpKind::elementwise;
  sim::Action action = sim::Action::forward;
  sim::Stream stream = sim::Stream::compute;
  sim::Pass pass = sim::Pass::forward;
  // Weight gradients: add to what is there, or be the first to write it. `weight_gradient` and
  // `bias_gradient` write all of their part; the backward pass of a table must zero the operand
  // first when this is false, as it touches only the rows that it saw.
  bool accumulate = true;
  sim::DType gradient_dtype = sim::DType::fp32;  // of `weight_gradient`
  std::int32_t microbatch = -1;
  // Operators of the site with this action that stand before it in the pass of its micro-batch. Of
  // attention over context ranks it tells whose slice, or which part of [q|k|v], the operator works
  // on; of an adapter which kernel it is.
  int turn = 0;
  // Linears that are several products: the first output feature of this one, and how many there
  // are.
  std::int64_t first_feature = 0;
  int products = 1;
  std::uint32_t subject = sim::Program::no_subject;  // site or parameter bucket
  const sim::ModelOp* model_op = nullptr;
  const sim::Kernel* kernel = nullptr;
  const sim::Collective* collective = nullptr;
  const sim::Transfer* transfer = nullptr;
  // By Role. `weight` and `weight_gradient` are the site's own elements, not their bucket.
  std::array<Operand, sim::role_count> operands;
  const Operand& operand(sim::Role role) const { return operands[static_cast<std::size_t>(role)]; }
};

// Elements of a bucket that this rank owns, counted from the first that it owns.
struct OwnedRange {
  std::int64_t first = 0, count = 0;
};

// BoundTensor is a tensor of a bucket that the rank owns whole: a matrix or table, or the other
// parameters of an operator.
struct BoundTensor {
  std::int64_t first = 0, count = 0;
  bool decayed = false;  // by BoundBucket::decayed
};

// A parameter bucket in the arena, for actions on whole buckets and on the state of a stage.
struct BoundBucket {
  std::int64_t elements = 0, padded = 0;
  std::int64_t owned_first = 0, owned = 0;  // of the padded elements: this rank's shard
  Operand weight;    // whole (ZeRO-0/1/2) or this rank's shard (ZeRO-3), on the host if it is there
  Operand gradient;  // whole (ZeRO-0/1) or this rank's shard (ZeRO-2/3), the same
  Operand optimizer;  // [master,] m, v of the owned elements
  Operand residual;   // of compressed gradients
  Operand outer;      // parameters and momentum of the last meeting
  // An optimizer on the host, whose `optimizer` lies there, too.
  Operand host_gradient, host_weight;
  // Elements under the weight decay of AdamW: matrices and tables, not norms and biases (GPT-2 and
  // GPT-3 as nanoGPT and Megatron-LM train them: core/optimizer, no weight decay for biases and
  // one-dimensional parameters). Sorted, disjoint, never padding of the bucket.
  std::vector<OwnedRange> decayed;
  // Elements whose squares this rank adds to the gradient norm: over all ranks, every parameter of
  // the model once. Left out are copies held by other tensor, data or replica ranks or by another
  // stage.
  std::vector<OwnedRange> counted;
  std::vector<BoundTensor> tensors;  // each once; empty where the bucket is sharded
};

// A communicator of this rank.
struct BoundGroup {
  std::uint32_t index = sim::Plan::no_group;  // into Plan::groups
  int position = 0;                           // of this rank in it
  std::span<const sim::RankId> ranks;
};

struct BoundProgram {
  const sim::Plan* plan = nullptr;
  const sim::Model* model = nullptr;
  const sim::Program* program = nullptr;
  sim::RankId rank;
  sim::RankCoordinates at;
  std::int64_t arena_bytes = 0;
  std::int64_t host_bytes = 0;  // offloaded tensors, and behind them frozen weights
  // Layout::lora_rank: where the frozen weights of each site begin; -1: it has none. The plan
  // counts them, and gives them no operand.
  std::vector<std::int64_t> frozen;
  bool host_on_disk = false;
  std::vector<BoundOp> ops;  // one per operator of the program
  std::vector<BoundBucket> buckets;
  std::array<BoundGroup, sim::group_role_count> groups;
  // Operators that one of another stream waits for: what needs an event.
  std::vector<bool> signals;
};

// features_of() is how many output features a product of a linear has.
std::int64_t features_of(const BoundOp& product);

// The parameters of an operator that adapters leave as they are. REQUIRES: one tensor rank.
std::int64_t frozen_elements(const sim::ModelOp& op);

// REQUIRES: plan and model outlive it; engine_problems() is empty.
BoundProgram bind(const sim::Plan& plan, const sim::Model& model, sim::RankId rank);

// Operators of this plan that the engine cannot execute, one sentence each (dropout, layer lists,
// 8-bit products, ...). Backends add their own.
// `by_scores`: routers choose so (training.routing), for which the plan need not have room.
std::vector<std::string> engine_problems(const sim::Plan& plan, const sim::Model& model,
                                         bool by_scores = false);

}  // namespace real
