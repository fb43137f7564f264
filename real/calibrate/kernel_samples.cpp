#include "real/calibrate/kernel_samples.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/base/check.hpp"
#include "sim/base/median_interval.hpp"

namespace real {
namespace {

// How many kernels before an operator are run with it. Its operands were written by the one before
// it, or by the one before that (a residual sum reads past a branch; that one comes from memory).
constexpr std::size_t lead_in = 2;

int function_of(const BoundOp& op) {
  return op.model_op != nullptr ? static_cast<int>(op.model_op->function) : -1;
}

}  // namespace

std::vector<KernelVariant> kernel_variants(const BoundProgram& program) {
  using Key = std::tuple<std::uint32_t, sim::Action, int, bool>;
  std::map<Key, std::size_t> found;
  std::vector<KernelVariant> variants;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const BoundOp& op = program.ops[i];
    if (op.kernel == nullptr) continue;
    const Key key{program.program->work[i], op.action, function_of(op), op.accumulate};
    const auto [place, added] = found.try_emplace(key, variants.size());
    if (added) variants.push_back({.kernel = *op.kernel, .ops = {}});
    variants[place->second].ops.push_back(i);
  }
  return variants;
}

std::vector<std::uint32_t> with_lead_in(const BoundProgram& program, std::uint32_t op) {
  std::vector<std::uint32_t> ops{op};
  for (std::uint32_t i = op; i > 0 && ops.size() <= lead_in; --i)
    if (program.ops[i - 1].kernel != nullptr) ops.push_back(i - 1);
  std::reverse(ops.begin(), ops.end());
  return ops;
}

std::vector<Operand> positive_operands(const BoundProgram& program) {
  const std::int64_t moment = sim::bytes_of(program.plan->layout.moment_dtype);
  std::vector<Operand> found;
  const auto add = [&](const Operand& operand) {
    const auto same = [&](const Operand& other) { return other.offset == operand.offset; };
    if (operand.exists() && operand.bytes > 0 && std::none_of(found.begin(), found.end(), same))
      found.push_back(operand);
  };
  for (const BoundBucket& bucket : program.buckets) {
    // [master,] m, v.
    const std::int64_t moments = bucket.owned * moment;
    const Operand& all = bucket.optimizer;
    if (all.exists() && all.bytes >= moments)
      add({.offset = all.offset + all.bytes - moments, .bytes = moments});
  }
  for (const BoundOp& op : program.ops)
    add(op.operand(sim::Role::exponential_sum));
  return found;
}

double median(std::vector<double> values) {
  SIM_CHECK(!values.empty());
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle] +
          *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle))) /
         2;
}

double KernelTimes::spread(std::span<const KernelVariant> variants) const {
  struct Share {
    double seconds, width;
  };
  std::vector<Share> shares;
  double total = 0;
  for (std::size_t v = 0; v < variants.size(); ++v) {
    if (of_variant[v].empty()) return std::numeric_limits<double>::infinity();
    const double seconds = median(of_variant[v]) * static_cast<double>(variants[v].ops.size());
    shares.push_back({seconds, sim::median_half_width(of_variant[v])});
    total += seconds;
  }
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.seconds > b.seconds; });
  double covered = 0, widest = 0;
  for (const Share& share : shares) {
    if (covered >= 0.95 * total) break;
    covered += share.seconds;
    widest = std::max(widest, share.width);
  }
  return widest;
}

std::vector<std::size_t> KernelTimes::unsure(std::span<const KernelVariant> variants,
                                             double share) const {
  double total = 0;
  std::vector<double> reach;  // seconds of a step by which its interval is wide
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const double seconds = median(of_variant[v]) * static_cast<double>(variants[v].ops.size());
    total += seconds;
    reach.push_back(seconds * sim::median_half_width(of_variant[v]));
  }
  std::vector<std::size_t> found;
  for (std::size_t v = 0; v < variants.size(); ++v)
    if (reach[v] > share * total) found.push_back(v);
  return found;
}

bool KernelTable::has(const sim::Kernel& kernel) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return row.kernel == kernel; });
}

void KernelTable::add(const sim::Kernel& kernel, double seconds, double operators, int samples) {
  const auto known = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Row& row) { return row.kernel == kernel; });
  Row& row = known == rows_.end() ? rows_.emplace_back(Row{.kernel = kernel}) : *known;
  row.seconds += seconds * operators;
  row.operators += operators;
  row.samples += samples;
}

std::vector<sim::MeasuredKernel> KernelTable::rows(const std::string& source) const {
  std::vector<sim::MeasuredKernel> measured;
  for (const Row& row : rows_)
    measured.push_back({.kernel = row.kernel,
                        .time = sim::duration_from_seconds(row.seconds / row.operators),
                        .samples = row.samples,
                        .source = source});
  return measured;
}

}  // namespace real
