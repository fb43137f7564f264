#include "real/cuda/device.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "real/net/out_of_memory.hpp"

namespace real {

void fail(cudaError_t result, std::string_view what, const char* file, int line) {
  throw std::runtime_error(fmt::format("CUDA: {}: {} ({}) at {}:{}", what,
                                       cudaGetErrorString(result), cudaGetErrorName(result), file,
                                       line));
}

DeviceMemory::DeviceMemory(std::int64_t bytes, const std::string& what_for) : bytes_{bytes} {
  if (bytes == 0) return;
  const cudaError_t result = cudaMalloc(&memory_, static_cast<std::size_t>(bytes));
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is not sticky, but would be reported by the next check
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw OutOfMemory(
        bytes, fmt::format("{} ({} of {} bytes of the GPU are free)", what_for, free, total));
  }
  check(result, "cudaMalloc for " + what_for);
}

DeviceMemory::~DeviceMemory() {
  if (memory_ != nullptr) (void)cudaFree(memory_);
}

PinnedMemory::PinnedMemory(std::int64_t bytes) {
  check(cudaMallocHost(&memory_, static_cast<std::size_t>(bytes)), "cudaMallocHost");
}

PinnedMemory::~PinnedMemory() {
  if (memory_ != nullptr) (void)cudaFreeHost(memory_);
}

DeviceStream::DeviceStream(Priority priority) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == Priority::high ? greatest : least),
        "cudaStreamCreateWithPriority");
}

DeviceStream::~DeviceStream() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

DeviceEvent::DeviceEvent(Kind kind) {
  const unsigned flags = kind == Kind::timing ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}

DeviceEvent::~DeviceEvent() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}

DeviceGraph::~DeviceGraph() {
  if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
}

DeviceGraph DeviceGraph::end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  DeviceGraph result;
  // Else all of it runs at the priority of the stream that launches it, communication too.
  const cudaError_t made =
      cudaGraphInstantiate(&result.executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
  (void)cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  return result;
}

void DeviceGraph::discard_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(stream, &graph);  // fails for a capture that is not complete
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
}

void DeviceGraph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

}  // namespace real
