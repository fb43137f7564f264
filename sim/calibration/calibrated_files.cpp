#include "sim/calibration/calibrated_files.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/config/input_log.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) {
  refuse_to_overwrite_input(path);
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

// Compute capabilities: 7 Volta and Turing, 8 Ampere and Ada, 9 Hopper, 10 to 12 Blackwell (CUDA
// C++ Programming Guide).
bool is_of(Generation generation, int capability) {
  switch (generation) {
    case Generation::volta:
      return capability == 7;
    case Generation::ampere:
    case Generation::ada:
      return capability == 8;
    case Generation::hopper:
      return capability == 9;
    case Generation::blackwell:
      return capability >= 10;
    case Generation::cdna2:
    case Generation::cdna3:
    case Generation::cdna4:
    case Generation::cpu:
      break;
  }
  return true;
}

// Checks the maker of the base. Figures that are not measured come from a base of the same kind, so
// it must be the same.
void check_base(const Device& base, const MeasuredMachine& machine) {
  const bool gpu = base.generation != Generation::cpu;
  const std::string_view maker = is_cdna(base.generation) ? "AMD" : "NVIDIA";
  if (gpu && !machine.maker.empty() && machine.maker != maker)
    throw InputError(
        SourcePosition{.file = "--base"},
        fmt::format("the traces are of a GPU of {} (\"{}\"), the base {} is one of {}: give a base "
                    "of the same maker, as {}",
                    machine.maker, machine.device, base.name, maker,
                    machine.maker == "AMD" ? "mi300x" : "h100_sxm"));
  // Nominal figures name no maker: their file is meant to be the base's.
  const bool traced = machine.host_issue || !machine.maker.empty();
  if (machine.kernels.empty() && traced)
    throw InputError(
        SourcePosition{.file = "--write-device"},
        "nothing measured: no kernel has shapes, so the file would be the base alone; record with "
        "record_shapes=True, and give --write-cluster for collectives");
}

std::vector<std::string> base_notes(const Device& base, const MeasuredMachine& machine) {
  if (machine.maker != "NVIDIA" || machine.capability == 0 ||
      is_of(base.generation, machine.capability))
    return {};
  return {
      fmt::format("the traces are of \"{}\", compute capability {}; the base {} is {}, and what "
                  "was not measured is its",
                  machine.device, machine.capability, base.name, word(base.generation))};
}

}  // namespace

CalibratedFile write_device_file(const std::string& path, const Device& base,
                                 const MeasuredMachine& machine) {
  check_base(base, machine);
  const DeviceCalibration fit = calibrate_device(base, machine);
  const std::string text = device_yaml(fit, machine);
  static_cast<void>(parse_device(text, path));  // it must be readable
  write(path, text);
  std::vector<std::string> notes = base_notes(base, machine);
  notes.insert(notes.end(), fit.notes.begin(), fit.notes.end());
  return {.summary = residual_table(fit), .notes = std::move(notes)};
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
