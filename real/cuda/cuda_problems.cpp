// Plans that the backend refuses before it touches a GPU.
#include <set>

#include "real/cuda/cuda_backend.hpp"
#include "real/cuda/nccl/communicators.hpp"
#include "real/engine/eight_bit.hpp"
#include "real/engine/eight_bit_problems.hpp"
#include "real/engine/support.hpp"

namespace real {

namespace {

using sim::DType;
using sim::Function;

class Problems {
 public:
  void add(std::string text) {
    if (seen_.insert(text).second) list_.push_back(std::move(text));
  }
  template <class... Arguments>
  void refuse(Feature feature, const Arguments&... arguments) {
    add(refusal(BackendName::cuda, feature, arguments...));
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
    const bool casts = format.dtype == layout.compute_dtype;  // check_eight_bits()
    if (casts && sim::is_quantized(format.dtype)) continue;
    problems.refuse(Feature::half_precision, format.key, sim::word(format.dtype));
  }
  if (layout.compression != sim::GradientCompression::none || layout.quantized_weights ||
      layout.secondary_shard)
    problems.refuse(Feature::compression);
  if (layout.uses_host()) problems.refuse(Feature::offload);
  if (layout.trains_apart()) problems.refuse(Feature::local_steps);
  if (layout.has_servers()) problems.refuse(Feature::servers);
  if (layout.compute_dtype != layout.activation_dtype && !sim::is_quantized(layout.compute_dtype))
    problems.refuse(Feature::mixed_formats, sim::word(layout.activation_dtype),
                    sim::word(layout.compute_dtype));
  if (layout.activation_dtype == DType::bf16 && !layout.master_weights)
    problems.refuse(Feature::bf16_masters);
}

// Tensor cores take sizes in multiples of 16 bytes (cuBLAS, "Narrow Precision Data Types Usage").
void check_eight_bits(const sim::Layout& layout, const sim::Model& model, Problems& problems) {
  if (!sim::is_quantized(layout.compute_dtype)) return;
  const sim::EightBit software = model.execution.eight_bit;
  if (can_scale(software) && scaling_of(software, CodedTensor::input) != Scaling::tensor)
    problems.refuse(Feature::eight_bit_blocks, sim::word(software));
  constexpr int unit = 16;
  for (const CodedSizes& sizes : coded_sizes(layout, model))
    if (!sizes.are_multiples_of(unit))
      problems.refuse(Feature::eight_bit_sizes, sizes.name, unit, sizes.tokens, sizes.in,
                      sizes.out);
}

std::int64_t value_dim(const sim::Model& model) {
  return model.has_latent_attention() ? model.shape->latent.value_dim : model.attention.head_dim;
}

void check_op(const sim::ModelOp& op, const sim::Model& model, const sim::Layout& layout,
              Problems& problems) {
  const std::int64_t head = model.attention.head_dim;
  switch (op.function) {
    case Function::attention:
      if (!sim::is_flash(layout.attention)) problems.refuse(Feature::unfused_attention, op.name);
      for (const std::int64_t size : {head, value_dim(model)})
        if (size % 16 != 0 || size > 256) problems.refuse(Feature::cuda_heads, op.name, size);
      return;
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
    case Function::rms_norm:
      if (op.split == sim::TensorSplit::inner && (head % 32 != 0 || head > 256))
        problems.refuse(Feature::cuda_norm_heads, op.name, head);
      if (op.in_features > 16'384)
        problems.refuse(Feature::cuda_norm_width, op.name, op.in_features);
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
        problems.refuse(Feature::host_operators, program.name(sim::OpId{op}), sim::word(kind));
      }
    }
  }
}

}  // namespace

std::vector<std::string> cuda_problems(const sim::Plan& plan, const sim::Model& model,
                                       const Algorithms& algorithms) {
  Problems problems;
  check_formats(plan.layout, problems);
  check_eight_bits(plan.layout, model, problems);
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
