#include "sim/plan/sharding/micro_pipeline.hpp"

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

std::vector<Kernel> sliced(const std::vector<Kernel>& products, std::int64_t slices) {
  std::vector<Kernel> parts;
  parts.reserve(products.size());
  for (const Kernel& whole : products) {
    const Bytes result{result_of(whole).count() / slices};
    parts.push_back(gemm(whole.dtype, {whole.m / slices, whole.n, whole.k}, result));
    parts.back().part = whole.part;
    parts.back().abreast = micro_pipeline_streams;
  }
  return parts;
}

class Slicing {
 public:
  Slicing(const Region& region, const ModelOp& op) : region_{region}, op_{op} {}

  SlicedPass gathered(const std::vector<Kernel>& products, const ShardedOp& to) const {
    SlicedPass pass;
    pass.products = sliced(products, region_.tensor);
    const Bytes slice = to.slice();
    pass.place = copy(to.gathers_quantized() ? Bytes{slice.count() / region_.element} : slice);
    return pass;
  }

  // Every slice is read, one of the sum is written.
  SlicedPass scattered(const std::vector<Kernel>& products, Bytes slices) const {
    SlicedPass pass;
    pass.products = sliced(products, region_.tensor);
    const auto bytes = static_cast<double>(slices.count());
    pass.sum = memory_kernel(OpKind::elementwise, region_, op_, bytes + bytes / region_.tensor);
    return pass;
  }

  Kernel copy(Bytes bytes) const {
    return memory_kernel(OpKind::elementwise, region_, op_, 2 * static_cast<double>(bytes.count()));
  }

 private:
  const Region& region_;
  const ModelOp& op_;
};

std::vector<Kernel> apart_or_whole(const std::vector<Kernel>& apart, const Kernel& whole) {
  return apart.empty() ? std::vector{whole} : apart;
}

// The gathered tensor has slice after slice, each of all sequences. The weight gradient needs the
// tokens of both its operands in one order: this takes a copy, but not in 8 bits, where the
// transposition does both.
bool copies_gathered(const Region& region, const ShardedOp& op) {
  return region.layout->micro_batch > 1 && !op.gathers_quantized();
}

void slice_column(const Region& region, ShardedOp& to) {
  const Slicing slicing{region, *to.op};
  if (copies_gathered(region, to)) to.encode_saved = slicing.copy(to.whole_input);
  const auto gathered = [&](const std::vector<Kernel>& products) {
    return slicing.gathered(products, to);
  };
  to.sliced_forward = gathered(apart_or_whole(to.forward_apart, *to.forward));
  if (!to.forward_again.empty()) to.sliced_again = gathered(to.forward_again);
  if (!to.input_gradient_apart.empty()) return;
  to.sliced_gradient = slicing.scattered({*to.input_gradient}, to.whole_input);
  to.reorder_input.reset();
}

// Heads lie side by side where attention has written them, sequence after sequence; slices have
// tokens of all sequences (_symmetric_memory, restride_A_for_fused_matmul_reduce_scatter). Other
// kernels before are the compiler's, which write them so.
void slice_row(const Region& region, bool behind_attention, ShardedOp& to) {
  const Slicing slicing{region, *to.op};
  to.sliced_forward = slicing.scattered({*to.forward}, to.whole_output);
  if (behind_attention && region.layout->micro_batch > 1)
    to.sliced_forward->order = slicing.copy(to.whole_input);
  if (multiplies_by_rows(*to.op, region.model->execution, *region.layout)) return;
  to.sliced_gradient = slicing.gathered({*to.input_gradient}, to);
  to.reorder_output.reset();
  if (copies_gathered(region, to)) to.transpose_gradient = slicing.copy(to.whole_output);
  if (!to.encode_gradient) return;
  // Cast before it is gathered, and transposed for the weight gradient when it is there.
  to.transpose_gradient = gathered_transpose(region, *to.op);
  to.transpose_gradient->transposed = to.transpose_gradient->bytes;
  const int both = to.encode_gradient->launches;
  to.encode_gradient = place(region, *to.op, to.op->out_features, region.element + 1);
  to.encode_gradient->launches = both - to.transpose_gradient->launches;
}

}  // namespace

void slice_products(const Region& region, const Block& block, ShardedBlock& sharded) {
  if (!region.layout->cuts_products() || !region.model->execution.symmetric_memory) return;
  for (std::size_t i = 0; i < sharded.ops.size(); ++i) {
    ShardedOp& to = sharded.ops[i];
    const ModelOp& op = *to.op;
    if (!is_linear_of_layer(op) || op.once_per_sequence || op.experts > 0) continue;
    const bool by_rows = multiplies_by_rows(op, region.model->execution, *region.layout);
    if (to.gathers_input && !by_rows) slice_column(region, to);
    if (to.sums_output)
      slice_row(region, i > 0 && block.ops[i - 1].kind == ModelOpKind::attention, to);
  }
}

}  // namespace sim
