#include "real/calibrate/cuda_bench.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/cuda_kernels.hpp"
#include "sim/base/check.hpp"
#include "sim/base/dtype.hpp"

namespace real {
namespace {

using Way = sim::MeasuredCopy::Way;

constexpr std::chrono::milliseconds making_timeout{60'000};  // of a communicator
// Below it a call is about as long as the host takes to issue it.
constexpr std::int64_t short_call_bytes = 1 << 20;
constexpr int short_calls = 8;

Communicator communicator_of(const CollectiveCase& collective, int rank) {
  Communicator made;
  made.kind = collective.message ? CommunicatorKind::message : CommunicatorKind::group;
  made.members = collective.members;
  made.algorithm = collective.algorithm;
  if (!collective.message)
    made.collectives = {sim::CollectiveKind::all_reduce, sim::CollectiveKind::reduce_scatter,
                        sim::CollectiveKind::all_gather};
  for (std::size_t i = 0; i < made.members.size(); ++i)
    if (made.members[i] == rank) made.position = static_cast<int>(i);
  return made;
}

cudaMemcpyKind kind_of(Way way) {
  if (way == Way::host_to_device) return cudaMemcpyHostToDevice;
  return way == Way::device_to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

CudaBench::CudaBench(Transport& transport, const CudaSeat& seat)
    : transport_{transport}, seat_{seat} {
  // The context with the libraries' kernels: of the first that each of them runs.
  check(cudaDeviceSynchronize(), "the context");
  barrier(transport_);
  context_ = bytes_in_use() - seat_.ranks_per_device * clock_.bytes();
  barrier(transport_);
  reference_ = make_cuda_reference(seat_.device);
}

std::int64_t CudaBench::bytes_in_use() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(total - free);
}

std::unique_ptr<KernelBench> CudaBench::load(const BoundProgram& program, std::uint64_t seed) {
  return std::make_unique<CudaKernels>(program, *this, seed);
}

void CudaBench::prepare(const CollectiveCase& collective) {
  if (input_.bytes() < collective.bytes) {
    check(cudaStreamSynchronize(clock_.communication()), "buffers of collectives");
    input_ = {};  // first: both would not fit beside large programs
    output_ = {};
    input_ = DeviceMemory{collective.bytes, "the input of collectives"};
    output_ = DeviceMemory{collective.bytes, "the output of collectives"};
    check(cudaMemsetAsync(input_.at(0), 0, static_cast<std::size_t>(collective.bytes),
                          clock_.communication()),
          "cudaMemsetAsync");
  }
  std::unique_ptr<NcclWorld>& world = worlds_[key_of(collective)];
  if (world) return;
  world = std::make_unique<NcclWorld>(
      std::vector<Communicator>{communicator_of(collective, transport_.rank())}, transport_,
      making_timeout);
}

void CudaBench::start(const CollectiveCase& collective) {
  NcclWorld& world = *worlds_.at(key_of(collective));
  const cudaStream_t stream = clock_.communication();
  const NcclWorld::Call call{.input = input_.at(0),
                             .output = output_.at(0),
                             .count = collective.bytes / sim::bytes_of(collective.dtype),
                             .dtype = collective.dtype};
  if (collective.message) {
    const bool sends = collective.members[0] == transport_.rank();
    return sends ? world.send(0, call, stream) : world.receive(0, call, stream);
  }
  switch (collective.kind) {
    case sim::CollectiveKind::all_reduce:
      return world.all_reduce(0, call, stream);
    case sim::CollectiveKind::reduce_scatter:
      return world.reduce_scatter(0, call, stream);
    case sim::CollectiveKind::all_gather:
      return world.all_gather(0, call, stream);
    case sim::CollectiveKind::all_to_all:
      return world.all_to_all(0, call, stream);
    case sim::CollectiveKind::ring_shift:
      return world.ring_shift(0, std::span{&call, 1}, false, stream);
    default:
      SIM_CHECK(false, static_cast<int>(collective.kind));
  }
}

// A call ahead brings the members together on the device: from its end on nobody waits for a host.
Interval CudaBench::run(const CollectiveCase& collective, int repeats) {
  prepare(collective);
  start(collective);
  const double seconds = clock_.time(clock_.communication(), [&] {
    for (int i = 0; i < repeats; ++i)
      start(collective);
  });
  const double end = wall_now();
  return {.begin = end - seconds, .end = end};
}

int CudaBench::calls_per_sample(std::int64_t bytes) const {
  return bytes <= short_call_bytes ? short_calls : 1;
}

double CudaBench::copy(Way way, std::int64_t bytes) {
  if (input_.bytes() < bytes) input_ = DeviceMemory{bytes, "copies"};
  if (output_.bytes() < bytes) output_ = DeviceMemory{bytes, "copies"};
  if (host_bytes_ < bytes) {
    host_ = PinnedMemory{bytes};
    host_bytes_ = bytes;
  }
  std::byte* const from = way == Way::host_to_device ? host_.at(0) : input_.at(0);
  std::byte* const to = way == Way::device_to_host ? host_.at(0) : output_.at(0);
  return clock_.time(clock_.compute(), [&] {
    check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind_of(way), clock_.compute()),
        "a copy that is measured");
  });
}

std::vector<Way> CudaBench::copies() const {
  return {Way::host_to_device, Way::device_to_host, Way::device_to_device};
}

std::optional<double> CudaBench::issue_cost(KernelBench& program,
                                            std::span<const std::uint32_t> ops) {
  return static_cast<CudaKernels&>(program).issue_cost(ops);
}

std::optional<sim::MeasuredGaps> CudaBench::gaps(KernelBench& program,
                                                 std::span<const std::uint32_t> ops) {
  return static_cast<CudaKernels&>(program).gaps(ops);
}

// Memory is a rank's part of the device. What was taken since the contexts were there, less the
// buffers of the measurement: communicators with their connections, and kernels that libraries have
// loaded; one figure, as they cannot be told apart.
void CudaBench::describe(sim::MeasuredMachine& machine) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, seat_.device), "cudaGetDeviceProperties");
  machine.device = properties.name;
  int runtime = 0, driver = 0, nccl = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  (void)ncclGetVersion(&nccl);
  machine.versions.push_back("CUDA " + std::to_string(runtime / 1000) + "." +
                             std::to_string(runtime % 1000 / 10));
  machine.versions.push_back("driver for CUDA " + std::to_string(driver / 1000) + "." +
                             std::to_string(driver % 1000 / 10));
  machine.versions.push_back("cuBLASLt " + std::to_string(cublasLtGetVersion()));
  machine.versions.push_back("NCCL " + std::to_string(nccl / 10'000) + "." +
                             std::to_string(nccl % 10'000 / 100) + "." +
                             std::to_string(nccl % 100));
  const std::int64_t sharing = seat_.ranks_per_device;
  machine.sms = properties.multiProcessorCount;  // with the service: those of this rank
  machine.memory = sim::Bytes{static_cast<std::int64_t>(properties.totalGlobalMem) / sharing};
  const std::int64_t buffers =
      sharing * (clock_.bytes() + reference_->bytes() + input_.bytes() + output_.bytes());
  const std::int64_t since = std::max<std::int64_t>(0, bytes_in_use() - context_ - buffers);
  machine.reserved = sim::MeasuredReserve{.context = sim::Bytes{context_ / sharing},
                                          .nccl = sim::Bytes{worlds_.empty() ? 0 : since / sharing},
                                          .libraries = sim::Bytes{worlds_.empty() ? since : 0}};
}

std::unique_ptr<Bench> make_cuda_bench(Transport& transport, const CudaSeat& seat) {
  select_device(seat.device);
  return std::make_unique<CudaBench>(transport, seat);
}

}  // namespace real
