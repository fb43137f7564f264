// RAII around the CUDA runtime: memory, streams, events; one way to check a call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace real {

// Throws std::runtime_error: the call's error, its text and where. No string is made where there is
// none: it is called for every launch.
[[noreturn]] void fail(cudaError_t result, std::string_view what, const char* file, int line);
// The built-ins, not std::source_location: clang 14, whose clang-tidy reads this, has none.
inline void check(cudaError_t result, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (result != cudaSuccess) fail(result, what, file, line);
}

// One cudaMalloc. Throws OutOfMemory.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::int64_t bytes, const std::string& what_for);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_{std::exchange(other.memory_, nullptr)}, bytes_{std::exchange(other.bytes_, 0)} {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* at(std::int64_t offset) const { return static_cast<std::byte*>(memory_) + offset; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Page-locked host memory: copies from it are asynchronous.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept : memory_{std::exchange(other.memory_, nullptr)} {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  std::byte* at(std::int64_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

 private:
  void* memory_ = nullptr;
};

class DeviceStream {
 public:
  enum class Priority : std::uint8_t { normal, high };
  DeviceStream() = default;
  explicit DeviceStream(Priority priority);
  ~DeviceStream();
  DeviceStream(DeviceStream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  DeviceStream& operator=(DeviceStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class DeviceEvent {
 public:
  enum class Kind : std::uint8_t { order, timing };
  DeviceEvent() = default;
  explicit DeviceEvent(Kind kind);
  ~DeviceEvent();
  DeviceEvent(DeviceEvent&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A captured sequence of operations, ready to be launched again and again.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&& other) noexcept
      : executable_{std::exchange(other.executable_, nullptr)} {}
  DeviceGraph& operator=(DeviceGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  static DeviceGraph end_capture(cudaStream_t stream);
  static void discard_capture(cudaStream_t stream);  // after an error in it
  bool exists() const { return executable_ != nullptr; }
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace real
