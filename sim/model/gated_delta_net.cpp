// A gated delta net (Yang et al. 2024, arXiv:2412.06464) as Qwen3-Next has it and Megatron-LM
// trains it (core/ssm/gated_delta_net/gdn.py and common.py), with the kernels of
// flash-linear-attention (commit bc3b101d, ops/gated_delta_rule/chunk.py, wy_fast.py and
// ops/common/chunk_o.py, chunk_delta_h.py).
//
// Costs of one token and head of values, with K and V features of keys and values and chunks of C
// tokens:
//
// Forward                                                FLOP
//   scores of keys, inverse of the triangle              2CK + C^2
//   w and u of the WY form                               2CK + 2CV
//   states                                               4KV
//   outputs                                              2CK + 2CV + 2KV
// Backward
//   w, u and states again                                2CK + 2CV + 4KV
//   dv within chunks                                     2CK + 2CV
//   gradient of the states                               6KV
//   dq, dk, dw                                           4CK + 2CV + 6KV
//   of the WY form                                       10CK + 4CV + 4C^2
//
// Elements, with A = C of the triangle and S = K V / C of the states: each kernel reads its
// operands and writes its results once. Queries and keys are repeated for the heads of values that
// share them. Gates are kept in fp32.
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

struct DeltaSizes {
  double heads, key, value, chunk;
  double states() const { return key * value / chunk; }
};

DeltaSizes delta_sizes_of(const GatedDeltaNet& net) {
  return {.heads = static_cast<double>(net.value_heads),
          .key = static_cast<double>(net.key_dim),
          .value = static_cast<double>(net.value_dim),
          .chunk = static_cast<double>(GatedDeltaNet::chunk)};
}

double forward_flops_of(const DeltaSizes& s) {
  const double keys = s.chunk * s.key, values = s.chunk * s.value;
  return s.heads * (6 * keys + 4 * values + 6 * s.key * s.value + s.chunk * s.chunk);
}

double backward_flops_of(const DeltaSizes& s) {
  const double keys = s.chunk * s.key, values = s.chunk * s.value;
  return s.heads * (18 * keys + 10 * values + 16 * s.key * s.value + 4 * s.chunk * s.chunk);
}

// w, u: reads k, v, A; writes w, u. States: reads k, w, u; writes states and corrected values.
double wy_elements(const DeltaSizes& s) {
  return 2 * s.key + 2 * s.value + s.chunk;
}
double state_elements(const DeltaSizes& s) {
  return 2 * s.key + 2 * s.value + s.states();
}

// Cumulative decay 2 + 2; scores read k and write fp32, the inverse reads them and writes A;
// outputs: q, k, values, states; out.
double delta_forward_elements(const DeltaSizes& s) {
  const double triangle = s.key + 2 * s.chunk + 2 * s.chunk + s.chunk;
  const double outputs = 2 * s.key + 2 * s.value + s.states();
  return s.heads * (4 + triangle + wy_elements(s) + state_elements(s) + outputs);
}

// dv within chunks: q, k, do; dv. Gradient of states: q, k, w, do, dv; dh, dv. dq, dk, dw: q, k,
// values, states, do, dh, dv; three results. Gradient of the WY form: k, v, A, dw, du; dk twice,
// read once, dv. Then dk is added up, 3, and so are the gradients of the decay in fp32.
double delta_backward_elements(const DeltaSizes& s) {
  const double local = 2 * s.key + 2 * s.value;
  const double states = 3 * s.key + 3 * s.value + s.states();
  const double inputs = 2 * s.key + 3 * s.value + 2 * s.states() + 3 * s.key;
  const double wy = 2 * s.key + 2 * s.value + s.chunk + 3 * s.key + s.value;
  return s.heads *
         (wy_elements(s) + state_elements(s) + local + states + inputs + wy + 3 * s.key + 16);
}

// fla's causal_conv1d over queries, keys and values; a strided view of the product's output, which
// lives on as a whole.
ModelOp delta_convolution_op(const GatedDeltaNet& net) {
  const auto convolved = static_cast<double>(net.convolved());
  return {.name = "delta_convolution",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .in_features = net.projected(),
          .out_features = net.projected(),
          .biases = net.convolved() * net.convolution,
          .splits_parameters = true,
          .forward_elements = 2 * convolved,
          .backward_elements = 3 * convolved,
          .saved_elements = static_cast<double>(net.projected()),
          .model_flops = Flops{2 * static_cast<double>(net.convolved() * net.convolution)}};
}

// _prepare_input_for_gated_delta_rule, which torch.compile fuses: queries and keys are divided by
// their length and repeated, the decay and the strength are made. Reads queries, keys, values and
// both gates; writes queries and keys for every head of values, values, the decay in fp32 and the
// strength. Backward the same the other way round, with what was read. Kept: queries and keys of
// unit length. Decay: A_log and dt_bias of every head.
ModelOp gates_op(const GatedDeltaNet& net) {
  const auto keys = static_cast<double>(net.keys()), values = static_cast<double>(net.values());
  const auto heads = static_cast<double>(net.value_heads);
  const double repeated = 2 * heads * static_cast<double>(net.key_dim);
  const double read = 2 * keys + values + 2 * heads, written = repeated + values + 3 * heads;
  return {.name = "delta_gates",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .in_features = net.projected(),
          .out_features = 2 * net.value_heads * net.key_dim + net.values() + 3 * net.value_heads,
          .biases = 2 * net.value_heads,
          .splits_parameters = true,
          .forward_elements = read + written,
          .backward_elements = 2 * read + written,
          .forward_launches = 3,
          .backward_launches = 4,
          .saved_elements = 2 * keys};
}

// Megatron-LM counts four products of V x V for a head (training/training.py, gdn_layer_flops).
// Kept: queries, keys, values, decay, strength and A.
ModelOp delta_scan_op(const GatedDeltaNet& net) {
  const DeltaSizes s = delta_sizes_of(net);
  constexpr int forward_kernels = 5, backward_kernels = 9;
  // Two products in a row. From two published times, forward, of one sequence of 8,192 tokens on a
  // B200 (validation/BEYOND.md, hybrid models), which both give it. Backward, not measured, states
  // pass twice: those of the forward pass again, and their gradients.
  constexpr auto step = std::chrono::nanoseconds(1650);
  const std::int64_t read = 2 * net.value_heads * net.key_dim + net.values() + 3 * net.value_heads;
  ModelOp op{.name = "delta_scan",
             .kind = ModelOpKind::scan,
             .split = TensorSplit::inner,
             .in_features = read,
             .out_features = net.values(),
             .scan = ScanShape{.heads = net.key_heads,
                               .groups = net.key_heads,
                               .chunk = GatedDeltaNet::chunk,
                               .forward_step = step,
                               .backward_step = 2 * step},
             .forward_elements = delta_forward_elements(s),
             .backward_elements = delta_backward_elements(s),
             .forward_launches = forward_kernels,
             .backward_launches = backward_kernels,
             .saved_elements = static_cast<double>(read) + s.heads * s.chunk};
  op.forward_flops = Flops{forward_flops_of(s)};
  op.backward_flops = Flops{backward_flops_of(s)};
  op.model_flops = Flops{8 * s.heads * s.value * s.value};
  // a2a_cp_to_hp: the output of the product as one.
  op.scan->exchanged = {{net.projected(), false}};
  return op;
}

// RMSNorm over each head and the gate, in one compiled kernel; all heads have the same scale.
ModelOp gated_norm_op(const GatedDeltaNet& net) {
  const auto values = static_cast<double>(net.values());
  return {.name = "delta_norm",
          .kind = ModelOpKind::norm,
          .split = TensorSplit::inner,
          .in_features = net.values(),
          .out_features = net.values(),
          .biases = net.value_dim,
          .forward_elements = 3 * values,
          .backward_elements = 5 * values,
          .saved_elements = values};
}

}  // namespace

void append_gated_delta_net(Block& block, const TransformerShape& shape) {
  const GatedDeltaNet& net = shape.hybrid.delta_net;
  block.ops.push_back(
      linear_op("delta_in", TensorSplit::column, shape.hidden, net.projected(), false));
  block.ops.push_back(delta_convolution_op(net));
  block.ops.push_back(gates_op(net));
  block.ops.push_back(delta_scan_op(net));
  block.ops.push_back(gated_norm_op(net));
  block.ops.push_back(linear_op("delta_out", TensorSplit::row, net.values(), shape.hidden, false));
}

}  // namespace sim
