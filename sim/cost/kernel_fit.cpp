#include "sim/cost/kernel_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/cost/kernel_cost.hpp"

namespace sim {
namespace {

using Model = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

struct Bounds {
  Eigen::VectorXd lower, upper;
};

// Huber's weight: residuals beyond `limit` pull with constant force.
double huber_weight(double residual, double limit) {
  return std::abs(residual) <= limit ? 1.0 : limit / std::abs(residual);
}

double cost_of(const Eigen::VectorXd& residuals, double limit) {
  double sum = 0;
  for (const double r : residuals) {
    const double a = std::abs(r);
    sum += a <= limit ? a * a / 2 : limit * (a - limit / 2);
  }
  return sum;
}

Eigen::MatrixXd jacobian(const Model& model, const Eigen::VectorXd& at,
                         const Eigen::VectorXd& residuals) {
  // Steps of 1%: the model has kinks where its tiling changes, and finer ones would only see the
  // tiling of the moment.
  Eigen::MatrixXd result(residuals.size(), at.size());
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    Eigen::VectorXd moved = at;
    const double step = std::max(1e-9, std::abs(at[i]) * 0.01);
    moved[i] += step;
    result.col(i) = (model(moved) - residuals) / step;
  }
  return result;
}

// Levenberg-Marquardt (Marquardt 1963) with Huber weights, projected on the bounds.
Eigen::VectorXd least_squares(const Model& model, Eigen::VectorXd at, const Bounds& bounds) {
  constexpr double limit = 0.1;  // 10% of time: beyond it a row counts as an outlier
  double damping = 1e-2;
  Eigen::VectorXd residuals = model(at);
  double cost = cost_of(residuals, limit);
  for (int iteration = 0; iteration < 200 && damping < 1e9; ++iteration) {
    const Eigen::MatrixXd j = jacobian(model, at, residuals);
    const Eigen::VectorXd weights =
        residuals.unaryExpr([](double r) { return huber_weight(r, limit); });
    const Eigen::MatrixXd normal = j.transpose() * weights.asDiagonal() * j;
    const Eigen::VectorXd gradient = j.transpose() * weights.cwiseProduct(residuals);
    bool better = false;
    while (!better && damping < 1e9) {
      Eigen::MatrixXd damped = normal;
      for (Eigen::Index i = 0; i < damped.rows(); ++i)
        damped(i, i) += damping * (normal(i, i) + 1e-12);
      const Eigen::VectorXd next =
          (at - damped.ldlt().solve(gradient)).cwiseMax(bounds.lower).cwiseMin(bounds.upper);
      const Eigen::VectorXd there = model(next);
      const double next_cost = cost_of(there, limit);
      better = next_cost < cost * (1 - 1e-9);
      damping *= better ? 0.3 : 4;
      if (better) at = next, residuals = there, cost = next_cost;
    }
  }
  return at;
}

}  // namespace

double prediction_ratio(const KernelMeasurement& row, const Device& device) {
  const Device part = row.sms == device.sms ? device : restricted_to_sms(device, row.sms);
  Duration all = formula_cost(row.kernel, part, row.load).time;
  if (row.cast > Bytes{})
    all += formula_cost({.kind = OpKind::elementwise, .bytes = row.cast}, part, row.load).time;
  return to_seconds(all) / to_seconds(row.median);
}

bool held_out(const Kernel& kernel, std::uint64_t seed) {
  std::uint64_t state = seed;
  for (const std::int64_t value : {kernel.m, kernel.n, kernel.k})
    state = mix64(state ^ static_cast<std::uint64_t>(value));
  if (kernel.m == 0) state = mix64(state ^ static_cast<std::uint64_t>(kernel.bytes.count()));
  return static_cast<double>(state) < 0.3 * 0x1p64;
}

FitError fit_error(const std::vector<KernelMeasurement>& rows, const Device& device) {
  FitError error;
  if (rows.empty()) return error;
  std::vector<double> misses;
  double logs = 0;
  for (const KernelMeasurement& row : rows) {
    const double ratio = prediction_ratio(row, device);
    misses.push_back(std::abs(ratio - 1));
    logs += std::log(ratio);
  }
  std::sort(misses.begin(), misses.end());
  // Nearest-rank quantiles.
  const auto at = [&misses](double q) {
    const double rank = std::ceil(q * static_cast<double>(misses.size()));
    return misses[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  error.rows = static_cast<int>(rows.size());
  error.median = at(0.5);
  error.p90 = at(0.9);
  error.worst = misses.back();
  error.bias = std::exp(logs / static_cast<double>(rows.size())) - 1;
  return error;
}

namespace {

// One fitted parameter: where it lives, in a unit near 1, and between which bounds.
struct Parameter {
  double start, lower, upper;
  std::function<void(Device&, double)> set;
};

Bandwidth gigabytes(double value) {
  return Bandwidth::bytes_per_second(value * 1e9);
}
double in_gigabytes(Bandwidth value) {
  return value.in_bytes_per_second() * 1e-9;
}
Duration microseconds(double value) {
  return duration_from_seconds(value * 1e-6);
}

// A launch on a GPU takes more than half a microsecond; on a core it is a call.
double least_fixed(const Device& device) {
  return device.generation == Generation::cpu ? 0.01 : 0.5;
}

std::vector<Parameter> gemm_parameters(const Device& device, DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  const GemmModel& model = device.require_gemm(dtype);
  return {{model.attained, 0.2, 2.0, [=](Device& d, double v) { d.gemm[index]->attained = v; }},
          {model.sustained, 0.1, 1.0, [=](Device& d, double v) { d.gemm[index]->sustained = v; }},
          {model.ramp_k, 0, 4000, [=](Device& d, double v) { d.gemm[index]->ramp_k = v; }},
          {to_seconds(model.fixed) * 1e6, least_fixed(device), 50,
           [=](Device& d, double v) { d.gemm[index]->fixed = microseconds(v); }}};
}

std::vector<Parameter> memory_parameters(const Device& device) {
  return {{device.memory_kernels.gemm, 0.3, 1.0,
           [](Device& d, double v) { d.memory_kernels.gemm = v; }},
          {in_gigabytes(device.memory_kernels.per_sm), 10, 400,
           [](Device& d, double v) { d.memory_kernels.per_sm = gigabytes(v); }},
          {in_gigabytes(device.l2_bandwidth), 1e3, 1e5,
           [](Device& d, double v) { d.l2_bandwidth = gigabytes(v); }},
          {in_gigabytes(device.operand_feed_sm), 10, 400,
           [](Device& d, double v) { d.operand_feed_sm = gigabytes(v); }},
          {in_gigabytes(device.operand_feed), 1e3, 1e5,
           [](Device& d, double v) { d.operand_feed = gigabytes(v); }},
          {device.burst, 0, 1, [](Device& d, double v) { d.burst = v; }},
          {to_seconds(device.burst_half) * 1e6, 1, 1e5,
           [](Device& d, double v) { d.burst_half = microseconds(v); }}};
}

Device with_values(Device device, const std::vector<Parameter>& parameters,
                   const Eigen::VectorXd& values) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set(device, values[static_cast<Eigen::Index>(i)]);
  return device;
}

Device fit(const Device& device, const std::vector<Parameter>& parameters,
           const std::vector<KernelMeasurement>& rows) {
  SIM_CHECK(rows.size() >= parameters.size(), rows.size(), parameters.size());
  Eigen::VectorXd start(static_cast<Eigen::Index>(parameters.size()));
  Bounds bounds{start, start};
  for (Eigen::Index i = 0; i < start.size(); ++i) {
    const Parameter& parameter = parameters[static_cast<std::size_t>(i)];
    start[i] = std::clamp(parameter.start, parameter.lower, parameter.upper);
    bounds.lower[i] = parameter.lower;
    bounds.upper[i] = parameter.upper;
  }
  const Model model = [&](const Eigen::VectorXd& values) {
    const Device fitted = with_values(device, parameters, values);
    Eigen::VectorXd residuals(static_cast<Eigen::Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      residuals[static_cast<Eigen::Index>(i)] = std::log(prediction_ratio(rows[i], fitted));
    return residuals;
  };
  return with_values(device, parameters, least_squares(model, start, bounds));
}

}  // namespace

Device fit_gemm(const Device& device, DType dtype, FitScope scope,
                const std::vector<KernelMeasurement>& rows) {
  std::vector<Parameter> parameters = gemm_parameters(device, dtype);
  if (scope == FitScope::product_and_memory)
    for (Parameter& parameter : memory_parameters(device))
      parameters.push_back(std::move(parameter));
  return fit(device, parameters, rows);
}

Device fit_block_share(const Device& device, ProductScales scales,
                       const std::vector<KernelMeasurement>& rows) {
  const auto index = static_cast<std::size_t>(DType::fp8);
  const auto share = scales == ProductScales::blocks    ? &GemmModel::block_share
                     : scales == ProductScales::micro   ? &GemmModel::micro_share
                     : scales == ProductScales::tensors ? &GemmModel::gradient_share
                                                        : &GemmModel::row_share;
  return fit(device,
             {{device.require_gemm(DType::fp8).*share, 0.01, 1.0,
               [=](Device& d, double v) { (*d.gemm[index]).*share = v; }}},
             rows);
}

Device fit_grouped(const Device& device, Grouping grouping,
                   const std::vector<KernelMeasurement>& rows) {
  SIM_CHECK(grouping != Grouping::none);
  const auto model = grouping == Grouping::rows ? &Device::grouped_rows : &Device::grouped_depth;
  Device start = device;
  const GemmModel& dense = device.require_gemm(DType::bf16);
  if (!(start.*model))
    start.*model = GroupedModel{.attained = dense.attained, .ramp_k = dense.ramp_k};
  const GroupedModel& now = *(start.*model);
  return fit(start,
             {{now.attained, 0.2, 2.0, [=](Device& d, double v) { (d.*model)->attained = v; }},
              {now.ramp_k, 0, 4000, [=](Device& d, double v) { (d.*model)->ramp_k = v; }},
              {to_seconds(now.per_group) * 1e6, 0, 100,
               [=](Device& d, double v) { (d.*model)->per_group = microseconds(v); }},
              {to_seconds(now.fixed) * 1e6, least_fixed(device), 100,
               [=](Device& d, double v) { (d.*model)->fixed = microseconds(v); }}},
             rows);
}

namespace {

bool any_part(const std::vector<KernelMeasurement>& rows, AttentionPart part) {
  return std::any_of(rows.begin(), rows.end(),
                     [part](const KernelMeasurement& row) { return row.kernel.part == part; });
}

struct MemoryShare {
  const char* key;
  double MemoryModel::*member;
};
constexpr std::array<MemoryShare, 5> memory_shares{{{"elementwise", &MemoryModel::elementwise},
                                                    {"norm_forward", &MemoryModel::norm_forward},
                                                    {"norm_backward", &MemoryModel::norm_backward},
                                                    {"softmax", &MemoryModel::softmax},
                                                    {"optimizer", &MemoryModel::optimizer}}};

}  // namespace

AttentionModel& attention_rates(Device& device, AttentionKernel kernel) {
  SIM_CHECK(is_flash(kernel));
  if (kernel == AttentionKernel::flash) return device.attention;
  auto& rates = kernel == AttentionKernel::flash_1 ? device.flash_attention_1  //
                                                   : device.flash_attention_2;
  if (!rates) rates = device.attention;
  return *rates;
}

Device fit_attention(const Device& device, const std::vector<KernelMeasurement>& rows) {
  SIM_CHECK(!rows.empty());
  const auto model = [kernel = rows.front().kernel.attention](Device& d) -> AttentionModel& {
    return attention_rates(d, kernel);
  };
  Device start = device;
  const AttentionModel& now = model(start);
  std::vector<Parameter> parameters{
      {now.ramp_tokens, 0, 4096, [=](Device& d, double v) { model(d).ramp_tokens = v; }},
      {to_seconds(now.fixed) * 1e6, least_fixed(device), 500,
       [=](Device& d, double v) { model(d).fixed = microseconds(v); }}};
  if (any_part(rows, AttentionPart::forward))
    parameters.push_back({now.forward_attained, 0.005, 1.0,
                          [=](Device& d, double v) { model(d).forward_attained = v; }});
  if (any_part(rows, AttentionPart::backward))
    parameters.push_back({now.backward_attained, 0.005, 1.0,
                          [=](Device& d, double v) { model(d).backward_attained = v; }});
  return fit(start, parameters, rows);
}

std::string memory_kind(const Kernel& kernel) {
  switch (kernel.kind) {
    case OpKind::norm:
      return kernel.part == AttentionPart::backward ? "norm_backward" : "norm_forward";
    case OpKind::attention:
      return "softmax";
    case OpKind::optimizer:
      return "optimizer";
    default:
      return "elementwise";
  }
}

Device fit_memory_kernels(const Device& device, const std::vector<KernelMeasurement>& rows) {
  std::vector<Parameter> parameters{
      {to_seconds(device.memory_kernels.fixed) * 1e6, least_fixed(device), 500,
       [](Device& d, double v) { d.memory_kernels.fixed = microseconds(v); }}};
  for (const MemoryShare& share : memory_shares)
    if (std::any_of(rows.begin(), rows.end(), [&](const KernelMeasurement& row) {
          return memory_kind(row.kernel) == share.key;
        }))
      parameters.push_back(
          {device.memory_kernels.*share.member, 1e-3, 1.0,
           [member = share.member](Device& d, double v) { d.memory_kernels.*member = v; }});
  return fit(device, parameters, rows);
}

}  // namespace sim
