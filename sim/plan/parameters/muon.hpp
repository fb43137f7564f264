// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon): the momentum of each matrix of a
// layer is made orthogonal by five Newton-Schulz iterations before it is added to the weights. Of
// an m x n matrix, m <= n, an iteration is three products, X X^T, its square, and that times X: 20
// m^2 n
// + 10 m^3 FLOP in all (NVIDIA-NeMo/Emerging-Optimizers at fd772926, orthogonalized_optimizers/
// muon_utils.py, newton_schulz_step). Embedding, head, norms and biases have Adam (Megatron-LM,
// core/optimizer/emerging_optimizers.py, _is_nonlinear_or_embedding).
//
// Without ZeRO every replica updates all matrices. With ZeRO-1 each of them belongs to one replica
// as a whole (layer_wise_optimizer.py); the program is that of the replica with the most to do, for
// whom the others wait.
#pragma once

#include <vector>

#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

// MuonMatrix is a matrix that Muon updates. If tensor ranks share it, every one gathers the
// momentum, and makes all of it orthogonal (muon_utils.py, newton_schulz_tp, tp_mode "duplicated":
// Megatron-LM's default).
struct MuonMatrix {
  std::int64_t rows = 0, columns = 0;  // of all of it; rows <= columns
  int ranks = 1;                       // that share it
  std::int64_t elements() const { return rows * columns; }
  std::int64_t held() const { return elements() / ranks; }
  double flops() const;  // of all iterations
};

// Matrices of an operator of a layer; none: Adam updates it.
std::vector<MuonMatrix> muon_matrices(const ShardedBlock& block, std::size_t i,
                                      const ShardedModel& model);
// Elements of these matrices that a rank holds.
std::int64_t muon_elements(const ShardedBlock& block, std::size_t i, const ShardedModel& model);

// Execution::deals_parameters: bytes of states that the replica with the most has beyond an even
// share (experts aside, of which a rank has few replicas).
std::int64_t dealt_surplus(const LoweringContext& context);

class MuonStep : StagePart {
 public:
  MuonStep(LoweringContext& context, const ParameterStore& store)
      : StagePart{context}, store_{store} {}

  // The matrices of the replica with the most FLOPs.
  std::vector<MuonMatrix> matrices_of_fullest() const;
  // Behind it: the momentum, as 16-bit products, then the weights. `begun` and `done` are called
  // when the operator that reads gradients and that which writes weights has been added.
  template <class Begun, class Done>
  void update(Begun begun, Done done) {
    const std::vector<MuonMatrix> matrices = matrices_of_fullest();
    if (matrices.empty()) return;
    pass(matrices, {.own = before, .whole = before_whole}, begun_launches);
    begun();
    const BufferId workspace = allocate_workspace(matrices);
    iterate(matrices);
    pass(matrices, {.own = behind + bytes_of(layout_.activation_dtype)}, done_launches);
    done();
    builder_.frees(workspace, Role::workspace);
  }

 private:
  // Bytes per element of passes over fp32 tensors around the products
  // (orthogonalized_optimizer.py, step; muon_utils.py, newton_schulz; emerging_optimizers.py,
  // scaled_orthogonalize_fn). Weight decay 4 + 4, the momentum 8 + 4; of all of it the norm 4, the
  // quotient 4 + 4; behind: two scales 2 (4 + 4), the sum 8 + 4, and the weights in their format.
  static constexpr std::int64_t before = 20, before_whole = 12, behind = 28;
  static constexpr int begun_launches = 4, done_launches = 3;
  struct PassBytes {
    std::int64_t own = 0, whole = 0;  // per element that the rank holds, and of all
  };

  void pass(const std::vector<MuonMatrix>& matrices, const PassBytes& bytes, int launches);
  void gather(const MuonMatrix& matrix);
  BufferId allocate_workspace(const std::vector<MuonMatrix>& matrices);
  void iterate(const std::vector<MuonMatrix>& matrices);
  std::vector<MuonMatrix> of_experts(bool experts) const;
  std::vector<MuonMatrix> fullest(std::vector<MuonMatrix> matrices, int ranks) const;

  const ParameterStore& store_;
};

}  // namespace sim::lowering
