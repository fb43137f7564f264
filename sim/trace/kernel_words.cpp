#include "sim/trace/kernel_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "sim/base/lower_case.hpp"

namespace sim {
namespace {

struct KindWord {
  std::string_view word;  // in lower case
  OpKind kind;
};

// In the kernel's own name: an operator of communication issues copies and sums, too.
constexpr std::array communication_words{std::string_view{"nccl"},
                                         std::string_view{"rccl"},
                                         std::string_view{"deep_ep::"},
                                         std::string_view{"hybrid_ep"},
                                         std::string_view{"nvshmem"},
                                         std::string_view{"userbuffers"},
                                         std::string_view{"msccl"},
                                         std::string_view{"one_shot_all_reduce"},
                                         std::string_view{"two_shot_all_"},
                                         std::string_view{"multimem_all_"},
                                         std::string_view{"cross_device_reduce"}};
// DeepEP's count of tokens for each rank: it sends nothing.
constexpr std::string_view dispatch_layout = "get_dispatch_layout";

// The first that is found counts: the name of an attention kernel may hold "gemm".
constexpr std::array kind_words{
    KindWord{"selective_scan", OpKind::scan},
    KindWord{"chunk_scan", OpKind::scan},
    KindWord{"chunk_state", OpKind::scan},
    KindWord{"state_passing", OpKind::scan},
    KindWord{"attention", OpKind::attention},
    KindWord{"flash", OpKind::attention},
    KindWord{"fmha", OpKind::attention},
    KindWord{"sdpa", OpKind::attention},
    KindWord{"layer_norm", OpKind::norm},
    KindWord{"layernorm", OpKind::norm},
    KindWord{"gammabetabackward", OpKind::norm},
    KindWord{"ln_fwd", OpKind::norm},
    KindWord{"ln_bwd", OpKind::norm},
    KindWord{"rms_norm", OpKind::norm},
    KindWord{"rmsnorm", OpKind::norm},
    KindWord{"batch_norm", OpKind::norm},
    KindWord{"batchnorm", OpKind::norm},
    KindWord{"group_norm", OpKind::norm},
    KindWord{"groupnorm", OpKind::norm},
    KindWord{"cross_entropy", OpKind::cross_entropy},
    KindWord{"crossentropy", OpKind::cross_entropy},
    KindWord{"nll_loss", OpKind::cross_entropy},
    KindWord{"log_softmax", OpKind::cross_entropy},
    KindWord{"logsoftmax", OpKind::cross_entropy},
    KindWord{"adam", OpKind::optimizer},
    KindWord{"fused_sgd", OpKind::optimizer},
    KindWord{"fusedsgd", OpKind::optimizer},
    KindWord{"multi_tensor_apply", OpKind::optimizer},
    KindWord{"multitensorapply", OpKind::optimizer},
    KindWord{"embedding", OpKind::embedding},
    KindWord{"indexselectlargeindex", OpKind::embedding},
    KindWord{"gemm", OpKind::gemm},
    KindWord{"gemv", OpKind::gemm},
    KindWord{"nvjet", OpKind::gemm},
    KindWord{"cutlass", OpKind::gemm},
    KindWord{"wgmma", OpKind::gemm},
    KindWord{"xmma", OpKind::gemm},
    KindWord{"splitkreduce", OpKind::gemm},
    KindWord{"cijk_", OpKind::gemm},  // Tensile's, of rocBLAS and hipBLASLt
    KindWord{"hipblaslt", OpKind::gemm},
    KindWord{"grouped_mm", OpKind::gemm},
    KindWord{"matmul", OpKind::gemm},
    KindWord{"triton_tem_", OpKind::gemm},  // Inductor's templates of products
    KindWord{"triton_mm", OpKind::gemm},
    KindWord{"convolve", OpKind::gemm},
    KindWord{"winograd", OpKind::gemm},
    KindWord{"triton_", OpKind::elementwise},  // Inductor's others
    KindWord{"elementwise", OpKind::elementwise},
    KindWord{"softmax", OpKind::elementwise},
    KindWord{"copy", OpKind::elementwise},
    KindWord{"cast", OpKind::elementwise},
    KindWord{"ck::", OpKind::gemm},  // composable kernels of AMD; attention and norms say so
    KindWord{"ck_tile::", OpKind::gemm}};

struct CollectiveWord {
  std::string_view word;  // in lower case
  std::optional<CollectiveKind> kind;
};
constexpr std::array collective_words{
    CollectiveWord{"allreduce", CollectiveKind::all_reduce},
    CollectiveWord{"all_reduce", CollectiveKind::all_reduce},
    CollectiveWord{"reducescatter", CollectiveKind::reduce_scatter},
    CollectiveWord{"reduce_scatter", CollectiveKind::reduce_scatter},
    CollectiveWord{"allgather", CollectiveKind::all_gather},
    CollectiveWord{"all_gather", CollectiveKind::all_gather},
    CollectiveWord{"alltoall", CollectiveKind::all_to_all},
    CollectiveWord{"all_to_all", CollectiveKind::all_to_all},
    CollectiveWord{"broadcast", CollectiveKind::broadcast},
    CollectiveWord{"sendrecv", std::nullopt},
    CollectiveWord{"kernel_reduce_", CollectiveKind::reduce}};

bool has_communication_word(const std::string& lower) {
  if (lower.find(dispatch_layout) != std::string::npos) return false;
  return std::any_of(communication_words.begin(), communication_words.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

}  // namespace

bool is_communication(std::string_view name) {
  return has_communication_word(lower_case(name));
}

OpKind kind_of_kernel(std::string_view name, std::string_view op) {
  std::string text = lower_case(name);
  if (has_communication_word(text)) return OpKind::collective;
  text += ' ';
  text += lower_case(op);
  for (const KindWord& known : kind_words)
    if (text.find(known.word) != std::string::npos) return known.kind;
  return OpKind::elementwise;
}

NamedCollective collective_of_kernel(std::string_view name) {
  const std::string text = lower_case(name);
  for (const CollectiveWord& known : collective_words)
    if (text.find(known.word) != std::string::npos) return {known.kind, !known.kind.has_value()};
  return {};
}

}  // namespace sim
