// The CUDA backend under measurement: its own launches in the memory of a program, its own NCCL
// communicators. Everything is timed by events of the device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "real/calibrate/bench.hpp"
#include "real/cuda/device.hpp"
#include "real/cuda/nccl/nccl.hpp"

namespace real {

// Two streams, and ways to time what is put on them.
class CudaClock {
 public:
  CudaClock();

  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t communication() const { return communication_.get(); }

  // Issues `count` pieces of work on the compute stream while the device is still busy with copies,
  // so that the host is ahead of it as in a step: gaps between the pieces are the device's own.
  // Returns the seconds from the end of one piece to the end of the next, less what the event
  // between them costs. Not repeated where `issue` is dear; nothing is left on the stream.
  std::vector<double> time_each(std::size_t count, const std::function<void(std::size_t)>& issue);
  // The cost of an event is measured anew before the next times, with the clock of then.
  void renew_event_cost() { event_cost_ = -1; }
  // Host seconds to issue a piece of work, when the device does not hold it up.
  double issue_cost(std::size_t count, const std::function<void(std::size_t)>& issue);
  // Seconds per piece beyond its own time, of pieces that are issued one by one behind copies and
  // of the same in a graph that is replayed behind them. Below 0 where pieces overlap their ends.
  sim::MeasuredGaps gaps(std::size_t count, const std::function<void(std::size_t)>& issue);
  std::int64_t bytes() const { return ballast_.bytes(); }
  // Seconds on the device.
  double time(cudaStream_t stream, const std::function<void()>& issue);

 private:
  // Copies until the device has been busy for as long as what follows takes to issue; the first
  // event behind them tells whether it was long enough.
  void keep_busy(int copies);
  // How many that are, by what a piece took the host at best; beyond a slow batch they do not last.
  int copies_for(std::size_t count) const;
  double event_cost();

  DeviceStream compute_, communication_;
  std::vector<DeviceEvent> events_;
  std::int64_t ballast_bytes_ = 0;  // of one copy
  DeviceMemory ballast_;
  double copy_seconds_ = 0;   // of one copy on the device; 0: not measured yet
  double issue_seconds_ = 0;  // of a piece on the host, the least of all batches
  double event_cost_ = -1;    // seconds; below 0: not measured yet
};

class CudaBench : public Bench {
 public:
  CudaBench(Transport& transport, const CudaSeat& seat);

  Reference& reference() override { return *reference_; }
  std::unique_ptr<KernelBench> load(const BoundProgram& program, std::uint64_t seed) override;
  Interval run(const CollectiveCase& collective, int repeats) override;
  int calls_per_sample(std::int64_t bytes) const override;
  double copy(sim::MeasuredCopy::Way way, std::int64_t bytes) override;
  std::vector<sim::MeasuredCopy::Way> copies() const override;
  std::optional<double> issue_cost(KernelBench& program,
                                   std::span<const std::uint32_t> ops) override;
  std::optional<sim::MeasuredGaps> gaps(KernelBench& program,
                                        std::span<const std::uint32_t> ops) override;
  void describe(sim::MeasuredMachine& machine) override;

  Transport& transport() const { return transport_; }
  CudaClock& clock() { return clock_; }
  const std::string& gemm_choices() const { return seat_.gemm_choices; }
  // Makes the communicator and the buffers of a collective, once. Called by all members.
  void prepare(const CollectiveCase& collective);
  // Asynchronous, on the stream for communication. REQUIRES: it was prepared.
  void start(const CollectiveCase& collective);

 private:
  std::int64_t bytes_in_use() const;  // of the whole device, by all processes

  Transport& transport_;
  CudaSeat seat_;
  CudaClock clock_;
  std::unique_ptr<Reference> reference_;
  DeviceMemory input_, output_;
  PinnedMemory host_;
  std::int64_t host_bytes_ = 0;
  std::int64_t context_ = 0;  // bytes of the contexts of all ranks of the device
  // By members and algorithm; a message's are a pair in its direction.
  using WorldKey = std::tuple<bool, AlgorithmChoice, std::vector<int>>;
  static WorldKey key_of(const CollectiveCase& collective) {
    return {collective.message, collective.algorithm, collective.members};
  }
  std::map<WorldKey, std::unique_ptr<NcclWorld>> worlds_;
};

}  // namespace real
