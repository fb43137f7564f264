#include <algorithm>
#include <cmath>
#include <numeric>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/measure.hpp"
#include "sim/base/check.hpp"
#include "sim/base/dtype.hpp"

namespace real {
namespace {

constexpr std::int64_t smallest_size = 256;  // bytes; below it only latency is left
constexpr std::int64_t largest_without_plans = 16LL << 20;
constexpr int fewest_samples = 7;
constexpr int fewest_dear_samples = 3;  // where seven take several times their share
constexpr double dear = 3;
constexpr int most_samples = 60;
// Own sizes of a plan per shape, in steps: between them the curve is smooth.
constexpr std::size_t most_own_sizes = 16;
constexpr double own_step = 1.5;

std::int64_t rounded(std::int64_t bytes, int ranks, sim::DType dtype) {
  const std::int64_t unit = std::int64_t{ranks} * sim::bytes_of(dtype);
  return std::max(unit, bytes / unit * unit);
}

CollectiveSizes& entry(std::vector<CollectiveSizes>& all, const CollectiveShape& shape,
                       sim::DType dtype) {
  const auto known = std::find_if(
      all.begin(), all.end(), [&](const CollectiveSizes& other) { return other.shape == shape; });
  if (known != all.end()) return *known;
  all.push_back({.shape = shape, .dtype = dtype});
  return all.back();
}

void add_program(const sim::Plan& plan, sim::RankId rank, sim::DType dtype,
                 std::vector<CollectiveSizes>& all) {
  const sim::Program& program = plan.program(rank);
  for (const sim::Collective& collective : program.collectives) {
    const std::uint32_t group =
        plan.group_of[rank.value][static_cast<std::size_t>(collective.group)];
    if (group == sim::Plan::no_group) continue;
    const auto ranks = static_cast<int>(plan.groups[group].ranks.size());
    if (ranks < 2) continue;
    entry(all, {.kind = collective.kind, .ranks = ranks}, dtype)
        .sizes.push_back(collective.bytes.count());
  }
  for (const sim::Transfer& transfer : program.transfers)
    entry(all, {.message = true, .ranks = 2}, dtype).sizes.push_back(transfer.bytes.count());
}

constexpr std::int64_t grid_factor = 4;

// Powers of four up to twice the largest, and the largest of what was asked for.
void complete(CollectiveSizes& wanted) {
  std::vector<std::int64_t>& sizes = wanted.sizes;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const std::int64_t largest = sizes.empty() ? largest_without_plans : sizes.back();
  for (std::size_t i = sizes.size(); i > 1; --i)  // from the largest down
    if (static_cast<double>(sizes[i - 2]) * own_step > static_cast<double>(sizes[i - 1]))
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(i - 2));
  if (sizes.size() > most_own_sizes)
    sizes.erase(sizes.begin(), sizes.end() - static_cast<std::ptrdiff_t>(most_own_sizes));
  for (std::int64_t size = smallest_size; size < 4 * largest; size *= 4)
    sizes.push_back(std::min(size, 2 * largest));
  for (std::int64_t& size : sizes)
    size = rounded(size, wanted.shape.ranks, wanted.dtype);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  wanted.largest = sizes.back();
}

// As curves name them (sim/collective/algorithms.hpp); nothing for the library's own choice.
std::string algorithm_word(AlgorithmChoice choice) {
  if (choice == AlgorithmChoice::ring) return "ring";
  return choice == AlgorithmChoice::tree ? "tree" : "";
}

// This rank's group among those of consecutive ranks; none for ranks that are left over.
std::vector<int> group_of(int rank, int ranks, int size) {
  const int first = rank / size * size;
  if (first + size > ranks) return {};
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), first);
  return members;
}

// From the arrival of the last member to the end of the last, of the slowest group.
double group_time(const std::vector<std::vector<double>>& intervals, int size) {
  double slowest = 0;
  const auto ranks = static_cast<int>(intervals.size());
  for (int first = 0; first + size <= ranks; first += size) {
    double begin = intervals[static_cast<std::size_t>(first)][0], end = 0;
    for (int i = first; i < first + size; ++i) {
      begin = std::max(begin, intervals[static_cast<std::size_t>(i)][0]);
      end = std::max(end, intervals[static_cast<std::size_t>(i)][1]);
    }
    slowest = std::max(slowest, end - begin);
  }
  return slowest;
}

class CollectiveTimer {
 public:
  CollectiveTimer(Bench& bench, Transport& transport, const PartRequest& request)
      : bench_{bench}, transport_{transport}, request_{request} {}

  // Seconds of one call, at rank 0.
  double time(const CollectiveSizes& wanted, std::int64_t bytes, double seconds, int& samples) {
    const CollectiveCase call{
        .kind = wanted.shape.kind,
        .message = wanted.shape.message,
        .algorithm = wanted.shape.algorithm,
        .dtype = wanted.dtype,
        .bytes = bytes,
        .members = group_of(transport_.rank(), transport_.size(), wanted.shape.ranks)};
    sample(call, wanted.shape.ranks);  // connections, buffers
    const double pilot = sample(call, wanted.shape.ranks);
    const double of_sample = std::max(pilot, 1e-7) * bench_.calls_per_sample(bytes);
    const double fitting = std::floor(seconds / of_sample);
    const int fewest =
        of_sample * fewest_samples > dear * seconds ? fewest_dear_samples : fewest_samples;
    samples =
        static_cast<int>(agree(transport_, std::clamp<double>(fitting, fewest, most_samples)));
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(samples));
    for (int i = 0; i < samples; ++i)
      times.push_back(sample(call, wanted.shape.ranks));
    if (request_.drift == nullptr) return typical(times, request_.typical);
    request_.drift->mark();
    return typical(times, request_.typical) * request_.drift->scale(ReferenceKind::copy);
  }

 private:
  double sample(const CollectiveCase& call, int size) {
    barrier(transport_);
    const int repeats = bench_.calls_per_sample(call.bytes);
    Interval interval;
    if (!call.members.empty()) interval = bench_.run(call, repeats);
    const std::vector<double> both{interval.begin, interval.end};
    const std::vector<std::vector<double>> all = gather(transport_, both);
    return all.empty() ? 0 : group_time(all, size) / repeats;
  }

  Bench& bench_;
  Transport& transport_;
  const PartRequest& request_;
};

}  // namespace

void add_algorithms(std::vector<CollectiveSizes>& all) {
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i].shape.message || all[i].shape.kind != sim::CollectiveKind::all_reduce ||
        all[i].shape.ranks < 3)
      continue;
    for (const AlgorithmChoice choice : {AlgorithmChoice::ring, AlgorithmChoice::tree}) {
      CollectiveSizes apart = all[i];
      apart.shape.algorithm = choice;
      apart.sizes.clear();
      for (std::int64_t size = smallest_size; size < grid_factor * apart.largest;
           size *= grid_factor)
        apart.sizes.push_back(
            rounded(std::min(size, apart.largest), apart.shape.ranks, apart.dtype));
      all.push_back(std::move(apart));
    }
  }
}

std::vector<CollectiveSizes> collective_sizes(const std::vector<const sim::Plan*>& plans, int ranks,
                                              sim::DType dtype) {
  std::vector<CollectiveSizes> all;
  for (const sim::Plan* plan : plans)
    for (int rank = 0; rank < plan->world_size(); ++rank)
      add_program(*plan, sim::RankId{static_cast<std::uint32_t>(rank)}, dtype, all);
  std::erase_if(all, [&](const CollectiveSizes& one) { return one.shape.ranks > ranks; });
  if (plans.empty() && ranks > 1) {
    for (const sim::CollectiveKind kind :
         {sim::CollectiveKind::all_reduce, sim::CollectiveKind::reduce_scatter,
          sim::CollectiveKind::all_gather})
      entry(all, {.kind = kind, .ranks = ranks}, dtype);
    entry(all, {.message = true, .ranks = 2}, dtype);
  }
  for (CollectiveSizes& wanted : all)
    complete(wanted);
  return all;
}

std::vector<sim::MeasuredCollective> measure_collectives(Bench& bench, Transport& transport,
                                                         const std::vector<CollectiveSizes>& wanted,
                                                         const PartRequest& request,
                                                         const std::string& source) {
  std::size_t count = 0;
  for (const CollectiveSizes& one : wanted)
    count += one.sizes.size();
  CollectiveTimer timer{bench, transport, request};
  std::vector<sim::MeasuredCollective> measured;
  for (const CollectiveSizes& one : wanted) {
    for (const std::int64_t bytes : one.sizes) {
      if (request.stop_wanted()) return measured;
      int samples = 0;
      const double seconds =
          timer.time(one, bytes, request.seconds / static_cast<double>(count), samples);
      if (transport.rank() != 0) continue;
      measured.push_back({.collective = one.shape.message ? "send_receive"
                                                          : std::string{sim::word(one.shape.kind)},
                          .ranks = one.shape.ranks,
                          .bytes = sim::Bytes{bytes},
                          .time = sim::duration_from_seconds(seconds),
                          .algorithm = algorithm_word(one.shape.algorithm),
                          .samples = samples,
                          .source = source});
    }
  }
  return measured;
}

}  // namespace real
