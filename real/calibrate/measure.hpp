// The parts of a measurement. Every rank calls them, in the same order with the same arguments;
// rank 0 gets the results. README.md says what is done and why.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "real/calibrate/bench.hpp"
#include "real/calibrate/kernel_samples.hpp"
#include "real/net/transport.hpp"
#include "sim/plan/plan.hpp"

namespace real {

// Ranks that outnumber the cores take turns: then a time is the mean over the samples, for the
// median would be that of the lucky ones. On a core that others use, too, what is timed is longer
// than undisturbed or as long, never shorter: a kernel that lost the core in its middle finds its
// caches empty, a message waits for its partner. The lower quartile then.
enum class Typical : std::uint8_t { median, lower_quartile, mean };
double typical(const std::vector<double>& values, Typical how);

// Products and attention follow the GEMM of the reference, everything else the copy.
ReferenceKind reference_of(const sim::Kernel& kernel);

struct PartRequest {
  double seconds = 1;  // that this part may take, about
  std::uint64_t seed = 1;
  Typical typical = Typical::median;
  DriftMeter* drift = nullptr;  // takes the drift of the machine out; null: times as they are
  // Collective: leave out what is not measured yet.
  std::function<bool()> stop_wanted = [] { return false; };
};

// The kernels of one plan, all ranks at once. Rank r takes the program of rank r mod world size.
void measure_kernels(Bench& bench, Transport& transport, const sim::Plan& plan,
                     const sim::Model& model, const PartRequest& request, KernelTable& table);

// The share of a rank's program, in time, that is kernels which neither of the tables has, by their
// work alone (`flops_per_byte` of a device at its peaks). Adds the kernels to `seen`.
double new_share(const sim::Plan& plan, const sim::Model& model, int rank, double flops_per_byte,
                 const KernelTable& known, KernelTable& seen);

// CollectiveShape is a group of a plan by its size alone: all groups of that size at once, as in a
// step.
struct CollectiveShape {
  sim::CollectiveKind kind = sim::CollectiveKind::all_reduce;
  bool message = false;
  int ranks = 0;
  AlgorithmChoice algorithm = AlgorithmChoice::automatic;
  bool operator==(const CollectiveShape&) const = default;
};
struct CollectiveSizes {
  CollectiveShape shape;
  sim::DType dtype = sim::DType::fp32;
  std::int64_t largest = 0;           // bytes
  std::vector<std::int64_t> sizes{};  // ascending
};
// All-reduces of three ranks and more once more by ring and by tree, at the sizes of the grid: what
// the library chooses between.
void add_algorithms(std::vector<CollectiveSizes>& all);

// Sizes of the messages of the plans: a grid up to the largest message, and the messages' own
// sizes. Without plans: every kind over all ranks, up to 16 MiB.
std::vector<CollectiveSizes> collective_sizes(const std::vector<const sim::Plan*>& plans, int ranks,
                                              sim::DType dtype);

std::vector<sim::MeasuredCollective> measure_collectives(Bench& bench, Transport& transport,
                                                         const std::vector<CollectiveSizes>& wanted,
                                                         const PartRequest& request,
                                                         const std::string& source);

// The operator with the largest product of a program; none where it has none.
std::optional<std::uint32_t> largest_product(const BoundProgram& program);

// Kernels beside communication: the largest product of the plan beside all-reduces over all ranks,
// and beside the largest reduce-scatter, all-gather and message that the plan has; its largest
// attention and its largest kernel of another kind beside an all-reduce.
std::vector<sim::MeasuredInterference> measure_interference(Bench& bench, Transport& transport,
                                                            const sim::Plan& plan,
                                                            const sim::Model& model,
                                                            const PartRequest& request);

std::vector<sim::MeasuredCopy> measure_copies(Bench& bench, Transport& transport,
                                              const PartRequest& request);

}  // namespace real
