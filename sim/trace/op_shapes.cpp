#include "sim/trace/op_shapes.hpp"

#include <algorithm>
#include <array>

#include "sim/trace/collective_words.hpp"

namespace sim {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::array<std::string_view, 5> products{"aten::mm", "aten::addmm", "aten::bmm",
                                                   "aten::baddbmm", "aten::linear"};

// Memory-bound operators whose traffic follows from their shapes: how often the largest of their
// tensors is read and written.
struct Streamed {
  const char* name;
  OpKind kind;
  AttentionPart part;
  double passes;
};
constexpr std::array<Streamed, 9> streamed{
    {{"aten::add", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::add_", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::mul", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::mul_", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::gelu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::silu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::relu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::native_layer_norm", OpKind::norm, AttentionPart::forward, 2},
     {"aten::native_layer_norm_backward", OpKind::norm, AttentionPart::backward, 3}}};

std::optional<Kernel> stream_of(const ShapedOperator& op) {
  for (const Streamed& entry : streamed) {
    if (op.name != entry.name || op.dims.empty() || op.types.empty()) continue;
    const auto dtype = dtype_of(op.types[0]);
    // A sum or product with a scalar or a broadcast tensor moves less than three whole ones.
    const bool pair = entry.passes > 2 && entry.kind == OpKind::elementwise;
    if (!dtype || (pair && (op.dims.size() < 2 || op.dims[0] != op.dims[1]))) return std::nullopt;
    const double bytes = elements_of(op.dims[0]) * bytes_of(*dtype) * entry.passes;
    if (bytes < 1 || bytes > 1e15) return std::nullopt;
    Kernel kernel;
    kernel.kind = entry.kind;
    kernel.part = entry.part;
    kernel.dtype = *dtype;
    kernel.bytes = Bytes{static_cast<std::int64_t>(bytes)};
    return kernel;
  }
  return std::nullopt;
}

}  // namespace

double elements_of(const Dims& dims) {
  double product = dims.empty() ? 0 : 1;
  for (const std::int64_t extent : dims)
    product *= static_cast<double>(extent);
  return product;
}

bool is_product(std::string_view name) {
  return std::find(products.begin(), products.end(), name) != products.end();
}

bool has_known_work(std::string_view name) {
  if (!name.starts_with("aten::")) return false;
  return is_product(name) || std::any_of(streamed.begin(), streamed.end(),
                                         [&](const Streamed& entry) { return name == entry.name; });
}

// The product of an operator: left [.., m, k] and right [.., k, n]; `linear` has right as [n, k].
std::optional<Kernel> product_of(const ShapedOperator& op) {
  const bool biased = op.name == "aten::addmm" || op.name == "aten::baddbmm";
  const bool batched = op.name == "aten::bmm" || op.name == "aten::baddbmm";
  const bool linear = op.name == "aten::linear";
  if (!biased && !batched && !linear && op.name != "aten::mm") return std::nullopt;
  const std::size_t first = biased ? 1 : 0;
  if (op.dims.size() < first + 2 || op.types.size() < first + 2) return std::nullopt;
  const Dims& left = op.dims[first];
  const Dims& right = op.dims[first + 1];
  const std::size_t rank = batched ? 3 : 2;
  if (right.size() != rank || (linear ? left.size() < 2 : left.size() != rank)) return std::nullopt;
  const auto dtype = dtype_of(op.types[first]);
  if (!dtype) return std::nullopt;
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = *dtype;
  kernel.batch = batched ? left[0] : 1;
  kernel.k = left.back();
  const double rows = elements_of(left) / static_cast<double>(std::max<std::int64_t>(1, kernel.k)) /
                      static_cast<double>(std::max<std::int64_t>(1, kernel.batch));
  if (!(rows >= 1 && rows < 1e12)) return std::nullopt;
  kernel.m = static_cast<std::int64_t>(rows);
  kernel.n = linear ? right[0] : right.back();
  const std::int64_t inner = linear ? right[1] : right[rank - 2];
  constexpr std::int64_t most = 1 << 24;
  if (inner != kernel.k || kernel.batch < 1 || kernel.batch > most || kernel.k < 1 ||
      kernel.k > most || kernel.n < 1 || kernel.n > most || kernel.m > most)
    return std::nullopt;
  const double product = static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                         static_cast<double>(kernel.batch);
  kernel.flops = Flops{2.0 * product * static_cast<double>(kernel.k)};
  const double bytes = (static_cast<double>(kernel.m + kernel.n) * static_cast<double>(kernel.k) *
                            static_cast<double>(kernel.batch) +
                        product) *
                       bytes_of(kernel.dtype);
  if (bytes > 1e15) return std::nullopt;
  kernel.bytes = Bytes{static_cast<std::int64_t>(bytes)};
  return kernel;
}

std::optional<Kernel> work_of(const ShapedOperator& op) {
  const std::optional<Kernel> product = product_of(op);
  return product ? product : stream_of(op);
}

}  // namespace sim
