// CUDA's runtime on fake_device.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "tests/gpu/fakes/fake_device.hpp"

namespace fakes {

std::int64_t& device_memory() {
  static std::int64_t bytes = Behaviour{}.memory;
  return bytes;
}

namespace {

struct Runtime {
  std::array<Device, devices> device;
  std::mutex mutex;
  std::unordered_map<void*, std::pair<Device*, std::size_t>> blocks;
};

// Outlives every test; blocks that are never freed are found by the leak checker.
Runtime& runtime() {
  static Runtime state;
  return state;
}

int& device_of_thread() {
  thread_local int device = 0;
  return device;
}

cudaError_t state_of(const Device& device) {
  return device.failure.empty() ? cudaSuccess : cudaErrorIllegalAddress;
}

// Runs until `done`, or nothing more can happen because work failed.
template <class Done>
cudaError_t run_until(Device& device, Done done) {
  for (;;) {
    {
      const std::lock_guard lock{device.mutex};
      if (state_of(device) != cudaSuccess) return state_of(device);
      if (done()) return cudaSuccess;
    }
    if (!device.run_one()) std::this_thread::yield();
  }
}

}  // namespace

Device& current_device() {
  return runtime().device[static_cast<std::size_t>(device_of_thread())];
}

Device& device_at(int index) {
  // One that no rank has, for an index that is none.
  static Device nowhere;
  if (index < 0 || index >= devices) return nowhere;
  return runtime().device[static_cast<std::size_t>(index)];
}

}  // namespace fakes

using fakes::Capture;
using fakes::current_capture;
using fakes::current_device;
using fakes::Item;
using fakes::Recording;

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorIllegalAddress) return current_device().failure.c_str();
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake runtime";
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = fakes::behaviour().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fakes::devices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  (void)std::snprintf(properties->name, sizeof properties->name, "%s", "played by the CPU");
  properties->totalGlobalMem = static_cast<std::size_t>(fakes::device_memory());
  properties->multiProcessorCount = 1;
  properties->major = fakes::behaviour().capability / 10;
  properties->minor = fakes::behaviour().capability % 10;
  properties->pciBusID = 0x3b;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= fakes::devices) return cudaErrorInvalidDevice;
  fakes::device_of_thread() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = fakes::device_of_thread();
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  auto& device = current_device();
  return fakes::run_until(device, [&] { return device.idle(); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  auto& device = current_device();
  const std::lock_guard lock{device.mutex};
  *total = static_cast<std::size_t>(fakes::device_memory());
  *free = *total - static_cast<std::size_t>(device.allocated);
  return cudaSuccess;
}

// Fresh memory is not a number in any format.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  auto& device = current_device();
  const std::lock_guard lock{device.mutex};
  if (device.allocated + static_cast<std::int64_t>(bytes) > fakes::device_memory()) {
    return cudaErrorMemoryAllocation;
  }
  const std::size_t whole = (bytes + 255) / 256 * 256;
  *memory = std::aligned_alloc(256, whole);
  std::memset(*memory, 0xff, whole);
  device.allocated += static_cast<std::int64_t>(bytes);
  auto& state = fakes::runtime();
  const std::lock_guard blocks{state.mutex};
  state.blocks[*memory] = {&device, bytes};
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  auto& state = fakes::runtime();
  fakes::Device* device = nullptr;
  std::size_t bytes = 0;
  {
    const std::lock_guard blocks{state.mutex};
    const auto at = state.blocks.find(memory);
    if (at == state.blocks.end()) return cudaErrorInvalidValue;
    std::tie(device, bytes) = at->second;
    state.blocks.erase(at);
  }
  const std::lock_guard lock{device->mutex};
  device->allocated -= static_cast<std::int64_t>(bytes);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes == 0 ? 1 : bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

// Streams that do not block are not waited for.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return fakes::state_of(current_device());
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  fakes::enqueue_call(stream, [=] { std::memcpy(to, from, bytes); });
  return fakes::state_of(stream->device);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  fakes::enqueue_call(stream, [=] { std::memset(memory, value, bytes); });
  return fakes::state_of(stream->device);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st{current_device()};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return fakes::run_until(stream->device, [&] { return stream->device.idle(stream); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timing = (flags & cudaEventDisableTiming) == 0, .latest = nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const std::lock_guard lock{stream->device.mutex};
  Item item;
  item.record = std::make_shared<Recording>();
  Capture* capture = current_capture();
  if (capture != nullptr && capture->items.count(stream) != 0) {
    if (flags == cudaEventRecordExternal) {
      item.external = event;
    } else {
      event->latest = item.record;
      capture->seen_at[item.record.get()] = capture->seen[stream];
    }
    capture->items[stream].push_back(item);
    capture->all.emplace_back(stream, item);
    return cudaSuccess;
  }
  if (flags == cudaEventRecordExternal) return cudaErrorInvalidValue;
  event->latest = item.record;
  stream->device.push(stream, std::move(item));
  return fakes::state_of(stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock{stream->device.mutex};
  if (!event->latest) return cudaSuccess;
  Item item;
  item.wait = event->latest;
  Capture* capture = current_capture();
  const auto seen = capture == nullptr ? decltype(capture->seen_at.begin()){}
                                       : capture->seen_at.find(event->latest.get());
  if (capture != nullptr && seen != capture->seen_at.end()) {
    for (const auto& [other, count] : seen->second) {
      auto& known = capture->seen[stream][other];
      known = std::max(known, count);
    }
    capture->items[stream].push_back(item);
    capture->all.emplace_back(stream, item);
    return cudaSuccess;
  }
  if (capture != nullptr && capture->items.count(stream) != 0) {
    return cudaErrorStreamCaptureUnsupported;  // recorded outside of the capture
  }
  stream->device.push(stream, std::move(item));
  return fakes::state_of(stream->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& device = current_device();
  (void)device.run_one();
  const std::lock_guard lock{device.mutex};
  if (fakes::state_of(device) != cudaSuccess) return fakes::state_of(device);
  return !event->latest || event->latest->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto& device = current_device();
  return fakes::run_until(device, [&] { return !event->latest || event->latest->done; });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timing || !end->timing) return cudaErrorInvalidResourceHandle;
  if (!begin->latest || !end->latest) return cudaErrorInvalidResourceHandle;
  if (!begin->latest->done || !end->latest->done) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(end->latest->time - begin->latest->time) / 1e6F;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (current_capture() != nullptr) return cudaErrorStreamCaptureUnsupported;
  current_capture() = new Capture;
  current_capture()->origin = stream;
  current_capture()->items[stream];
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::unique_ptr<Capture> capture{current_capture()};
  current_capture() = nullptr;
  if (!capture || capture->origin != stream) return cudaErrorInvalidValue;
  if (!capture->joined()) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{*capture};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{graph->capture};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

// Each captured stream becomes a stream of its own that starts behind the launching one, which in
// turn waits for all of them.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  auto& device = stream->device;
  const std::lock_guard lock{device.mutex};
  const Capture& capture = executable->capture;
  Item start;
  start.record = std::make_shared<Recording>();
  const auto started = start.record;
  device.push(stream, std::move(start));
  std::unordered_map<CUstream_st*, CUstream_st*> streams;
  std::unordered_map<Recording*, std::shared_ptr<Recording>> fresh;
  for (const auto& [captured, items] : capture.items) {
    auto* mine = new CUstream_st{device};
    mine->of_graph = true;
    streams[captured] = mine;
    Item wait;
    wait.wait = started;
    device.push(mine, std::move(wait));
  }
  const auto renew = [&](std::shared_ptr<Recording>& recording) {
    if (!recording) return;
    auto& place = fresh[recording.get()];
    if (!place) place = std::make_shared<Recording>();
    recording = place;
  };
  for (const auto& [captured, original] : capture.all) {
    Item item = original;
    renew(item.record);
    renew(item.wait);
    device.push(streams[captured], std::move(item));
  }
  for (const auto& [captured, mine] : streams) {
    Item end;
    end.record = std::make_shared<Recording>();
    Item wait;
    wait.wait = end.record;
    device.push(mine, std::move(end));
    device.push(stream, std::move(wait));
  }
  return fakes::state_of(device);
}
