// Kernels of a trace matched with operators of a forecast.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "sim/timeline/stretch_match.hpp"
#include "sim/timeline/traced.hpp"

namespace sim {
namespace {

// m and n change places where a library computes the transposed product.
using ProductKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
ProductKey product_key(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  return {std::min(m, n), std::max(m, n), k, batch};
}

struct Pair {
  std::uint32_t op = 0, kernel = 0;
};

class Aligner {
 public:
  Aligner(const Program& program, const RecordedTrack& track,
          const std::vector<TracedKernel>& kernels, TrackMatch& match)
      : program_{program},
        kernels_{kernels},
        match_{match},
        stretches_{program, track, kernels, match} {
    match_.in_b.assign(program.size(), no_operator);
    match_.in_a.assign(kernels.size(), no_operator);
    find_main_stream();
  }

  void run() {
    if (match_named()) return;
    match_collectives();
    std::uint32_t op = 0, kernel = 0;
    for (const Pair& anchor : anchors()) {
      match_between(op, anchor.op, kernel, anchor.kernel);
      set(anchor.op, anchor.kernel);
      op = anchor.op + 1;
      kernel = anchor.kernel + 1;
    }
    match_between(op, static_cast<std::uint32_t>(program_.size()), kernel,
                  static_cast<std::uint32_t>(kernels_.size()));
    if (beside_) match_beside();
    stretches_.match_uneven();
    follow_products();
  }

 private:
  void set(std::uint32_t op, std::uint32_t kernel) { set_match(match_, op, kernel); }

  // Whether the kernels name operators of this program.
  bool match_named() {
    const auto known = [&](const TracedKernel& kernel) {
      return kernel.op >= 0 && kernel.op < static_cast<std::int64_t>(program_.size()) &&
             program_.name(OpId{static_cast<std::uint32_t>(kernel.op)}) == kernel.name;
    };
    if (kernels_.empty() || !std::all_of(kernels_.begin(), kernels_.end(), known)) return false;
    for (std::uint32_t i = 0; i < kernels_.size(); ++i)
      set(static_cast<std::uint32_t>(kernels_[i].op), i);
    return true;
  }

  void match_collectives() {
    std::map<std::pair<CollectiveKind, Bytes>, std::vector<std::uint32_t>> waiting;
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] != OpKind::collective) continue;
      const Collective& of = program_.collectives[program_.work[op]];
      waiting[{of.kind, of.bytes}].push_back(op);
    }
    std::map<std::pair<CollectiveKind, Bytes>, std::size_t> calls;
    for (std::uint32_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      if (!kernels_[kernel].collective) continue;
      const std::pair key{*kernels_[kernel].collective, kernels_[kernel].bytes};
      const auto found = waiting.find(key);
      const std::size_t call = calls[key]++;
      if (found != waiting.end() && call < found->second.size()) set(found->second[call], kernel);
    }
  }

  // Products of one shape, the k-th with the k-th; then the longest run of pairs that are in order
  // on both sides.
  std::vector<Pair> anchors() const {
    std::map<ProductKey, std::vector<std::uint32_t>> waiting;
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] != OpKind::gemm) continue;
      const Kernel& of = program_.kernels[program_.work[op]];
      waiting[product_key(of.m, of.n, of.k, of.batch)].push_back(op);
    }
    std::map<ProductKey, std::size_t> calls;
    std::set<std::int64_t> issuers;  // a product may be several kernels: its first is the call
    std::vector<Pair> pairs;         // ascending kernel
    for (std::uint32_t i = 0; i < kernels_.size(); ++i) {
      const TracedKernel& kernel = kernels_[i];
      if (kernel.kind != OpKind::gemm || kernel.m == 0) continue;
      if (kernel.issued_by >= 0 && !issuers.insert(kernel.issued_by).second) continue;
      const ProductKey key = product_key(kernel.m, kernel.n, kernel.k, kernel.batch);
      const auto found = waiting.find(key);
      const std::size_t call = calls[key]++;
      if (found != waiting.end() && call < found->second.size())
        pairs.push_back({found->second[call], i});
    }
    return ascending(pairs);
  }

  // The longest subsequence with ascending operators (patience sorting).
  static std::vector<Pair> ascending(const std::vector<Pair>& pairs) {
    constexpr std::size_t none = SIZE_MAX;
    std::vector<std::size_t> last, before(pairs.size(), none);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto place =
          std::lower_bound(last.begin(), last.end(), pairs[i].op,
                           [&](std::size_t at, std::uint32_t op) { return pairs[at].op < op; });
      if (place != last.begin()) before[i] = *std::prev(place);
      if (place == last.end())
        last.push_back(i);
      else
        *place = i;
    }
    std::vector<Pair> chain;
    for (std::size_t at = last.empty() ? none : last.back(); at != none; at = before[at])
      chain.push_back(pairs[at]);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  static bool is_communication(const TracedKernel& kernel) {
    return kernel.kind == OpKind::collective || kernel.kind == OpKind::send ||
           kernel.kind == OpKind::recv;
  }

  // The stream whose kernels take most time, and whether others have kernels, too.
  void find_main_stream() {
    std::map<std::int64_t, Duration> times;
    for (const TracedKernel& kernel : kernels_)
      if (!is_communication(kernel)) times[kernel.stream] += kernel.time();
    const auto most =
        std::max_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != times.end()) main_stream_ = most->first;
    beside_ = times.size() > 1;
  }

  bool is_on_main(const TracedKernel& kernel) const {
    return !beside_ || kernel.stream == main_stream_;
  }
  // A kernel's operator that runs there; all of them, where one stream has all kernels.
  bool is_of_main(std::uint32_t op) const {
    return runs_kernel(program_.kind[op]) && (!beside_ || program_.stream[op] == Stream::compute);
  }

  // Kernels of other streams run before or behind the products between which they were issued: they
  // are matched over the whole step, class by class and in order.
  void match_beside() {
    std::map<OpKind, Stretch> classes;
    for (std::uint32_t op = 0; op < program_.size(); ++op)
      if (runs_kernel(program_.kind[op]) && !is_of_main(op))
        classes[match_class(program_.kind[op])].ops.push_back(op);
    for (std::uint32_t i = 0; i < kernels_.size(); ++i)
      if (!is_communication(kernels_[i]) && !is_on_main(kernels_[i]) && kernels_[i].m == 0)
        classes[match_class(kernels_[i].kind)].units.push_back({i});
    for (auto& [kind, stretch] : classes) {
      if (stretch.ops.size() != stretch.units.size()) {
        stretches_.add_uneven(std::move(stretch));
        continue;
      }
      for (std::size_t i = 0; i < stretch.ops.size(); ++i)
        stretches_.set(stretch.ops[i], stretch.units[i]);
    }
  }

  // Class by class, in order: an operator with all kernels of one of the framework's. It takes as
  // many of those as its host launches, if that uses them up; else one. Where the numbers differ,
  // which is left out is told later, by times and names.
  void match_between(std::uint32_t op, std::uint32_t op_end, std::uint32_t kernel,
                     std::uint32_t kernel_end) {
    for (const OpKind kind : {OpKind::gemm, OpKind::attention, OpKind::norm, OpKind::cross_entropy,
                              OpKind::optimizer, OpKind::elementwise}) {
      std::vector<std::uint32_t> ops, launches;  // the same, as often as they launch
      for (std::uint32_t i = op; i < op_end; ++i)
        if (is_of_main(i) && match_class(program_.kind[i]) == kind) {
          ops.push_back(i);
          launches.insert(launches.end(), kernels_of(program_, i), i);
        }
      Stretch stretch{std::move(launches), units_of(kind, kernel, kernel_end)};
      if (ops.size() == stretch.units.size() && stretch.ops.size() != ops.size())
        stretch.ops = std::move(ops);
      if (stretch.ops.size() != stretch.units.size()) {
        stretches_.add_uneven(std::move(stretch));
        continue;
      }
      for (std::size_t i = 0; i < stretch.ops.size(); ++i)
        stretches_.set(stretch.ops[i], stretch.units[i]);
    }
  }

  // Kernels of a class that one operator of the framework issued, by its first; a kernel without
  // one is alone. Products of a known shape are matched by it, or not at all.
  KernelUnits units_of(OpKind kind, std::uint32_t from, std::uint32_t to) const {
    KernelUnits units;
    std::map<std::int64_t, std::size_t> unit_of;
    for (std::uint32_t i = from; i < to; ++i) {
      const TracedKernel& kernel = kernels_[i];
      if (kernel.collective || match_class(kernel.kind) != kind || kernel.m > 0) continue;
      if (!is_on_main(kernel)) continue;
      const auto known = unit_of.find(kernel.issued_by);
      if (kernel.issued_by >= 0 && known != unit_of.end()) {
        units[known->second].push_back(i);
        continue;
      }
      unit_of[kernel.issued_by] = units.size();
      units.push_back({i});
    }
    return units;
  }

  // The further kernels of a product.
  void follow_products() {
    std::map<std::int64_t, std::uint32_t> op_of;
    for (std::uint32_t i = 0; i < kernels_.size(); ++i) {
      const TracedKernel& kernel = kernels_[i];
      if (kernel.m == 0 || kernel.issued_by < 0) continue;
      const auto known = op_of.find(kernel.issued_by);
      if (match_.in_a[i] != no_operator)
        op_of.emplace(kernel.issued_by, match_.in_a[i]);
      else if (known != op_of.end())
        set(known->second, i);
    }
  }

  const Program& program_;
  const std::vector<TracedKernel>& kernels_;
  TrackMatch& match_;
  StretchMatcher stretches_;
  std::int64_t main_stream_ = 0;
  bool beside_ = false;  // kernels run on other streams, too
};

const RecordedTrack* track_for(const Record& forecast, RankId rank) {
  for (const RecordedTrack& track : forecast.tracks)
    if (track.rank == rank) return &track;
  return forecast.tracks.empty() ? nullptr : &forecast.tracks.front();
}

}  // namespace

RecordMatch align(const Record& forecast, const TracedTimeline& measured) {
  RecordMatch match;
  for (std::uint32_t i = 0; i < measured.ranks.size(); ++i) {
    const TracedRank& rank = measured.ranks[i];
    const RecordedTrack* track = track_for(forecast, rank.rank);
    if (!track) continue;
    TrackMatch pair;
    pair.a = static_cast<std::uint32_t>(track - forecast.tracks.data());
    pair.b = i;
    Aligner{forecast.programs[track->program], *track, rank.kernels, pair}.run();
    for (std::size_t kernel = 0; kernel < rank.kernels.size(); ++kernel) {
      const double time = to_seconds(rank.kernels[kernel].time());
      match.measured += time;
      ++match.operators;
      if (pair.in_a[kernel] == no_operator) continue;
      match.matched += time;
      ++match.matched_operators;
    }
    match.tracks.push_back(std::move(pair));
  }
  return match;
}

}  // namespace sim
