// Bench is the interface by which a backend is measured, one rank's end of it. The method (which
// pieces are run, how often, and how the times are used) is in measure_*.cpp and the same for all
// backends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "real/calibrate/reference.hpp"
#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/net/transport.hpp"
#include "sim/calibration/measurements.hpp"

namespace real {

// Seconds on a clock that all ranks of the machine share.
struct Interval {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

// A collective of one size. A message goes from the first member to the second.
struct CollectiveCase {
  sim::CollectiveKind kind = sim::CollectiveKind::all_reduce;
  bool message = false;  // a send and its receive instead of a collective
  AlgorithmChoice algorithm = AlgorithmChoice::automatic;  // ring or tree instead of the library's
  sim::DType dtype = sim::DType::fp32;
  std::int64_t bytes = 0;    // the full buffer
  std::vector<int> members;  // of this rank's group, in communicator order; this rank is one
};

// Times of kernels and a collective that were started together.
struct Beside {
  double kernels_alone = 0, collective_alone = 0;
  double kernels = 0, collective = 0, together = 0;  // side by side
};

// A program in the memory of the device.
class KernelBench {
 public:
  virtual ~KernelBench() = default;
  // Gives every operand new data: random numbers below 1 of either sign, far from the denormal
  // ones; positive_operands() positive ones.
  virtual void refill(std::uint64_t seed) = 0;
  // Runs these operators of the program, all of them kernels, one behind the other in this order on
  // the otherwise idle device of this rank, and says how many seconds each took there. What the
  // device's executor does per operator is included where it delays the kernel behind it.
  virtual std::vector<double> run(std::span<const std::uint32_t> ops) = 0;
  // `op` `repeats` times while the collective is under way.
  virtual Beside run_beside(std::uint32_t op, int repeats, const CollectiveCase& with) = 0;
};

class Bench {
 public:
  virtual ~Bench() = default;
  virtual Reference& reference() = 0;
  // REQUIRES: `program` outlives the result. Throws OutOfMemory.
  virtual std::unique_ptr<KernelBench> load(const BoundProgram& program, std::uint64_t seed) = 0;
  // Called by all members, after a barrier. `repeats` calls, one behind the other.
  virtual Interval run(const CollectiveCase& collective, int repeats) = 0;
  // How many calls it takes until the cost to start them does not show: 1 where starting is part of
  // the collective (host), several where a device runs behind its host (cuda).
  virtual int calls_per_sample(std::int64_t bytes) const = 0;
  virtual double copy(sim::MeasuredCopy::Way way, std::int64_t bytes) = 0;  // seconds
  virtual std::vector<sim::MeasuredCopy::Way> copies() const = 0;           // that exist
  // Host time to issue one kernel; absent where issuing and running are one.
  virtual std::optional<double> issue_cost(KernelBench& program,
                                           std::span<const std::uint32_t> ops) = 0;
  // Seconds between two kernels of these operators beyond their own times: issued one by one with
  // the host ahead, and replayed by a graph. Absent where there are no graphs.
  virtual std::optional<sim::MeasuredGaps> gaps(KernelBench&, std::span<const std::uint32_t>) {
    return std::nullopt;
  }
  // Device, versions, SMs, memory: what this rank can tell of the machine, when all parts have been
  // measured (libraries take memory as they are used).
  virtual void describe(sim::MeasuredMachine& machine) = 0;
};

std::unique_ptr<Bench> make_host_bench(Transport& transport);

struct CudaSeat {
  int device = 0;
  int ranks_per_device = 1;
  std::string gemm_choices{};  // as of CudaSetup
};
// Collective. Throws std::runtime_error where the program is built without CUDA or there is no GPU.
std::unique_ptr<Bench> make_cuda_bench(Transport& transport, const CudaSeat& seat);

}  // namespace real
