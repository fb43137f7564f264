// Every collective against a serial reference, on both transports, and the bytes that it sends
// against its closed form. Sums of small integers are exact in fp32 whatever their order, so those
// results compare equal; other tests look at the order itself.
#include "real/net/collectives.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_net/worlds.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using Kind = sim::CollectiveKind;
using Algorithm = CollectiveAlgorithm;

namespace {

using Floats = std::vector<float>;

struct Case {
  Kind kind = Kind::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  Reduction reduction = Reduction::sum;
  int ranks = 2;
  int per_node = 0;
  int root = 0;
  std::int64_t elements = 0;  // of the whole buffer
  bool in_place = false;
};

std::span<const std::byte> bytes(const Floats& data) {
  return std::as_bytes(std::span{data});
}
std::span<std::byte> bytes(Floats& data) {
  return std::as_writable_bytes(std::span{data});
}

std::uint64_t finish(Transport& transport, const CollectiveCall& call) {
  const auto run = start_collective(transport, call);
  while (!run->progress())
    transport.idle();
  return run->bytes_sent();
}

// operand() is what rank `rank` puts in: integers of 9 bits, so that sums of 17 are exact.
Floats operand(const Case& c, int rank) {
  const bool is_part = c.kind == Kind::all_gather;
  Floats data(static_cast<std::size_t>(is_part ? c.elements / c.ranks : c.elements));
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank) * 77) % 512) - 200;
  return data;
}

Floats reduced(const Case& c) {
  Floats result = operand(c, 0);
  for (int rank = 1; rank < c.ranks; ++rank) {
    const Floats next = operand(c, rank);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] =
          c.reduction == Reduction::maximum ? std::max(result[i], next[i]) : result[i] + next[i];
  }
  if (c.reduction == Reduction::average)
    for (float& sum : result)
      sum /= static_cast<float>(c.ranks);
  return result;
}

Floats expected(const Case& c, int rank) {
  const auto part = static_cast<std::size_t>(c.elements / c.ranks);
  const auto own = static_cast<std::size_t>(rank);
  Floats result;
  if (c.kind == Kind::all_reduce || (c.kind == Kind::reduce && rank == c.root)) {
    result = reduced(c);
  } else if (c.kind == Kind::reduce_scatter) {
    const Floats all = reduced(c);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(own * part);
    result.assign(first, first + static_cast<std::ptrdiff_t>(part));
  } else if (c.kind == Kind::broadcast) {
    result = operand(c, c.root);
  } else if (c.kind == Kind::all_gather) {
    for (int from = 0; from < c.ranks; ++from) {
      const Floats piece = operand(c, from);
      result.insert(result.end(), piece.begin(), piece.end());
    }
  } else if (c.kind == Kind::ring_shift) {
    result = operand(c, (rank + c.ranks - 1) % c.ranks);
  } else if (c.kind == Kind::all_to_all) {
    for (int from = 0; from < c.ranks; ++from) {
      const Floats data = operand(c, from);
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(own * part);
      result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(part));
    }
  }
  return result;
}

struct Outcome {
  std::vector<Floats> results;
  std::vector<std::uint64_t> sent;
};

void run_rank(const Case& c, Transport& transport, std::span<const int> members, Outcome& out) {
  const auto rank = static_cast<std::size_t>(transport.rank());
  Floats input = operand(c, transport.rank());
  Floats& output = out.results[rank];
  output.assign(expected(c, transport.rank()).size(), -1);
  CollectiveCall call{.kind = c.kind,
                      .algorithm = c.algorithm,
                      .reduction = c.reduction,
                      .members = members,
                      .members_per_node = c.per_node,
                      .root = c.root,
                      .channel = 5,
                      .input = bytes(std::as_const(input)),
                      .output = bytes(output)};
  const std::size_t part = input.size() / static_cast<std::size_t>(c.ranks);
  if (c.in_place && c.kind == Kind::reduce_scatter) {
    call.output = bytes(input).subspan(rank * part * 4, part * 4);
  } else if (c.in_place && c.kind == Kind::all_gather) {
    std::copy(input.begin(), input.end(),
              output.begin() + static_cast<std::ptrdiff_t>(rank * input.size()));
    call.input = {};
  } else if (c.in_place && !output.empty()) {
    output = input;
    call.input = rank % 2 == 0 ? std::span<const std::byte>{} : bytes(std::as_const(output));
  }
  if (c.kind == Kind::barrier) call.input = {};
  out.sent[rank] = finish(transport, call);
  if (c.in_place && c.kind == Kind::reduce_scatter)
    output.assign(input.begin() + static_cast<std::ptrdiff_t>(rank * part),
                  input.begin() + static_cast<std::ptrdiff_t>((rank + 1) * part));
}

Outcome run_case(WorldKind kind, const Case& c) {
  Outcome out{std::vector<Floats>(static_cast<std::size_t>(c.ranks)),
              std::vector<std::uint64_t>(static_cast<std::size_t>(c.ranks))};
  std::vector<int> members(static_cast<std::size_t>(c.ranks));
  std::iota(members.begin(), members.end(), 0);
  on_world(kind, c.ranks, [&](Transport& transport) { run_rank(c, transport, members, out); });
  return out;
}

std::string text(const Case& c) {
  return std::string{sim::word(c.kind)} + " algorithm " +
         std::to_string(static_cast<int>(c.algorithm)) + " reduction " +
         std::to_string(static_cast<int>(c.reduction)) + " ranks " + std::to_string(c.ranks) +
         " per node " + std::to_string(c.per_node) + " root " + std::to_string(c.root) +
         " elements " + std::to_string(c.elements) + (c.in_place ? " in place" : "");
}

// Bytes that all ranks send together. An all-reduce of any kind here: each of the p - 1 other
// operands has to move once and each of the p - 1 other ranks gets the result once, and none of the
// algorithms moves more: 2 (p-1) n. A scatter, a gather, a broadcast, a reduction: half of that.
std::uint64_t total_bytes(const Case& c) {
  const auto others = static_cast<std::uint64_t>(c.ranks - 1);
  const auto n = static_cast<std::uint64_t>(c.elements) * 4;
  switch (c.kind) {
    case Kind::all_reduce:
      return 2 * others * n;
    case Kind::barrier:
      return 2 * others * 4;
    case Kind::ring_shift:
      return static_cast<std::uint64_t>(c.ranks) * n;
    default:
      return others * n;
  }
}

void check(WorldKind kind, const Case& c) {
  CAPTURE(text(c), kind == WorldKind::tcp);
  const Outcome out = run_case(kind, c);
  for (int rank = 0; rank < c.ranks; ++rank) {
    CAPTURE(rank);
    const bool equal = out.results[static_cast<std::size_t>(rank)] == expected(c, rank);
    REQUIRE(equal);
  }
  REQUIRE(std::accumulate(out.sent.begin(), out.sent.end(), std::uint64_t{0}) == total_bytes(c));
}

std::vector<Algorithm> algorithms_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling,
              Algorithm::hierarchical};
    case Kind::broadcast:
    case Kind::reduce:
      return {Algorithm::ring, Algorithm::tree};
    case Kind::barrier:
      return {Algorithm::tree};
    default:
      return {Algorithm::ring};
  }
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_{seed} {}
  double uniform() { return sim::uniform(seed_, 0, index_++); }

 private:
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

int pick(Random& random, int first, int last) {
  return first + static_cast<int>(random.uniform() * (last - first + 1));
}

Case random_case(Random& random) {
  Case c;
  constexpr std::array kinds{Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather,
                             Kind::broadcast,  Kind::reduce,         Kind::all_to_all,
                             Kind::barrier,    Kind::ring_shift};
  c.kind = kinds[static_cast<std::size_t>(pick(random, 0, 7))];
  const std::vector<Algorithm> algorithms = algorithms_of(c.kind);
  c.algorithm = algorithms[static_cast<std::size_t>(
      pick(random, 0, static_cast<int>(algorithms.size()) - 1))];
  c.reduction = static_cast<Reduction>(pick(random, 0, 2));
  c.ranks = pick(random, 1, 17);
  std::vector<int> divisors;
  for (int d = 1; d <= c.ranks; ++d)
    if (c.ranks % d == 0) divisors.push_back(d);
  c.per_node =
      divisors[static_cast<std::size_t>(pick(random, 0, static_cast<int>(divisors.size()) - 1))];
  c.root = pick(random, 0, c.ranks - 1);
  constexpr std::array sizes{0, 1, 3, 20, 1000, 70'000, 400'000};
  c.elements = sizes[static_cast<std::size_t>(pick(random, 0, 6))] + pick(random, 0, 5);
  const bool equal_parts =
      c.kind == Kind::reduce_scatter || c.kind == Kind::all_gather || c.kind == Kind::all_to_all;
  if (equal_parts) c.elements = c.elements / c.ranks * c.ranks;
  if (c.kind == Kind::barrier) c.elements = 0;
  c.in_place = c.kind != Kind::all_to_all && c.kind != Kind::ring_shift && pick(random, 0, 1) == 1;
  // A shift to oneself is no message.
  if (c.kind == Kind::ring_shift) c.ranks = std::max(2, c.ranks), c.per_node = 1;
  c.root = std::min(c.root, c.ranks - 1);
  return c;
}

}  // namespace

TEST_CASE("random collectives equal a serial reference, over threads", "[net]") {
  Random random{20261};
  for (int i = 0; i < 150; ++i)
    check(WorldKind::local, random_case(random));
}

TEST_CASE("random collectives equal a serial reference, over TCP", "[net]") {
  Random random{20262};
  for (int i = 0; i < 60; ++i)
    check(WorldKind::tcp, random_case(random));
}

TEST_CASE("messages of many slices arrive whole", "[net]") {
  for (const Algorithm algorithm : algorithms_of(Kind::all_reduce))
    for (const WorldKind kind : {WorldKind::local, WorldKind::tcp})
      check(kind, {.algorithm = algorithm, .ranks = 4, .per_node = 2, .elements = 1'000'003});
}

TEST_CASE("each rank sends what the closed form of its algorithm says", "[net]") {
  // n divisible by all parts: ring and halving-doubling 2 (p-1)/p n, scatter and gather half of it,
  // hierarchical 2 (g-1)/g n + 2 (N-1)/N n/g, which with p = N g is 2 (p-1)/p n again.
  const std::int64_t elements = 16 * 100;
  const std::uint64_t n = elements * 4;
  for (const int p : {2, 4, 8, 16}) {
    const auto ranks = static_cast<std::uint64_t>(p);
    const auto sent = [&](Kind kind, Algorithm algorithm) {
      return run_case(WorldKind::local, {.kind = kind,
                                         .algorithm = algorithm,
                                         .ranks = p,
                                         .per_node = 2,
                                         .elements = elements})
          .sent;
    };
    const std::vector<std::uint64_t> all_reduce(ranks, 2 * (ranks - 1) * n / ranks);
    const std::vector<std::uint64_t> half(ranks, (ranks - 1) * n / ranks);
    CAPTURE(p);
    REQUIRE(sent(Kind::all_reduce, Algorithm::ring) == all_reduce);
    REQUIRE(sent(Kind::all_reduce, Algorithm::halving_doubling) == all_reduce);
    REQUIRE(sent(Kind::all_reduce, Algorithm::hierarchical) == all_reduce);
    REQUIRE(sent(Kind::reduce_scatter, Algorithm::ring) == half);
    REQUIRE(sent(Kind::all_gather, Algorithm::ring) == half);
    REQUIRE(sent(Kind::all_to_all, Algorithm::ring) == half);
  }
}

TEST_CASE("a flat double tree sends half of the data over each tree edge", "[net]") {
  // Four ranks. First tree: 0 - 2, 2 - 1, 2 - 3, root 0; the second is its mirror image: 3 - 1,
  // 1 - 2, 1 - 0, root 3. An edge carries n/2 in each direction, so a rank sends n/2 per edge:
  // rank 0 has 1 + 1 edges, rank 1 has 1 + 3, rank 2 has 3 + 1, rank 3 has 1 + 1.
  const Outcome out =
      run_case(WorldKind::local, {.algorithm = Algorithm::tree, .ranks = 4, .elements = 1000});
  REQUIRE(out.sent == std::vector<std::uint64_t>{4000, 8000, 8000, 4000});
}

TEST_CASE("a reduction gives the same bits on every rank and in every run", "[net]") {
  const std::int64_t elements = 3001;
  for (const Algorithm algorithm : algorithms_of(Kind::all_reduce)) {
    for (const int p : {3, 6, 8}) {
      CAPTURE(static_cast<int>(algorithm), p);
      std::vector<Floats> first;
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<Floats> results(static_cast<std::size_t>(p));
        std::vector<int> members(static_cast<std::size_t>(p));
        std::iota(members.begin(), members.end(), 0);
        on_world(WorldKind::local, p, [&](Transport& transport) {
          Random random{static_cast<std::uint64_t>(transport.rank()) + 9};
          Floats& data = results[static_cast<std::size_t>(transport.rank())];
          for (std::int64_t i = 0; i < elements; ++i)
            data.push_back(static_cast<float>(random.uniform() * 2 - 1));
          finish(transport, {.algorithm = algorithm,
                             .reduction = Reduction::average,
                             .members = members,
                             .members_per_node = p % 2 == 0 ? 2 : 1,
                             .output = bytes(data)});
        });
        for (const Floats& result : results)
          REQUIRE(std::memcmp(result.data(), results[0].data(), result.size() * 4) == 0);
        if (repeat == 0) first = results;
        REQUIRE(std::memcmp(first[0].data(), results[0].data(), first[0].size() * 4) == 0);
      }
    }
  }
}

TEST_CASE("a maximum does not hide a number that is not finite", "[net]") {
  std::vector<int> members{0, 1, 2};
  for (int holder = 0; holder < 3; ++holder)
    on_world(WorldKind::local, 3, [&](Transport& transport) {
      Floats data{1, static_cast<float>(transport.rank())};
      if (transport.rank() == holder) data[0] = std::nanf("");
      finish(transport,
             {.reduction = Reduction::maximum, .members = members, .output = bytes(data)});
      if (!std::isnan(data[0]) || data[1] != 2) throw std::runtime_error{"wrong"};
    });
}

TEST_CASE("collectives of several communicators and channels run side by side", "[net]") {
  // A grid of 2 x 3: every rank has a row of 3 and a column of 2, and keeps a collective of each
  // and one of the world under way at once, polled in an order of its own.
  for (const WorldKind kind : {WorldKind::local, WorldKind::tcp})
    on_world(kind, 6, [&](Transport& transport) {
      const int rank = transport.rank();
      const std::vector<int> row{rank / 3 * 3, rank / 3 * 3 + 1, rank / 3 * 3 + 2};
      const std::vector<int> column{rank % 3, rank % 3 + 3};
      const std::vector<int> world{0, 1, 2, 3, 4, 5};
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::array<Floats, 3> data;
        for (Floats& one : data)
          one.assign(90'000, static_cast<float>(rank));
        std::vector<std::unique_ptr<CollectiveRun>> runs;
        const std::array groups{std::span<const int>{row}, std::span<const int>{column},
                                std::span<const int>{world}};
        for (std::uint32_t i = 0; i < 3; ++i) {
          // Half of the ranks start them the other way round.
          const std::uint32_t g = rank % 2 == 0 ? i : 2 - i;
          runs.push_back(
              start_collective(transport, {.algorithm = g == 2 ? Algorithm::tree : Algorithm::ring,
                                           .members = groups[g],
                                           .channel = g,
                                           .output = bytes(data[g])}));
        }
        while (!runs.empty()) {
          std::erase_if(runs, [](const auto& run) { return run->progress(); });
          transport.idle();
        }
        const std::array sums{static_cast<float>(row[0] + row[1] + row[2]),
                              static_cast<float>(column[0] + column[1]), 15.0F};
        for (std::size_t g = 0; g < 3; ++g)
          for (const float value : data[g])
            if (value != sums[g]) throw std::runtime_error{"wrong sum"};
      }
    });
}

TEST_CASE("a collective that is given up withdraws its messages", "[net]") {
  // Rank 1 never takes part; rank 0's memory must not be touched once its run is gone.
  const auto world = make_local_world(2);
  const std::vector<int> members{0, 1};
  Floats data(1000, 1);
  auto run = start_collective(*world[0], {.members = members, .output = bytes(data)});
  REQUIRE_FALSE(run->progress());
  run.reset();
  const Floats other(500, 2);
  const Ticket ticket = world[1]->start_send(0, 0, bytes(other));
  REQUIRE_FALSE(world[1]->done(ticket));
  REQUIRE(data == Floats(1000, 1));
}
