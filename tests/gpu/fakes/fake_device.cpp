#include "tests/gpu/fakes/fake_device.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace fakes {

namespace {

std::atomic<std::uint64_t>& seed() {
  static std::atomic<std::uint64_t> value{0};
  return value;
}

Behaviour& chosen() {
  static Behaviour value;
  return value;
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t& device_memory();

void set_behaviour(const Behaviour& behaviour) {
  chosen() = behaviour;
  seed() = behaviour.seed;
  device_memory() = behaviour.memory;
  for (int i = 0; i < devices; ++i)
    device_at(i).unload();
}

Behaviour behaviour() {
  return chosen();
}

void Device::push(cudaStream_t stream, Item item) {
  const std::lock_guard lock{mutex};
  item.sequence = sequence_++;
  stream->items.push_back(std::move(item));
}

bool Device::idle(cudaStream_t stream) const {
  return stream->items.empty();
}

bool Device::idle() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const CUstream_st* stream) { return stream->items.empty(); });
}

// Streams with something to do, in the order in which they are tried.
std::vector<cudaStream_t> Device::choices() {
  std::vector<cudaStream_t> order;
  for (CUstream_st* stream : streams_) {
    if (!stream->items.empty()) order.push_back(stream);
  }
  const std::uint64_t by = seed();
  if (by == 0) {
    std::sort(order.begin(), order.end(), [](const CUstream_st* a, const CUstream_st* b) {
      return a->items.front().sequence < b->items.front().sequence;
    });
    return order;
  }
  random_.seed(random_() ^ by);
  std::shuffle(order.begin(), order.end(), random_);
  // One stream is held back for a while: it runs only if no other can.
  if (held_until_-- == 0 && !streams_.empty()) {
    held_ = streams_[random_() % streams_.size()];
    held_until_ = random_() % 200;
  }
  std::stable_partition(order.begin(), order.end(),
                        [this](const CUstream_st* stream) { return stream != held_; });
  return order;
}

bool Device::run_head(CUstream_st& stream) {
  Item& head = stream.items.front();
  if (head.wait && !head.wait->done) return false;
  if (head.work && !head.work()) return false;
  if (head.record) {
    head.record->time = now() + passed_;
    head.record->done = true;
    if (head.external != nullptr) head.external->latest = head.record;
  }
  stream.items.pop_front();
  if (stream.of_graph && stream.items.empty()) delete &stream;
  return true;
}

bool Device::run_one() {
  const std::lock_guard lock{mutex};
  if (!failure.empty()) return false;
  for (const cudaStream_t stream : choices()) {
    try {
      if (run_head(*stream)) return true;
    } catch (const std::exception& error) {
      failure = error.what();
      return false;
    }
  }
  return false;
}

void Device::load(const std::vector<std::uint64_t>& kernel) {
  {
    const std::lock_guard lock{mutex};
    if (!loaded_.insert(kernel).second) return;
  }
  for (;;) {
    {
      const std::lock_guard lock{mutex};
      if (idle() || !failure.empty()) return;
    }
    if (!run_one()) std::this_thread::yield();
  }
}

void Device::unload() {
  const std::lock_guard lock{mutex};
  loaded_.clear();
}

bool Capture::joined() const {
  const auto at = seen.find(origin);
  for (const auto& [stream, list] : items) {
    if (stream == origin) continue;
    if (at == seen.end() || !at->second.count(stream)) return false;
    const auto works = static_cast<std::size_t>(
        std::count_if(list.begin(), list.end(), [](const Item& item) { return !!item.work; }));
    if (at->second.at(stream) < works) return false;
  }
  return true;
}

Capture*& current_capture() {
  thread_local Capture* capture = nullptr;
  return capture;
}

bool is_captured(cudaStream_t stream) {
  const Capture* capture = current_capture();
  return capture != nullptr && capture->items.count(stream) != 0;
}

void enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) throw std::logic_error{"work for no stream"};
  Item item;
  item.work = std::move(work);
  if (is_captured(stream)) {
    Capture* capture = current_capture();
    ++capture->seen[stream][stream];
    capture->items[stream].push_back(item);
    capture->all.emplace_back(stream, std::move(item));
    return;
  }
  stream->device.push(stream, std::move(item));
}

}  // namespace fakes

CUstream_st::CUstream_st(fakes::Device& on) : device{on} {
  const std::lock_guard lock{device.mutex};
  device.streams_.push_back(this);
}

CUstream_st::~CUstream_st() {
  const std::lock_guard lock{device.mutex};
  std::erase(device.streams_, this);
  if (device.held_ == this) device.held_ = nullptr;
}
