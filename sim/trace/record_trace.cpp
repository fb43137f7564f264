// Records as traces: what ran is known, not read off names.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/trace/trace_file.hpp"

namespace sim {
namespace {

// The device's work of one track.
class TrackReader {
 public:
  TrackReader(const Record& record, const RecordedTrack& track, TraceFile& file, TraceNames& names)
      : record_{record},
        program_{record.programs[track.program]},
        track_{track},
        file_{file},
        names_{names} {}

  RunRank read() {
    rank_.rank = track_.rank;
    rank_.source = file_.name;
    rank_.steps.push_back({"step", TimePoint{}, record_.end});  // a record is of one
    for (const Span& span : track_.spans)
      if (span.end > span.begin) add(span);
    std::stable_sort(
        rank_.device.begin(), rank_.device.end(),
        [](const DeviceActivity& a, const DeviceActivity& b) { return a.begin < b.begin; });
    return std::move(rank_);
  }

 private:
  void add(const Span& span) {
    const std::uint32_t op = span.op.value;
    DeviceActivity activity;
    activity.name = names_.number(program_.name(span.op));
    activity.stream = static_cast<std::uint32_t>(program_.stream[op]) + 1;
    activity.begin = span.begin;  // as NCCL's kernels: they wait for the other ranks
    activity.end = span.end;
    activity.kind = program_.kind[op];
    activity.planned = static_cast<std::int32_t>(op);
    if (activity.kind == OpKind::host_copy) activity.what = DeviceActivity::What::copy;
    add_work(activity, program_.work[op]);
    rank_.device.push_back(activity);
  }

  void add_work(DeviceActivity& activity, std::uint32_t work) {
    if (activity.kind == OpKind::collective || activity.kind == OpKind::barrier) {
      const Collective& told = program_.collectives[work];
      add_call(activity, told.kind, told.bytes, told.dtype, group_of(told.group));
    } else if (activity.kind == OpKind::send || activity.kind == OpKind::recv) {
      const Transfer& told = program_.transfers[work];
      add_call(activity, std::nullopt, told.bytes, told.dtype, not_told);
    } else if (activity.kind == OpKind::gemm) {
      const Kernel& kernel = program_.kernels[work];
      activity.product = product_of(kernel);
      activity.work = work_of(work);
    } else if (runs_kernel(activity.kind)) {
      activity.work = work_of(work);
    }
  }

  void add_call(DeviceActivity& activity, std::optional<CollectiveKind> kind, Bytes bytes,
                DType dtype, std::int32_t group) {
    CollectiveCall call;
    call.kind = kind;
    call.bytes = bytes;
    call.group = group;
    call.dtype = names_.number(word(dtype));
    call.operation = names_.number(kind ? word(*kind) : word(activity.kind));
    activity.call = static_cast<std::int32_t>(rank_.calls.size());
    rank_.calls.push_back(call);
  }

  // A record tells the role of a group.
  std::int32_t group_of(GroupRole role) {
    const std::string name{word(role)};
    std::vector<RankId> ranks = members_of(role);
    const auto known = std::find_if(
        file_.groups.begin(), file_.groups.end(),
        [&](const TracedGroup& group) { return group.name == name && group.ranks == ranks; });
    const auto number = static_cast<std::int32_t>(known - file_.groups.begin());
    if (known == file_.groups.end()) {
      const int size = static_cast<int>(ranks.size());
      file_.groups.push_back({name, name, size, std::move(ranks)});
    }
    return number;
  }

  // The members follow from the places of ranks, where every rank has a track. Those that share
  // experts, and of copies that are sharded, do not: empty.
  std::vector<RankId> members_of(GroupRole role) const {
    if (record_.tracks.size() != static_cast<std::size_t>(record_.world_size)) return {};
    const bool known = role == GroupRole::tensor || role == GroupRole::context ||
                       role == GroupRole::data || role == GroupRole::world;
    if (!known) return {};
    std::vector<RankId> members;
    for (const RecordedTrack& other : record_.tracks)
      if (shares(role, other.at)) members.push_back(other.rank);
    return members;
  }

  bool shares(GroupRole role, const RankCoordinates& other) const {
    const RankCoordinates& own = track_.at;
    if (role == GroupRole::world) return true;
    if (other.pipeline != own.pipeline) return false;
    if (role == GroupRole::tensor) return other.data == own.data && other.context == own.context;
    if (other.tensor != own.tensor) return false;
    return role == GroupRole::data || other.data == own.data;
  }

  std::int32_t product_of(const Kernel& kernel) {
    const auto [entry, is_new] =
        products_.try_emplace({kernel.m, kernel.n, kernel.k, kernel.batch},
                              static_cast<std::int32_t>(rank_.products.size()));
    if (is_new) rank_.products.push_back({kernel.m, kernel.n, kernel.k, kernel.batch});
    return entry->second;
  }

  std::int32_t work_of(std::uint32_t work) {
    const auto [entry, is_new] =
        works_.try_emplace(work, static_cast<std::int32_t>(rank_.works.size()));
    if (is_new) rank_.works.push_back(program_.kernels[work]);
    return entry->second;
  }

  const Record& record_;
  const Program& program_;
  const RecordedTrack& track_;
  TraceFile& file_;
  TraceNames& names_;
  RunRank rank_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::int32_t>
      products_;
  std::map<std::uint32_t, std::int32_t> works_;
};

// Sizes of groups whose members are not known: those of the record's sums, where all of a role have
// one.
void tell_sizes(const Record& record, TraceFile& file) {
  for (TracedGroup& group : file.groups) {
    if (!group.ranks.empty()) continue;
    std::set<int> sizes;
    for (const CollectiveSummary& sum : record.collectives)
      if (word(sum.group) == group.name) sizes.insert(sum.ranks);
    if (sizes.size() == 1) group.size = *sizes.begin();
  }
}

}  // namespace

TraceFile file_of_record(const Record& record, const std::string& name, TraceNames& names) {
  names.number("");
  TraceFile file;
  file.name = name;
  file.maker = fmt::format("Stepcast ({})", record.engine);
  file.numbered = true;
  file.world_size = record.world_size;
  std::uint64_t represented = 0;
  for (const RecordedTrack& track : record.tracks) {
    represented += track.represents;
    file.ranks.push_back(TrackReader{record, track, file, names}.read());
  }
  if (represented > record.tracks.size())
    file.notes.push_back(
        fmt::format("{} ranks stand for {} that do the same", record.tracks.size(), represented));
  tell_sizes(record, file);
  return file;
}

}  // namespace sim
