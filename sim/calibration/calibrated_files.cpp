#include "sim/calibration/calibrated_files.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/timeline/complete_file.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) {
  write_complete_file(path, [&](std::ostream& out) { out << text; });
}

// `file` as a cluster file in `folder` names it.
std::string relative_to(const fs::path& folder, const std::string& file) {
  return fs::absolute(file)
      .lexically_normal()
      .lexically_relative(fs::absolute(folder.empty() ? "." : folder))
      .lexically_normal()
      .generic_string();
}

std::string curves_text(const std::vector<MeasuredCurve>& curves) {
  std::string text;
  for (const MeasuredCurve& curve : curves)
    text += fmt::format("{}{} of {} ranks on {} node{}: {} points\n", curve.collective,
                        curve.algorithm.empty() ? "" : " (" + curve.algorithm + ")", curve.ranks,
                        curve.nodes, curve.nodes == 1 ? "" : "s", curve.points.size());
  return text;
}

}  // namespace

CalibratedFile write_device_file(const std::string& path, const Device& base,
                                 const MeasuredMachine& machine) {
  const DeviceCalibration fit = calibrate_device(base, machine);
  const std::string text = device_yaml(fit, machine);
  static_cast<void>(parse_device(text, path));  // it must be readable
  write(path, text);
  return {.summary = residual_table(fit), .notes = fit.notes};
}

CalibratedFile write_cluster_file(const ClusterTarget& target, const MeasuredMachine& machine) {
  const fs::path folder = fs::path{target.path}.parent_path();
  ClusterFile file{.name = fs::path{target.path}.stem().string(),
                   .curves = measured_curves(machine.collectives)};
  if (file.curves.empty())
    throw InputError(SourcePosition{.file = target.path},
                     "no collective was measured that a curve could hold");
  const Cluster base = Cluster::load(target.base);
  require_routes(base, file.curves, target.base_name);
  if (!target.device.empty()) file.device = relative_to(folder, target.device);
  write(target.path, cluster_yaml(target.base, file, folder.string()));
  static_cast<void>(Cluster::load(target.path));  // it must be readable
  return {.summary = curves_text(file.curves), .notes = base.data().node_notes};
}

}  // namespace sim
