#include "sim/calibration/divided_rows.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "sim/base/table_text.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

// Points without shape or time would divide by zero in the model.
void check_point(const MeasuredKernel& point) {
  const Kernel& kernel = point.kernel;
  const bool shaped = kernel.kind == OpKind::gemm || kernel.kind == OpKind::attention;
  const bool sized = kernel.m > 0 && kernel.n > 0 && kernel.k > 0 && kernel.batch > 0;
  const bool heads = kernel.kind != OpKind::attention || kernel.heads > 0;
  if (!runs_kernel(kernel.kind) || kernel.bytes < Bytes{} || point.time <= Duration{} ||
      (shaped && (!sized || !heads)))
    throw InputError(
        SourcePosition{.file = point.source},
        fmt::format("a measured {} kernel has no shape or no time", word(kernel.kind)));
}

// Such a kernel did not do its work. A rank that shares the device may have all of its bandwidth to
// itself for a moment, which is several times its part; and what lies in the L2 cache is quicker.
bool beats_memory(const MeasuredKernel& point, const Device& base) {
  constexpr double most = 8;
  if (base.generation == Generation::cpu || point.kernel.bytes <= base.l2 * 4) return false;
  return static_cast<double>(point.kernel.bytes.count()) >
         most * base.memory_bandwidth.in_bytes_per_second() * to_seconds(point.time);
}

KernelMeasurement row_of(const MeasuredKernel& point, const Device& device) {
  KernelMeasurement row;
  row.kind = point.name.empty() ? word(point.kernel.kind) : point.name;
  row.kernel = point.kernel;
  row.median = point.time;
  row.load = point.load;
  row.sms = point.sms == 0 ? device.sms : point.sms;
  if (row.sms > device.sms)
    throw InputError(
        SourcePosition{.file = device.name},
        fmt::format("a kernel was measured on {} SMs, but the device has {}", row.sms, device.sms));
  return row;
}

}  // namespace

DividedRows divide_rows(const std::vector<MeasuredKernel>& kernels, const Device& device) {
  DividedRows rows;
  for (const MeasuredKernel& point : kernels) {
    check_point(point);
    if (beats_memory(point, device)) {
      rows.notes.push_back(
          fmt::format("a {} kernel in {} that moves {} took {}: faster than the memory",
                      word(point.kernel.kind), word(point.kernel.dtype),
                      yaml_bytes(point.kernel.bytes), precise(point.time)));
      continue;
    }
    const KernelMeasurement row = row_of(point, device);
    if (point.use == KernelUse::list) rows.listed.push_back(row);
    auto& place = point.use == KernelUse::held_out ? rows.held_out
                  : point.use == KernelUse::check  ? rows.checked
                                                   : rows.fitted;
    place.push_back(row);
  }
  return rows;
}

}  // namespace sim
