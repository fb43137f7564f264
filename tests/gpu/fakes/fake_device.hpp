// A GPU that is played by the CPU: streams, events and graphs with CUDA's rules of order, and
// nothing more. Work runs late: only while the host waits for something, and then in a random legal
// order (by a seed) if that is asked for. An edge that is missing between two streams shows as
// wrong numbers, as one that a real GPU happens to keep would not.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/fakes/behaviour.hpp"
#include "tests/gpu/fakes/include/cuda_runtime_api.h"

namespace fakes {

// Tries to do a piece of work; false: it waits for others, ask again.
using Work = std::function<bool()>;

// Puts work on a stream. Throws std::logic_error for no stream.
void enqueue(cudaStream_t stream, Work work);
inline void enqueue_call(cudaStream_t stream, std::function<void()> call) {
  enqueue(stream, [call = std::move(call)] {
    call();
    return true;
  });
}

// A point in a stream that an event was recorded at.
struct Recording {
  bool done = false;
  std::int64_t time = 0;  // ns
};

struct Item {
  Work work;                          // or:
  std::shared_ptr<Recording> record;  // or:
  std::shared_ptr<Recording> wait;
  cudaEvent_t external = nullptr;  // of record: of a graph, seen by the host when it runs
  std::uint64_t sequence = 0;
};

class Device {
 public:
  // One item of one stream. False: nothing can run now.
  bool run_one();
  void push(cudaStream_t stream, Item item);
  bool idle(cudaStream_t stream) const;
  bool idle() const;

  // A kernel is loaded when it is launched first, which may wait for all that the device is at
  // (CUDA C++ Programming Guide, "Lazy Loading"). The host waits here.
  void load(const std::vector<std::uint64_t>& kernel);
  void unload();  // all: another process
  // Time that the device's work takes beside the host's clock.
  void pass(std::int64_t nanoseconds) { passed_ += nanoseconds; }

  std::recursive_mutex mutex;
  std::string failure;  // of work that threw: every later call fails
  std::int64_t allocated = 0;

 private:
  friend struct ::CUstream_st;
  std::vector<cudaStream_t> choices();
  bool run_head(CUstream_st& stream);

  std::vector<CUstream_st*> streams_;
  std::set<std::vector<std::uint64_t>> loaded_;
  std::int64_t passed_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t held_until_ = 0;
  CUstream_st* held_ = nullptr;
  std::mt19937_64 random_{1};
};

// Device of the calling thread, by cudaSetDevice.
Device& current_device();
inline constexpr int devices = 32;
Device& device_at(int index);

// Capture is what a thread captures, if anything.
struct Capture {
  // Per captured stream; recordings are replaced by fresh ones at each launch.
  std::map<CUstream_st*, std::vector<Item>> items;
  std::map<CUstream_st*, std::map<CUstream_st*, std::size_t>> seen;
  std::map<Recording*, std::map<CUstream_st*, std::size_t>> seen_at;
  std::vector<std::pair<CUstream_st*, Item>> all;  // in the order of issue
  CUstream_st* origin = nullptr;
  bool joined() const;
};
Capture*& current_capture();
bool is_captured(cudaStream_t stream);  // by this thread

}  // namespace fakes

struct CUstream_st {
  explicit CUstream_st(fakes::Device& on);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;
  fakes::Device& device;
  std::deque<fakes::Item> items;
  bool of_graph = false;  // destroyed when it is empty
};
struct CUevent_st {
  bool timing = false;
  std::shared_ptr<fakes::Recording> latest;
};
struct CUgraph_st {
  fakes::Capture capture;
};
struct CUgraphExec_st {
  fakes::Capture capture;
};
