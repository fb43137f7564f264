// Cluster files with measured curves.
#pragma once

#include <string>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// A curve per collective, group shape and algorithm, ascending in size: the median where a size was
// measured several times.
std::vector<MeasuredCurve> measured_curves(const std::vector<MeasuredCollective>& points);
// Throws InputError (file `where`) that names every curve whose group is none of the cluster's: its
// ranks do not fit on its nodes, or it needs a network that the cluster has not.
void require_routes(const Cluster& cluster, const std::vector<MeasuredCurve>& curves,
                    const std::string& where);
// A sentence where the log's GPU and the cluster's are known to be different ones; empty otherwise.
std::string other_device(const Cluster& cluster, const std::string& of_log);

// LinkFit is the alpha and beta of ring steps that explain the curves best: T = steps (latency +
// bytes / p / bandwidth), over all kinds and sizes (robust, relative error).
struct LinkFit {
  Duration latency{};     // of one message
  Bandwidth bandwidth{};  // of one direction of a rank
  int points = 0;
  double median = 0, p90 = 0, worst = 0;  // of |predicted / measured - 1|
};
LinkFit fit_links(const std::vector<MeasuredCollective>& points);

struct ClusterFile {
  std::string name{};
  std::string device{};  // path of the device file, relative to this file
  std::vector<MeasuredCurve> curves{};
  std::vector<std::string> sources{};
};

// The text of the base cluster file with name, device, `measured` and sources replaced; curves of
// the base stay where none was measured for their collective and group. Throws InputError.
// `folder`: where the result will lie, for files that the base names relative to itself.
std::string cluster_yaml(const std::string& base_path, const ClusterFile& file,
                         const std::string& folder);

// `ranks` cores of one machine that pass messages through its memory.
std::string host_cluster_yaml(const ClusterFile& file, int ranks, const LinkFit& links,
                              const std::string& cpu_vendor);

}  // namespace sim
