// Whether two records did the same work: exact, up to the first difference.
#include <fmt/format.h>

#include <array>
#include <map>

#include "sim/timeline/compare.hpp"
#include "sim/timeline/match.hpp"

namespace sim {
namespace {

std::string operator_text(const Program& program, OpId op) {
  const OpLabel& label = program.label[op.value];
  std::string text = fmt::format("{} ({}, {}", program.name(op), word(program.kind[op.value]),
                                 word(program.pass[op.value]));
  if (label.layer >= 0) text += fmt::format(", layer {}", label.layer);
  if (label.microbatch >= 0) text += fmt::format(", micro-batch {}", label.microbatch);
  return text + ")";
}

std::string work_text(const Program& program, OpId op) {
  const std::uint32_t work = program.work[op.value];
  switch (program.kind[op.value]) {
    case OpKind::collective: {
      const Collective& c = program.collectives[work];
      return fmt::format("{} of {} B in {} on the {} group", word(c.kind), c.bytes.count(),
                         word(c.dtype), word(c.group));
    }
    case OpKind::send:
    case OpKind::recv: {
      const Transfer& t = program.transfers[work];
      return fmt::format("{} B in {} {} the {} stage", t.bytes.count(), word(t.dtype),
                         program.kind[op.value] == OpKind::send ? "to" : "from",
                         t.peer == Peer::next_stage ? "next" : "previous");
    }
    case OpKind::barrier:
      return "";
    default: {
      const Kernel& k = program.kernels[work];
      return fmt::format("{} m {} n {} k {} batch {} heads {}, {} B, {} FLOP", word(k.dtype), k.m,
                         k.n, k.k, k.batch, k.heads, k.bytes.count(), k.flops.count());
    }
  }
}

bool same_operator(const Program& a, OpId x, const Program& b, OpId y) {
  const OpLabel& left = a.label[x.value];
  const OpLabel& right = b.label[y.value];
  return a.kind[x.value] == b.kind[y.value] && a.pass[x.value] == b.pass[y.value] &&
         a.name(x) == b.name(y) && left.layer == right.layer && left.chunk == right.chunk &&
         left.microbatch == right.microbatch;
}

// Two kernels are the same work whatever the host launches for it, and however its bytes are moved.
bool same_kernel(Kernel a, Kernel b) {
  a.launches = b.launches = 1;
  a.beside = b.beside = a.strided = b.strided = a.transposed = b.transposed = Bytes{};
  return a == b;
}

bool same_amount(const Program& a, OpId x, const Program& b, OpId y) {
  const std::uint32_t left = a.work[x.value], right = b.work[y.value];
  switch (a.kind[x.value]) {
    case OpKind::collective:
      return a.collectives[left] == b.collectives[right];
    case OpKind::send:
    case OpKind::recv:
      return a.transfers[left] == b.transfers[right];
    case OpKind::barrier:
      return true;
    default:
      return same_kernel(a.kernels[left], b.kernels[right]);
  }
}

using Lanes = std::array<std::vector<OpId>, stream_count>;
Lanes lanes_of(const Program& program) {
  Lanes lanes;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    lanes[static_cast<std::size_t>(program.stream[op])].push_back(OpId{op});
  return lanes;
}

// The first difference of two programs, stream by stream; empty: none.
std::string program_difference(const Program& a, const Program& b) {
  const Lanes left = lanes_of(a), right = lanes_of(b);
  for (const auto& stream : words_of(Stream{})) {
    const auto& of_a = left[static_cast<std::size_t>(stream.value)];
    const auto& of_b = right[static_cast<std::size_t>(stream.value)];
    for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
      if (!same_operator(a, of_a[i], b, of_b[i]))
        return fmt::format("{} operator {}: {} in A, {} in B", stream.text, i,
                           operator_text(a, of_a[i]), operator_text(b, of_b[i]));
      if (!same_amount(a, of_a[i], b, of_b[i]))
        return fmt::format("{} operator {}, {}: {} in A, {} in B", stream.text, i,
                           operator_text(a, of_a[i]), work_text(a, of_a[i]), work_text(b, of_b[i]));
    }
    if (of_a.size() != of_b.size())
      return fmt::format("{}: {} operators in A, {} in B", stream.text, of_a.size(), of_b.size());
  }
  return {};
}

void count(Sameness& same, const Program& program, std::uint64_t ranks) {
  same.operators += program.size() * ranks;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const std::uint32_t work = program.work[op];
    Bytes bytes{};
    if (program.kind[op] == OpKind::collective)
      bytes = program.collectives[work].bytes;
    else if (program.kind[op] == OpKind::send || program.kind[op] == OpKind::recv)
      bytes = program.transfers[work].bytes;
    else
      continue;
    same.communication_calls += ranks;
    same.communication_bytes += bytes * static_cast<std::int64_t>(ranks);
  }
}

}  // namespace

Sameness same_work(const Record& a, const Record& b) {
  Sameness same;
  if (a.world_size != b.world_size) {
    same.first_difference = fmt::format("{} ranks in A, {} in B", a.world_size, b.world_size);
    return same;
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> compared;
  const auto check = [&](const Record& from, const Record& to, bool reversed) {
    for (const RecordedTrack& track : from.tracks) {
      const RecordedTrack* other = counterpart(to, track);
      if (!other) {
        same.first_difference =
            fmt::format("rank {} is in {} only", track.rank.value, reversed ? "B" : "A");
        return;
      }
      if (!reversed) count(same, from.programs[track.program], track.represents);
      const auto pair = reversed ? std::pair{other->program, track.program}
                                 : std::pair{track.program, other->program};
      if (!compared.emplace(pair, true).second) continue;
      const std::string what = program_difference(a.programs[pair.first], b.programs[pair.second]);
      if (what.empty()) continue;
      same.first_difference = fmt::format("rank {}, {}", track.rank.value, what);
      return;
    }
  };
  check(a, b, false);
  if (same.first_difference.empty()) check(b, a, true);
  same.same = same.first_difference.empty();
  return same;
}

}  // namespace sim
