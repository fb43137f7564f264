#include <algorithm>
#include <cmath>

#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/cuda_bench.hpp"
#include "real/calibrate/kernel_samples.hpp"
#include "real/cuda/prepare.hpp"

namespace real {
namespace {

// A copy of a thousandth of the device's memory inside it: 60 us of an H200 (139 GiB at 4.8 TB/s,
// read and written), and about that on any GPU, whose memory grows with its bandwidth.
constexpr std::int64_t ballast_share = 1024;
// Copies that give the host a second's start on the fastest device: what is not issued by then is
// held up by something else.
constexpr int most_copies = 1 << 14;
// About 15 ms of copies.
constexpr int warming_copies = 256;
// The number of small kernels, with and without an event behind each.
constexpr std::size_t probes = 64;
constexpr int probe_rounds = 9;

double seconds_between(const DeviceEvent& begin, const DeviceEvent& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

std::int64_t device_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(total);
}

void record(const DeviceEvent& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

}  // namespace

CudaClock::CudaClock()
    : compute_{DeviceStream::Priority::normal},
      communication_{DeviceStream::Priority::high},
      ballast_bytes_{device_memory() / ballast_share / 512 * 512},
      ballast_{2 * ballast_bytes_, "copies that keep the device busy"} {}

void CudaClock::keep_busy(int copies) {
  for (int i = 0; i < copies; ++i)
    check(cudaMemcpyAsync(ballast_.at(ballast_bytes_), ballast_.at(0),
                          static_cast<std::size_t>(ballast_bytes_), cudaMemcpyDeviceToDevice,
                          compute()),
          "a copy that keeps the device busy");
}

int CudaClock::copies_for(std::size_t count) const {
  constexpr double margin = 1.5;
  const double seconds = margin * static_cast<double>(count) * issue_seconds_;
  const double copies = copy_seconds_ > 0 ? std::ceil(seconds / copy_seconds_) : 1;
  return static_cast<int>(std::clamp<double>(copies, 1, most_copies));
}

std::vector<double> CudaClock::time_each(std::size_t count,
                                         const std::function<void(std::size_t)>& issue) {
  if (event_cost_ < 0) event_cost_ = event_cost();
  while (events_.size() <= count)
    events_.emplace_back(DeviceEvent::Kind::timing);
  for (int copies = copies_for(count);; copies *= 2) {
    keep_busy(copies);
    record(events_[0], compute());
    const double begin = wall_now();
    for (std::size_t i = 0; i < count; ++i) {
      issue(i);
      record(events_[i + 1], compute());
    }
    const double per_piece = (wall_now() - begin) / static_cast<double>(count);
    issue_seconds_ = issue_seconds_ > 0 ? std::min(issue_seconds_, per_piece) : per_piece;
    const bool ahead = cudaEventQuery(events_[0].get()) == cudaErrorNotReady;
    check(cudaEventSynchronize(events_[count].get()), "kernels that are measured");
    if (ahead || copies >= most_copies) break;
  }
  std::vector<double> seconds;
  for (std::size_t i = 0; i < count; ++i)
    seconds.push_back(std::max(0.0, seconds_between(events_[i], events_[i + 1]) - event_cost_));
  return seconds;
}

// A timing event is a write of the device's front end between two kernels: it is in the way of
// short ones. What it costs: kernels in a row with an event behind each, against without.
double CudaClock::event_cost() {
  while (events_.size() <= probes + 2)
    events_.emplace_back(DeviceEvent::Kind::timing);
  const auto small = [&] {
    cuda_kernels().add(sim::DType::fp32, 32, ballast_.at(0), ballast_.at(128), ballast_.at(256),
                       compute());
  };
  check(cudaMemsetAsync(ballast_.at(0), 0, 4096, compute()), "cudaMemsetAsync");
  // Not of a clock that has just been woken.
  copy_seconds_ = time(compute(), [&] { keep_busy(warming_copies); }) / warming_copies;
  std::vector<double> costs;
  for (int round = 0; round < probe_rounds; ++round) {
    std::vector<double> total;
    for (const bool with_events : {false, true}) {
      keep_busy(16);
      record(events_[0], compute());
      for (std::size_t i = 0; i < probes; ++i) {
        small();
        if (with_events) record(events_[i + 2], compute());
      }
      record(events_[1], compute());
      check(cudaEventSynchronize(events_[1].get()), "the cost of an event");
      total.push_back(seconds_between(events_[0], events_[1]));
    }
    costs.push_back((total[1] - total[0]) / static_cast<double>(probes));
  }
  return std::max(0.0, median(costs));
}

double CudaClock::issue_cost(std::size_t count, const std::function<void(std::size_t)>& issue) {
  std::vector<double> costs;
  for (int round = 0; round < probe_rounds; ++round) {
    keep_busy(std::max(2 * copies_for(count), 64));
    const double begin = wall_now();
    for (std::size_t i = 0; i < count; ++i)
      issue(i);
    costs.push_back((wall_now() - begin) / static_cast<double>(count));
    check(cudaStreamSynchronize(compute()), "the cost to issue a kernel");
  }
  return median(costs);
}

sim::MeasuredGaps CudaClock::gaps(std::size_t count,
                                  const std::function<void(std::size_t)>& issue) {
  const auto issue_all = [&] {
    for (std::size_t i = 0; i < count; ++i)
      issue(i);
  };
  // Thread-local: what NCCL's threads do meanwhile is not part of it.
  check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  issue_all();
  const DeviceGraph graph = DeviceGraph::end_capture(compute());
  std::vector<double> issued, replayed;
  for (int round = 0; round < probe_rounds; ++round) {
    double own = 0;
    for (const double seconds : time_each(count, issue))
      own += seconds;
    keep_busy(2 * copies_for(count));
    issued.push_back(time(compute(), issue_all) - own);
    keep_busy(2 * copies_for(count));
    replayed.push_back(time(compute(), [&] { graph.launch(compute()); }) - own);
  }
  const auto per_piece = static_cast<double>(count);
  return {.issued = median(issued) / per_piece, .replayed = median(replayed) / per_piece};
}

double CudaClock::time(cudaStream_t stream, const std::function<void()>& issue) {
  while (events_.size() < 2)
    events_.emplace_back(DeviceEvent::Kind::timing);
  record(events_[0], stream);
  issue();
  record(events_[1], stream);
  check(cudaEventSynchronize(events_[1].get()), "work that is measured");
  return seconds_between(events_[0], events_[1]);
}

}  // namespace real
