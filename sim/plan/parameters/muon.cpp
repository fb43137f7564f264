#include "sim/plan/parameters/muon.hpp"

#include <algorithm>
#include <array>

#include "sim/plan/sharding/parts.hpp"

namespace sim::lowering {
namespace {

constexpr int iterations = 5;

MuonMatrix oriented(std::int64_t rows, std::int64_t columns, int ranks) {
  return {std::min(rows, columns), std::max(rows, columns), ranks};
}

}  // namespace

double MuonMatrix::flops() const {
  const auto m = static_cast<double>(rows), n = static_cast<double>(columns);
  return iterations * (4 * m * m * n + 2 * m * m * m);
}

// Queries, keys and values are matrices of their own (Megatron-LM, --muon-no-split-qkv is off); a
// gate and what it gates are one where they are one product.
std::vector<MuonMatrix> muon_matrices(const ShardedBlock& block, std::size_t i,
                                      const ShardedModel& model) {
  const ModelOp& op = *block.ops[i].op;
  const bool in_layer = block.block->name == "layer" && is_product(op) && op.weights > 0;
  if (!in_layer) return {};
  const AttentionShape& attention = model.model->attention;
  std::vector<std::int64_t> widths{op.out_features};
  const std::vector<std::int64_t> apart = products_of(*block.block, i, attention);
  if (apart.size() == 3 || model.model->execution.separate_products) widths = apart;
  const std::int64_t held =
      op.experts > 0 ? model.model->shape->experts.count / model.layout.expert_parallel : 1;
  const bool shared = is_linear_of_layer(op) && op.experts == 0;
  const int ranks = shared ? model.layout.tensor_parallel : 1;
  std::vector<MuonMatrix> matrices;
  for (std::int64_t expert = 0; expert < held; ++expert)
    for (const std::int64_t width : widths)
      matrices.push_back(oriented(width, op.in_features, ranks));
  return matrices;
}

std::int64_t muon_elements(const ShardedBlock& block, std::size_t i, const ShardedModel& model) {
  std::int64_t elements = 0;
  for (const MuonMatrix& matrix : muon_matrices(block, i, model))
    elements += matrix.held();
  return elements;
}

// Megatron-LM at d98e8a64, core/optimizer/layer_wise_optimizer.py, _shard_params_ping_pong
// (--no-use-layer-wise-param-layout): in the order of their sizes, to the ranks there and back.
std::int64_t dealt_surplus(const LoweringContext& context) {
  const Layout& layout = context.layout;
  const int ranks = context.sharing.zero == 1 ? context.sharing.shards : 1;
  if (!context.runs.deals_parameters || layout.optimizer != OptimizerKind::muon || ranks == 1)
    return 0;
  struct Tensor {
    std::int64_t elements = 0, bytes = 0;
  };
  std::vector<Tensor> tensors;
  for (const StageBlock& block : context.blocks) {
    const ShardedBlock& shape = context.model.blocks[block.shape];
    for (std::size_t i = 0; i < shape.ops.size(); ++i) {
      const ShardedOp& op = shape.ops[i];
      if (op.parameters == 0 || op.op->experts > 0 || op.op->shares_with >= 0) continue;
      const std::int64_t matrices = muon_elements(shape, i, context.model);
      const std::int64_t moments = 2 * op.parameters - matrices;
      tensors.push_back({op.parameters, layout.master_bytes() * op.parameters +
                                            bytes_of(layout.moment_dtype) * moments});
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Tensor& a, const Tensor& b) { return a.elements < b.elements; });
  std::vector<std::int64_t> shares(static_cast<std::size_t>(ranks));
  std::int64_t all = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t at = i % (2 * shares.size());
    shares[at < shares.size() ? at : 2 * shares.size() - 1 - at] += tensors[i].bytes;
    all += tensors[i].bytes;
  }
  return std::max<std::int64_t>(0, *std::max_element(shares.begin(), shares.end()) - all / ranks);
}

std::vector<MuonMatrix> MuonStep::of_experts(bool experts) const {
  std::vector<MuonMatrix> all;
  for (const StageBlock& block : context_.blocks) {
    const ShardedBlock& shape = model_.blocks[block.shape];
    for (std::size_t i = 0; i < shape.ops.size(); ++i) {
      if ((shape.ops[i].op->experts > 0) != experts) continue;
      const std::vector<MuonMatrix> own = muon_matrices(shape, i, model_);
      all.insert(all.end(), own.begin(), own.end());
    }
  }
  return all;
}

// The largest first, each to the rank that has the least to do.
std::vector<MuonMatrix> MuonStep::fullest(std::vector<MuonMatrix> matrices, int ranks) const {
  if (ranks <= 1) return matrices;
  std::stable_sort(matrices.begin(), matrices.end(),
                   [](const MuonMatrix& a, const MuonMatrix& b) { return a.flops() > b.flops(); });
  struct Share {
    double flops = 0;
    std::vector<MuonMatrix> matrices;
  };
  std::vector<Share> shares(static_cast<std::size_t>(ranks));
  const auto less = [](const Share& a, const Share& b) { return a.flops < b.flops; };
  for (const MuonMatrix& matrix : matrices) {
    Share& share = *std::min_element(shares.begin(), shares.end(), less);
    share.flops += matrix.flops();
    share.matrices.push_back(matrix);
  }
  return std::max_element(shares.begin(), shares.end(), less)->matrices;
}

std::vector<MuonMatrix> MuonStep::matrices_of_fullest() const {
  const bool sharded = sharing_.zero > 0;
  std::vector<MuonMatrix> matrices = fullest(of_experts(false), sharded ? sharing_.shards : 1);
  const std::vector<MuonMatrix> experts =
      fullest(of_experts(true), sharded ? sharing_.expert_copies : 1);
  matrices.insert(matrices.end(), experts.begin(), experts.end());
  return matrices;
}

void MuonStep::pass(const std::vector<MuonMatrix>& matrices, const PassBytes& bytes, int launches) {
  std::int64_t sum = 0;
  for (const MuonMatrix& matrix : matrices)
    sum += bytes.own * matrix.held() + bytes.whole * matrix.elements();
  const std::uint32_t kernel = context_.memory_pass(sum, OpKind::optimizer, DType::fp32,
                                                    launches * static_cast<int>(matrices.size()));
  builder_.add_kernel(kernel, Stream::compute, Pass::optimizer, context_.label("muon"),
                      {Action::orthogonalize});
}

// The workspace holds one matrix at a time: X before and behind an iteration, X X^T and its
// polynomial, in fp32; the gathered parts are joined in a further tensor.
BufferId MuonStep::allocate_workspace(const std::vector<MuonMatrix>& matrices) {
  std::int64_t most = 0;
  for (const MuonMatrix& matrix : matrices)
    most = std::max(most,
                    (matrix.ranks > 1 ? 3 : 2) * matrix.elements() + 2 * matrix.rows * matrix.rows);
  const BufferId workspace = builder_.buffer(Bytes{4 * most}, BufferCategory::optimizer);
  builder_.writes(workspace, Role::workspace);
  return workspace;
}

// Kernels wait for it (all_gather on the current stream).
void MuonStep::gather(const MuonMatrix& matrix) {
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  const OpId done = builder_.add_collective(
      builder_.collective({CollectiveKind::all_gather, GroupRole::tensor, DType::fp32,
                           Bytes{matrix.elements() * bytes_of(DType::fp32)}}),
      Stream::tensor_comm, Pass::optimizer, context_.label("muon.all_gather"),
      {Action::orthogonalize});
  builder_.wait(Stream::compute, done);
}

void MuonStep::iterate(const std::vector<MuonMatrix>& matrices) {
  const OpLabel label = context_.label("newton_schulz");
  for (const MuonMatrix& matrix : matrices) {
    if (matrix.ranks > 1) gather(matrix);
    const std::int64_t m = matrix.rows, n = matrix.columns;
    const Bytes square{m * m * bytes_of(DType::bf16)}, whole{m * n * bytes_of(DType::bf16)};
    // The second and the third also add what they multiply.
    const std::array products{
        builder_.kernel(gemm(DType::bf16, {m, m, n}, square)),
        builder_.kernel(gemm(DType::bf16, {m, m, m}, square * 2)),
        builder_.kernel(gemm(DType::bf16, {m, n, m}, whole * 2)),
    };
    for (int iteration = 0; iteration < iterations; ++iteration)
      for (const std::uint32_t product : products)
        builder_.add_kernel(product, Stream::compute, Pass::optimizer, label,
                            {Action::orthogonalize});
  }
}

}  // namespace sim::lowering
