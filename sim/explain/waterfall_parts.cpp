#include "sim/explain/waterfall_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace sim {
namespace {

// Parts and their items by name, as they are added up.
class PartSums {
 public:
  void add(TroubleKind kind, const std::string& name, Duration time, Duration measured = {},
           Duration forecast = {}, const std::vector<std::uint32_t>& ops = {}) {
    WaterfallItem& item = items_[kind][name];
    item.name = name;
    item.time += time;
    item.measured += measured;
    item.forecast += forecast;
    item.ops.insert(item.ops.end(), ops.begin(), ops.end());
  }

  // The operators of items that go by the name of an operation.
  void add_named_ops(TroubleKind kind, const Program& program) {
    std::map<std::string, WaterfallItem>& items = items_[kind];
    for (std::uint32_t op = 0; op < program.size(); ++op)
      if (const auto item = items.find(operation_words(program, op)); item != items.end())
        item->second.ops.push_back(op);
  }

  std::vector<WaterfallPart> parts() const {
    std::vector<WaterfallPart> parts;
    for (const auto& [kind, items] : items_) {
      WaterfallPart part{.kind = kind};
      for (const auto& [name, item] : items) {
        part.time += item.time;
        if (item.time.count() != 0) part.items.push_back(item);
      }
      if (part.items.empty()) continue;
      std::stable_sort(part.items.begin(), part.items.end(),
                       [](const WaterfallItem& a, const WaterfallItem& b) {
                         return std::abs(a.time.count()) > std::abs(b.time.count());
                       });
      parts.push_back(std::move(part));
    }
    std::stable_sort(
        parts.begin(), parts.end(),
        [](const WaterfallPart& a, const WaterfallPart& b) { return a.time > b.time; });
    return parts;
  }

 private:
  std::map<TroubleKind, std::map<std::string, WaterfallItem>> items_;
};

TroubleKind kind_of_kernels(OpKind kind) {
  switch (kind) {
    case OpKind::gemm:
      return TroubleKind::products;
    case OpKind::attention:
      return TroubleKind::attention;
    case OpKind::optimizer:
      return TroubleKind::optimizer;
    default:
      return TroubleKind::memory_bound;
  }
}

std::string kernel_item(const Program& program, std::uint32_t op) {
  const Kernel& kernel = program.kernels[program.work[op]];
  if (program.kind[op] != OpKind::gemm) return operation_words(program, op);
  const std::string batch = kernel.batch > 1 ? fmt::format("{} x ", kernel.batch) : std::string{};
  return fmt::format("{} [{}{}x{}x{}]", operation_words(program, op), batch, kernel.m, kernel.n,
                     kernel.k);
}

// The exposed time of a collective grows at most by what it takes longer; the rest is overlap.
Duration of_slowness(Duration exposed, Duration running) {
  const Duration none{};
  if (exposed > none) return std::clamp(running, none, exposed);
  return std::clamp(running, exposed, none);
}

// Casts and sums that belong to collectives, on their stream.
bool is_beside_compute(const Program& program, std::uint32_t op) {
  const Stream stream = program.stream[op];
  return stream == Stream::tensor_comm || stream == Stream::data_comm ||
         stream == Stream::context_comm;
}

void add_op(const Program& program, std::uint32_t op, const OpTime& measured,
            const OpTime& forecast, bool matched, PartSums& sums) {
  const Duration time = measured.attributed - forecast.attributed;
  if (!runs_kernel(program.kind[op]) || is_beside_compute(program, op)) return;
  const std::string name = kernel_item(program, op);
  if (!matched) return sums.add(TroubleKind::missing_kernels, name, time, {}, {}, {op});
  sums.add(kind_of_kernels(program.kind[op]), name, time, measured.running, forecast.running, {op});
}

// Work on one stream queues up: a collective that takes longer exposes those behind it. So
// slowness and overlap are told apart in the sum of a stream, with the casts that belong to them.
struct StreamTime {
  OpTime measured{}, forecast{};
  std::set<std::string> roles{};
  std::vector<std::uint32_t> ops{};
};

void add_time(OpTime& sum, const OpTime& op) {
  sum.attributed += op.attributed;
  sum.running += op.running;
  sum.waiting += op.waiting;
  sum.exposed_waiting += op.exposed_waiting;
  sum.host_late += op.host_late;
  sum.beside += op.beside;
}

// Where transfers of two streams are exposed at one time, one has it: which one may differ between
// trace and forecast. What a stream gives up so, though it is as exposed as before, another has
// taken from it; that is given back.
void give_back(std::map<Stream, StreamTime>& streams) {
  for (auto& [stream, of] : streams)
    for (auto& [other, taker] : streams) {
      const Duration given = of.forecast.attributed - of.measured.attributed;
      const Duration company = of.measured.beside - of.forecast.beside;
      const Duration taken = taker.measured.attributed - taker.forecast.attributed;
      const Duration back = std::min({given, company, taken});
      if (stream == other || back <= Duration{}) continue;
      of.measured.attributed += back;
      of.measured.beside -= back;
      taker.measured.attributed -= back;
      taker.measured.beside += back;
    }
}

// Exposed transfers, by why they are: they take longer; late ranks have moved them from beside a
// kernel to where none runs, though the waiting itself was hidden; the host had not issued the
// kernel that would hide them; or they were hidden else.
void add_stream(const std::string& name, const StreamTime& of, PartSums& sums) {
  const OpTime &measured = of.measured, &forecast = of.forecast;
  const Duration time = measured.attributed - forecast.attributed;
  const Duration slower = of_slowness(time, measured.running - forecast.running);
  const Duration hidden_waiting =
      (measured.waiting - measured.exposed_waiting) - (forecast.waiting - forecast.exposed_waiting);
  const Duration late = of_slowness(time - slower, hidden_waiting);
  sums.add(TroubleKind::slower_collectives, name, slower, measured.running, forecast.running,
           of.ops);
  sums.add(TroubleKind::stragglers, name + ", moved by late ranks", late, {}, {}, of.ops);
  const Duration host = of_slowness(time - slower - late, measured.host_late);
  sums.add(TroubleKind::host, name + ", beside which nothing was issued", host, {}, {}, of.ops);
  sums.add(TroubleKind::overlap, name, time - slower - late - host, measured.running,
           forecast.running, of.ops);
}

void add_collectives(const StepAccount& measured, const StepAccount& forecast,
                     const Program& program, const std::vector<bool>& matched_ops, PartSums& sums) {
  std::map<Stream, StreamTime> streams;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const bool collective = program.kind[op] == OpKind::collective;
    const bool kernel = runs_kernel(program.kind[op]) && is_beside_compute(program, op);
    if (!collective && !kernel) continue;
    if (!matched_ops[op]) {
      sums.add(collective ? TroubleKind::missing_collectives : TroubleKind::missing_kernels,
               operation_words(program, op),
               measured.ops[op].attributed - forecast.ops[op].attributed, {}, {}, {op});
      continue;
    }
    StreamTime& stream = streams[program.stream[op]];
    if (collective) stream.roles.emplace(word(program.collectives[program.work[op]].group));
    if (collective) stream.ops.push_back(op);
    add_time(stream.measured, measured.ops[op]);
    add_time(stream.forecast, forecast.ops[op]);
  }
  give_back(streams);
  for (const auto& [stream, of] : streams)
    add_stream(fmt::format("collectives [{}]", fmt::join(of.roles, ", ")), of, sums);
}

void add_named(TroubleKind kind, const std::map<std::string, Duration>& measured,
               const std::map<std::string, Duration>& forecast, PartSums& sums) {
  for (const auto& [name, time] : measured)
    sums.add(kind, name, time, time);
  for (const auto& [name, time] : forecast)
    sums.add(kind, name, -time, {}, time);
}

// Longest first.
std::vector<std::uint32_t> ops_by_time(const std::map<std::uint32_t, Duration>& times) {
  std::vector<std::uint32_t> ops;
  for (const auto& [op, time] : times)
    ops.push_back(op);
  std::stable_sort(ops.begin(), ops.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return times.at(a) > times.at(b); });
  return ops;
}

TroubleKind kind_of_state(StepState state) {
  switch (state) {
    case StepState::copy:
      return TroubleKind::copies;
    case StepState::garbage:
      return TroubleKind::garbage;
    case StepState::data_loading:
      return TroubleKind::data_loading;
    case StepState::synchronisation:
      return TroubleKind::synchronisation;
    default:
      return TroubleKind::host;
  }
}

}  // namespace

std::vector<WaterfallPart> parts_between(const StepAccount& measured, const StepAccount& forecast,
                                         const Program& program,
                                         const std::vector<bool>& matched_ops) {
  PartSums sums;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    add_op(program, op, measured.ops[op], forecast.ops[op], matched_ops[op], sums);
  add_collectives(measured, forecast, program, matched_ops, sums);
  add_named(TroubleKind::extra_kernels, measured.extra_kernels, forecast.extra_kernels, sums);
  add_named(TroubleKind::extra_collectives, measured.extra_collectives, forecast.extra_collectives,
            sums);
  add_named(TroubleKind::stragglers, measured.waiting, forecast.waiting, sums);
  sums.add_named_ops(TroubleKind::stragglers, program);
  add_named(TroubleKind::pipeline, measured.messages, forecast.messages, sums);
  sums.add_named_ops(TroubleKind::pipeline, program);
  for (const auto& state : words_of(StepState{})) {
    const auto i = static_cast<std::size_t>(state.value);
    if (state.value <= StepState::peer) continue;
    const Duration time = measured.rest[i] - forecast.rest[i];
    if (time.count() != 0)
      sums.add(kind_of_state(state.value), std::string{state.text}, time, measured.rest[i],
               forecast.rest[i], ops_by_time(measured.rest_before[i]));
  }
  return sums.parts();
}

}  // namespace sim
