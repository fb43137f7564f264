// A block of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) as Megatron-LM trains it: a product, then
// mamba_ssm's mamba_split_conv1d_scan_combined, an RMSNorm over each group of heads, and a product
// (core/ssm/mamba_mixer.py, _ssm_training; state-spaces/mamba commit e9594ce1,
// ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn).
//
// Kept are the output of the first product, of which the convolution is computed again, and that of
// the scan with its gate. With D features in H heads of P, G groups of state N, and chunks of Q
// tokens, of one token:
//
// Kernels of the scan, forward (_mamba_chunk_scan_combined_fwd)      FLOP        elements
//   cumsum of steps     dt; dt and decays in fp32                                H + 4H
//   chunk_state         x, B, dt; states in fp32                     2HPN        D + GN + 4H + 2S
//   state_passing       states in fp32; in 16 bits                               2S + S
//   bmm                 B, C; scores of a group in fp32              2GQN        2GN + 2GQ
//   chunk_scan          scores, x, C, states, dt, z; out, gated      2HPN + HPQ  2GQ + D + GN + S +
//                                                                                4H + D + 2D
// where S = D N / Q are the states of a chunk by token. The lower triangle of a chunk's scores is
// half of it; the product of B and C computes all of it.
//
// Backward (_mamba_chunk_scan_combined_bwd)
//   the convolution, cumsum, bmm, chunk_state and state_passing again (states in fp32)
//   chunk_scan_bwd_dz   out, z, dout; dz, dout of the scan                       5D
//   dstates             C, dout; fp32                                2HPN        GN + D + 2S
//   state_passing_bwd   states and dstates in fp32; both in 16 bits              6S
//   chunk_state_bwd_dx  x, B, scores, dout, dstates; dx, ddt         2HPN + HPQ  3D + GN + 2GQ + S
//   +
//                                                                                6H
//   chunk_state_bwd_db  x, dstates, B; dB in fp32                    2HPN        D + S + GN + 2GN +
//                                                                                4H
//   chunk_scan_bwd_dC   dout, states, C; dC in fp32                  2HPN        D + S + GN + 2GN +
//                                                                                4H
//   chunk_scan_bwd_dcb  x, dout; gradient of the scores in fp32      HPQ         2D + 2GQ + 4H
//   bmm_bwd, twice      C or B, that, dB or dC; the sum              4GQN        2(2GN + 2GQ + 2GN)
//   ddAcs_stable        x, dout, scores                              HPQ         2D + 2GQ + 4H
//   cumsum_bwd          decays and steps, with sums of three         0           10H
// Triton reads a tile again for each tile that needs it; from memory each tensor is counted once.
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

struct MambaSizes {
  double inner, state, heads, groups, chunk;  // of B or C of all groups: state
  double states() const { return inner * (state / groups) / chunk; }
  double scores() const { return 2 * groups * chunk; }  // in fp32
  double state_flops() const { return 2 * inner * (state / groups); }
  double triangle_flops() const { return inner * chunk; }
  double group_flops() const { return 2 * chunk * state; }
};

MambaSizes mamba_sizes_of(const Mamba2& mamba) {
  return {.inner = static_cast<double>(mamba.inner()),
          .state = static_cast<double>(mamba.groups * mamba.state),
          .heads = static_cast<double>(mamba.heads),
          .groups = static_cast<double>(mamba.groups),
          .chunk = static_cast<double>(mamba.chunk)};
}

// Elements moved by the kernels that make the states of all chunks.
double states_elements(const MambaSizes& s, bool in_fp32) {
  return 5 * s.heads + (s.inner + s.state + 4 * s.heads + 2 * s.states()) +
         (2 + (in_fp32 ? 2 : 1)) * s.states();
}

double scores_elements(const MambaSizes& s) {
  return 2 * s.state + s.scores();
}

double mamba_forward_elements(const MambaSizes& s) {
  return states_elements(s, false) + scores_elements(s) + s.scores() + 4 * s.inner + s.state +
         s.states() + 4 * s.heads;
}

double mamba_backward_elements(const MambaSizes& s) {
  const double gate = 5 * s.inner;
  const double states = s.state + s.inner + 2 * s.states() + 6 * s.states();
  const double inputs = 3 * s.inner + s.state + s.scores() + s.states() + 6 * s.heads;
  const double groups = 2 * (s.inner + s.states() + 3 * s.state + 4 * s.heads);
  const double scores = 2 * (2 * s.inner + s.scores() + 4 * s.heads) + 8 * s.state + 2 * s.scores();
  return states_elements(s, true) + scores_elements(s) + gate + states + inputs + groups + scores +
         10 * s.heads;
}

// core/ssm/mamba_mixer.py: A_log, D and dt_bias of every head lie beside the convolution's weights.
// The kernel of causal_conv1d reads and writes x, B and C; backward it reads them and their
// gradient, and writes that of its input. Gate and steps go past it.
ModelOp mamba_convolution_op(const Mamba2& mamba) {
  const auto convolved = static_cast<double>(mamba.convolved());
  return {.name = "mamba_convolution",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::inner,
          .in_features = mamba.projected(),
          .out_features = mamba.projected(),
          .biases = mamba.convolved() * (mamba.convolution + (mamba.convolution_bias ? 1 : 0)) +
                    3 * mamba.heads,
          .splits_parameters = true,
          .forward_elements = 2 * convolved,
          .backward_elements = 3 * convolved,
          .saved_elements = static_cast<double>(mamba.projected())};
}

// Megatron-LM counts 7 D N of a scan (training/training.py, mamba_layer_flops).
ModelOp mamba_scan_op(const Mamba2& mamba) {
  const MambaSizes s = mamba_sizes_of(mamba);
  ModelOp op{
      .name = "mamba_scan",
      .kind = ModelOpKind::scan,
      .split = TensorSplit::inner,
      .in_features = mamba.projected(),
      .out_features = mamba.inner(),
      .scan = ScanShape{.heads = mamba.heads,
                        .groups = mamba.groups,
                        .chunk = mamba.chunk,
                        .forward_step = Mamba2::forward_step,
                        .backward_step = Mamba2::backward_step},
      .forward_elements = mamba_forward_elements(s),
      .backward_elements = mamba_backward_elements(s) + 2 * static_cast<double>(mamba.convolved()),
      .forward_launches = Mamba2::forward_kernels,
      .backward_launches = Mamba2::backward_kernels,
      .saved_elements = s.inner};
  op.forward_flops = Flops{2 * s.state_flops() + s.triangle_flops() + s.group_flops()};
  op.backward_flops = Flops{5 * s.state_flops() + 3 * s.triangle_flops() + 3 * s.group_flops()};
  op.model_flops = Flops{7 * static_cast<double>(mamba.inner() * mamba.state)};
  // MambaContextParallel.pre_conv_ssm: z, x, B, C, dt.
  const std::int64_t state = mamba.groups * mamba.state;
  op.scan->exchanged = {{mamba.inner(), false},
                        {mamba.inner(), false},
                        {state, true},
                        {state, true},
                        {mamba.heads, false}};
  return op;
}

// ExtendedRMSNorm behind the gate, over the heads of a group.
ModelOp group_norm_op(const Mamba2& mamba) {
  const auto inner = static_cast<double>(mamba.inner());
  return {.name = "mamba_norm",
          .kind = ModelOpKind::norm,
          .split = TensorSplit::inner,
          .in_features = mamba.inner(),
          .out_features = mamba.inner(),
          .biases = mamba.inner(),
          .splits_parameters = true,
          .forward_elements = 2 * inner,
          .backward_elements = 3 * inner,
          .saved_elements = inner};
}

}  // namespace

void append_mamba2(Block& block, const TransformerShape& shape) {
  const Mamba2& mamba = shape.hybrid.mamba;
  block.ops.push_back(
      linear_op("mamba_in", TensorSplit::column, shape.hidden, mamba.projected(), false));
  block.ops.push_back(mamba_convolution_op(mamba));
  block.ops.push_back(mamba_scan_op(mamba));
  if (mamba.norm) block.ops.push_back(group_norm_op(mamba));
  block.ops.push_back(linear_op("mamba_out", TensorSplit::row, mamba.inner(), shape.hidden, false));
}

}  // namespace sim
