// Plans that the backend refuses before it touches a GPU.
#include <fmt/format.h>

#include <set>

#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/nccl/communicators.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/model/dropout.hpp"

namespace real {

namespace {

using sim::DType;
using sim::Function;

class Problems {
 public:
  void add(std::string text) {
    if (seen_.insert(text).second) list_.push_back(std::move(text));
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> list_;
};

void check_formats(const sim::Layout& layout, Problems& problems) {
  struct Format {
    const char* key;
    DType dtype;
  };
  for (const Format& format : {Format{"compute_dtype", layout.compute_dtype},
                               Format{"activation_dtype", layout.activation_dtype},
                               Format{"gradient_dtype", layout.gradient_dtype},
                               Format{"reduce_dtype", layout.reduce_dtype}}) {
    if (format.dtype == DType::bf16 || format.dtype == DType::fp32) continue;
    problems.add(fmt::format("layout.{}: the CUDA backend computes in bf16 or fp32, not {}",
                             format.key, sim::word(format.dtype)));
  }
  if (layout.compression != sim::GradientCompression::none || layout.quantized_weights ||
      layout.secondary_shard)
    problems.add(
        "layout.compression: the CUDA backend has no kernels that compress gradients or "
        "parameters; the host backend has");
  if (layout.uses_host())
    problems.add(
        "layout.offload: the CUDA backend keeps everything on the device; the host backend "
        "offloads");
  if (layout.context_parallel > 1)
    problems.add(
        "layout.context_parallel: the CUDA backend has no attention over slices of a sequence; the "
        "host backend has");
  if (layout.trains_apart())
    problems.add(
        "layout.local_steps: the CUDA backend has no kernels of meetings; the host backend has");
  if (layout.optimizer == sim::OptimizerKind::lamb)
    problems.add("layout.optimizer: the CUDA backend has no kernels of LAMB; the host backend has");
  if (layout.has_servers())
    problems.add("layout.servers: the CUDA backend has no parameter servers; the host backend has");
  if (layout.compute_dtype != layout.activation_dtype) {
    problems.add(fmt::format(
        "layout.compute_dtype: the CUDA backend multiplies tensors in the format that they have, "
        "which is {} (activation_dtype), not {}",
        sim::word(layout.activation_dtype), sim::word(layout.compute_dtype)));
  }
  if (layout.activation_dtype == DType::bf16 && !layout.master_weights) {
    problems.add(
        "layout.master_weights: Adam on bf16 weights without fp32 masters is not done by the CUDA "
        "backend: updates smaller than 2^-9 of a weight would be lost");
  }
}

// Limits of real/engine/kernels.hpp.
void check_op(const sim::ModelOp& op, const sim::Model& model, const sim::Layout& layout,
              Problems& problems) {
  const std::int64_t head = model.attention.head_dim;
  if (sim::dropout_of(model, op) > 0)
    problems.add(fmt::format(
        "{}: the CUDA backend has no kernels of dropout (set the model's dropout to 0); the host "
        "backend has",
        op.name));
  switch (op.function) {
    case Function::attention:
      if (!sim::is_flash(layout.attention)) {
        problems.add(fmt::format(
            "{}: the CUDA backend has fused attention only (layout.attention: flash or flash-2)",
            op.name));
      }
      if (head % 16 != 0 || head > 128) {
        problems.add(
            fmt::format("{}: {} elements per head; the CUDA kernel takes multiples of 16 up to 128",
                        op.name, head));
      }
      if (reads_labels(model))
        problems.add(fmt::format(
            "{}: the CUDA backend masks no padding of labelled sentences; the host backend does",
            op.name));
      return;
    case Function::rotary:
      if (head % 2 != 0) {
        problems.add(
            fmt::format("{}: {} elements per head cannot be rotated in pairs", op.name, head));
      }
      return;
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
    case Function::rms_norm:
      if (op.split == sim::TensorSplit::inner && (head % 32 != 0 || head > 256)) {
        problems.add(
            fmt::format("{}: {} elements per head; the CUDA kernel takes multiples of 32 up to 256",
                        op.name, head));
      }
      if (op.in_features > 16'384) {
        problems.add(fmt::format("{}: {} features; the CUDA kernel takes 16,384 at most", op.name,
                                 op.in_features));
      }
      return;
    default:
      return;
  }
}

void check_block(const sim::Block& block, const sim::Model& model, const sim::Layout& layout,
                 Problems& problems) {
  for (const sim::ModelOp& op : block.ops)
    check_op(op, model, layout, problems);
}

void check_programs(const sim::Plan& plan, Problems& problems) {
  for (const sim::Program& program : plan.programs) {
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      const sim::OpKind kind = program.kind[op];
      if (kind == sim::OpKind::host_copy || kind == sim::OpKind::barrier) {
        problems.add(fmt::format("{}: the CUDA backend has no operator of kind {}",
                                 program.name(sim::OpId{op}), sim::word(kind)));
      }
    }
    for (const sim::Collective& collective : program.collectives) {
      using sim::CollectiveKind;
      if (collective.kind == CollectiveKind::all_reduce ||
          collective.kind == CollectiveKind::reduce_scatter ||
          collective.kind == CollectiveKind::all_gather ||
          collective.kind == CollectiveKind::all_to_all) {
        continue;
      }
      problems.add(
          fmt::format("the CUDA backend runs no {} of a plan", sim::word(collective.kind)));
    }
  }
}

}  // namespace

std::vector<std::string> cuda_problems(const sim::Plan& plan, const sim::Model& model,
                                       const Algorithms& algorithms) {
  Problems problems;
  check_formats(plan.layout, problems);
  check_block(model.input, model, plan.layout, problems);
  for (const sim::Block& layer : model.layers)
    check_block(layer, model, plan.layout, problems);
  check_block(model.output, model, plan.layout, problems);
  check_programs(plan, problems);
  for (std::string& problem : algorithm_problems(plan, algorithms)) {
    problems.add(std::move(problem));
  }
  return problems.take();
}

}  // namespace real
