// Keeps of a trace's events what a run needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/trace/pending_rank.hpp"

namespace sim {

inline constexpr std::int64_t largest_traced_rank = 1 << 24;

class EventKeeper {
 public:
  EventKeeper(StreamedJson& scan, TraceNames& names, TraceFile& file);

  // Throws InputError: a kernel's times are impossible.
  void keep(TraceEvent& event);

  // Fills the ranks of the file: one of a profiler, all of a trace that Stepcast wrote.
  void finish();

 private:
  bool timed(const TraceEvent& event);
  void keep_device(TraceEvent& event);
  void keep_host(TraceEvent& event);
  void keep_flow(const TraceEvent& event);
  void keep_slice(const TraceEvent& event);
  void keep_step(const TraceEvent& event, TimePoint begin, TimePoint end);
  void keep_work(TraceEvent& event);
  void keep_backend_call(const TraceEvent& event);
  void take_host();
  std::int32_t keep_call(const EventCollective& told);
  std::int32_t group_of(const EventCollective& told);
  static Bytes bytes_of(std::int64_t elements, int each);
  std::uint32_t stream_of(const TraceEvent& event);
  std::uint32_t thread_of(const TraceEvent& event);
  void finish_slices();
  std::optional<TimePoint> place(const TraceTime& time);
  void check_kernel(const TraceEvent& event) const;
  EventPlace place_of(const TraceEvent& event, TimePoint at) const;

  StreamedJson& scan_;
  TraceNames& names_;
  TraceFile& file_;
  PendingRank pending_;
  RunRank rank_;
  std::map<std::string, std::int32_t> groups_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> threads_;
  // Kernels by kind, type, part, sizes, bytes.
  std::map<std::tuple<OpKind, DType, AttentionPart, std::int64_t, std::int64_t, std::int64_t,
                      std::int64_t, std::int64_t>,
           std::int32_t>
      works_;
  std::map<std::int64_t, RunRank> slices_;  // by rank
  std::vector<std::int64_t> devices_;       // that kernels ran on
  bool correlated_ = false;                 // a kernel has a correlation: arrows are not needed
  bool nccl_ = false;                       // the host communicates with NCCL
};

}  // namespace sim
