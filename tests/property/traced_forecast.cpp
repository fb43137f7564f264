#include "tests/property/traced_forecast.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace sim::test {
namespace {

constexpr TimePoint never = TimePoint::max();

struct ReplayedOp {
  TimePoint begin = never, active = never, end = never;
  bool done() const { return end != never; }
  bool begun() const { return begin != never; }
};

// Which operators of several ranks are one call: of a group and role, the k-th; of a message, the
// k-th of a direction between two ranks.
struct Meeting {
  std::vector<std::pair<std::size_t, std::uint32_t>> members;  // rank, operator
};

struct RankReplay {
  const Program* program = nullptr;
  const RankTrack* track = nullptr;
  std::vector<ReplayedOp> ops;
  std::vector<OpTrouble> trouble;
  std::vector<std::size_t> meeting;  // of each operator; SIZE_MAX: none
  std::vector<std::vector<std::uint32_t>> more_dependencies;
  std::array<std::vector<std::uint32_t>, stream_count> streams;
  std::array<std::size_t, stream_count> at{};
  std::array<TimePoint, stream_count> free{};
};

class Replay {
 public:
  Replay(const Forecast& forecast, const TroubleOf& trouble, const HostTrouble& late)
      : plan_{*forecast.plan}, late_{late} {
    ranks_.resize(forecast.timeline.tracks.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      prepare(r, forecast.timeline.tracks[r], trouble);
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (std::size_t s = 0; s < stream_count; ++s)
          while (advance(r, s))
            moved = true;
    }
    for (const RankReplay& rank : ranks_)
      for (const ReplayedOp& op : rank.ops)
        if (!op.done()) throw std::logic_error{"the replay hangs"};
  }

  Duration end() const {
    TimePoint end{};
    for (const RankReplay& rank : ranks_)
      for (const TimePoint free : rank.free)
        end = std::max(end, free);
    return end - TimePoint{};
  }

  bool same_as_forecast() const {
    for (const RankReplay& rank : ranks_)
      for (std::size_t i = 0; i < rank.ops.size(); ++i)
        if (rank.ops[i].begin != rank.track->spans[i].begin ||
            rank.ops[i].end != rank.track->spans[i].end)
          return false;
    return true;
  }

  const std::vector<RankReplay>& ranks() const { return ranks_; }

 private:
  using MeetingKey = std::tuple<int, std::uint32_t, std::uint32_t, std::uint32_t, std::size_t>;

  void prepare(std::size_t r, const RankTrack& track, const TroubleOf& trouble) {
    RankReplay& rank = ranks_[r];
    rank.track = &track;
    rank.program = &plan_.program(track.rank);
    const std::size_t size = rank.program->size();
    rank.ops.resize(size);
    rank.meeting.assign(size, SIZE_MAX);
    rank.more_dependencies.resize(size);
    std::map<MeetingKey, std::size_t> calls;
    for (std::uint32_t op = 0; op < size; ++op) {
      rank.trouble.push_back(trouble(track.rank, *rank.program, OpId{op}));
      rank.streams[static_cast<std::size_t>(rank.program->stream[op])].push_back(op);
      if (const auto key = meeting_key(track.rank, *rank.program, op)) {
        MeetingKey numbered = *key;
        std::get<4>(numbered) = calls[*key]++;
        const auto index = meeting_of_.emplace(numbered, meetings_.size());
        if (index.second) meetings_.emplace_back();
        rank.meeting[op] = index.first->second;
        meetings_[index.first->second].members.emplace_back(r, op);
      }
    }
    block(rank);
  }

  std::optional<MeetingKey> meeting_key(RankId rank, const Program& program,
                                        std::uint32_t op) const {
    if (program.kind[op] == OpKind::collective) {
      const GroupRole role = program.collectives[program.work[op]].group;
      const std::uint32_t group = plan_.group_of[rank.value][static_cast<std::size_t>(role)];
      return MeetingKey{0, group, static_cast<std::uint32_t>(role), 0, 0};
    }
    if (program.kind[op] != OpKind::send && program.kind[op] != OpKind::recv) return std::nullopt;
    const Transfer& transfer = program.transfers[program.work[op]];
    const RankId peer = plan_.peer_of[rank.value][static_cast<std::size_t>(transfer.peer)];
    const bool forward =
        program.stream[op] == Stream::forward_send || program.stream[op] == Stream::forward_recv;
    const bool sends = program.kind[op] == OpKind::send;
    return MeetingKey{forward ? 1 : 2, sends ? rank.value : peer.value,
                      sends ? peer.value : rank.value, 0, 0};
  }

  // A blocking collective waits for the kernel issued before it; the one behind it waits for it.
  static void block(RankReplay& rank) {
    std::optional<std::uint32_t> kernel, blocking;
    for (std::uint32_t op = 0; op < rank.program->size(); ++op) {
      if (rank.program->stream[op] == Stream::compute) {
        if (blocking) rank.more_dependencies[op].push_back(*blocking);
        blocking.reset();
        kernel = op;
      } else if (rank.trouble[op].blocking) {
        if (kernel) rank.more_dependencies[op].push_back(*kernel);
        blocking = op;
      }
    }
  }

  bool advance(std::size_t r, std::size_t s) {
    RankReplay& rank = ranks_[r];
    if (rank.at[s] == rank.streams[s].size()) return false;
    const std::uint32_t op = rank.streams[s][rank.at[s]];
    ReplayedOp& of = rank.ops[op];
    if (!of.begun()) {
      const TimePoint ready = ready_at(rank, op, s);
      if (ready == never) return false;
      of.begin = ready + rank.trouble[op].late;
      if (rank.meeting[op] == SIZE_MAX) {
        of.active = of.begin;
        finish(rank, op);
      } else {
        meet(meetings_[rank.meeting[op]]);
      }
    }
    if (!of.done()) return false;
    rank.free[s] = of.end;
    for (const FollowingKernel& following : rank.trouble[op].following)
      rank.free[s] += following.time;
    ++rank.at[s];
    return true;
  }

  TimePoint ready_at(const RankReplay& rank, std::uint32_t op, std::size_t s) const {
    TimePoint ready = std::max(rank.free[s], TimePoint{late_.time});
    for (const OpId before : rank.program->dependencies(OpId{op})) {
      if (!rank.ops[before.value].done()) return never;
      ready = std::max(ready, rank.ops[before.value].end);
    }
    for (const std::uint32_t before : rank.more_dependencies[op]) {
      if (!rank.ops[before].done()) return never;
      ready = std::max(ready, rank.ops[before].end);
    }
    return ready;
  }

  void meet(const Meeting& meeting) {
    TimePoint active{};
    for (const auto& [r, op] : meeting.members) {
      if (!ranks_[r].ops[op].begun()) return;
      active = std::max(active, ranks_[r].ops[op].begin);
    }
    for (const auto& [r, op] : meeting.members) {
      ranks_[r].ops[op].active = active;
      finish(ranks_[r], op);
    }
  }

  static void finish(RankReplay& rank, std::uint32_t op) {
    const Span& span = rank.track->spans[op];
    rank.ops[op].end = rank.ops[op].active + (span.end - span.active) + rank.trouble[op].longer;
  }

  const Plan& plan_;
  const HostTrouble& late_;
  std::vector<RankReplay> ranks_;
  std::vector<Meeting> meetings_;
  std::map<MeetingKey, std::size_t> meeting_of_;
};

// Names of kernels as libraries give them: what they compute, not which operator they are.
std::string kernel_name(const Program& program, std::uint32_t op) {
  switch (program.kind[op]) {
    case OpKind::gemm:
      return "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN";
    case OpKind::attention:
      return program.pass[op] == Pass::forward ? "flash_fwd_kernel" : "flash_bwd_kernel";
    case OpKind::collective:
      return "ncclDevKernel";
    case OpKind::send:
    case OpKind::recv:
      return "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    default:
      return "kernel of " + program.name(OpId{op});
  }
}

class RunWriter {
 public:
  explicit RunWriter(const Plan& plan) : plan_{plan} {
    run_.maker = "replay";
    run_.world_size = plan.world_size();
    run_.one_clock = true;
    for (const Group& group : plan.groups) {
      TracedGroup made;
      made.name = std::to_string(run_.groups.size());
      made.description = std::string{word(group.role)};
      made.size = static_cast<int>(group.ranks.size());
      made.ranks = group.ranks;
      std::sort(made.ranks.begin(), made.ranks.end());
      run_.groups.push_back(std::move(made));
    }
  }

  void add(const RankReplay& replay, const HostTrouble& late, Duration end) {
    RunRank& rank = run_.ranks.emplace_back();
    rank.rank = replay.track->rank;
    rank.steps.push_back({"ProfilerStep#0", TimePoint{}, TimePoint{end}});
    if (late.time.count() > 0)
      rank.host.push_back({name(late.name), 1, TimePoint{}, TimePoint{late.time}, late.what});
    for (std::uint32_t op = 0; op < replay.program->size(); ++op)
      add_op(rank, replay, op, late);
    sort(rank);
  }

  TracedRun run() { return std::move(run_); }

 private:
  std::uint32_t name(const std::string& text) {
    const auto [found, added] = names_.emplace(text, static_cast<std::uint32_t>(run_.names.size()));
    if (added) run_.names.push_back(text);
    return found->second;
  }

  void add_op(RunRank& rank, const RankReplay& replay, std::uint32_t op, const HostTrouble& late) {
    const Program& program = *replay.program;
    const ReplayedOp& of = replay.ops[op];
    DeviceActivity activity;
    activity.stream = static_cast<std::uint32_t>(program.stream[op]);
    activity.name = name(kernel_name(program, op));
    activity.begin = of.begin;
    activity.end = of.end;
    activity.kind = program.kind[op];
    if (program.kind[op] == OpKind::gemm) add_product(rank, program, op, activity);
    if (replay.meeting[op] != SIZE_MAX) add_call(rank, program, op, activity);
    const Duration before = replay.trouble[op].late;
    add_launch(rank, activity, before.count() > 0 ? of.begin - Duration{1} : TimePoint{}, late);
    const Span& planned = replay.track->spans[op];
    if (activity.end > activity.begin || planned.end > planned.begin)
      add_kernels(rank, activity, launches_of(program, op));
    TimePoint at = of.end;
    for (const FollowingKernel& following : replay.trouble[op].following) {
      DeviceActivity extra;
      extra.stream = activity.stream;
      extra.name = name(following.name);
      extra.begin = at;
      extra.end = at + following.time;
      at = extra.end;
      add_launch(rank, extra, TimePoint{}, late);
      rank.device.push_back(extra);
    }
  }

  static int launches_of(const Program& program, std::uint32_t op) {
    return runs_kernel(program.kind[op]) && program.kind[op] != OpKind::gemm
               ? std::max(1, program.kernels[program.work[op]].launches)
               : 1;
  }

  // An operator of several launches runs so many kernels, back to back; a product is one.
  static void add_kernels(RunRank& rank, const DeviceActivity& activity, int launches) {
    for (int n = 0; n < launches; ++n) {
      DeviceActivity kernel = activity;
      kernel.begin += activity.time() * n / launches;
      kernel.end = activity.begin + activity.time() * (n + 1) / launches;
      rank.device.push_back(kernel);
    }
  }

  // The host issues everything at the begin of the step, or late.
  void add_launch(RunRank& rank, DeviceActivity& activity, TimePoint at, const HostTrouble& late) {
    at = std::max(at, TimePoint{late.time});
    activity.launch = static_cast<std::int32_t>(rank.host.size());
    rank.host.push_back({name("cudaLaunchKernel"), 0, at, at, HostSpan::What::runtime});
  }

  static void add_product(RunRank& rank, const Program& program, std::uint32_t op,
                          DeviceActivity& activity) {
    const Kernel& kernel = program.kernels[program.work[op]];
    const Product product{kernel.m, kernel.n, kernel.k, kernel.batch};
    const auto found = std::find(rank.products.begin(), rank.products.end(), product);
    activity.product = static_cast<std::int32_t>(found - rank.products.begin());
    if (found == rank.products.end()) rank.products.push_back(product);
  }

  void add_call(RunRank& rank, const Program& program, std::uint32_t op, DeviceActivity& activity) {
    CollectiveCall call;
    call.dtype = name("bf16");
    if (program.kind[op] == OpKind::collective) {
      const Collective& of = program.collectives[program.work[op]];
      call.kind = of.kind;
      call.bytes = of.bytes;
      call.group = static_cast<std::int32_t>(
          plan_.group_of[rank.rank.value][static_cast<std::size_t>(of.group)]);
    } else {
      call.bytes = program.transfers[program.work[op]].bytes;
    }
    activity.call = static_cast<std::int32_t>(rank.calls.size());
    rank.calls.push_back(call);
  }

  // Ascending begin, as readers give them.
  static void sort(RunRank& rank) {
    std::stable_sort(
        rank.device.begin(), rank.device.end(),
        [](const DeviceActivity& a, const DeviceActivity& b) { return a.begin < b.begin; });
  }

  const Plan& plan_;
  TracedRun run_;
  std::map<std::string, std::uint32_t> names_;
};

}  // namespace

ReplayedStep replay(const Forecast& forecast, const TroubleOf& trouble, const HostTrouble& late) {
  Replay replayed{forecast, trouble, late};
  replayed.run();
  ReplayedStep made;
  made.end = replayed.end();
  made.exact = replayed.same_as_forecast() && made.end == forecast.timeline.end - TimePoint{};
  RunWriter writer{*forecast.plan};
  for (const RankReplay& rank : replayed.ranks())
    writer.add(rank, late, made.end);
  made.run = writer.run();
  return made;
}

}  // namespace sim::test
