// The log of collectives on spans made by hand: what is ready, hidden and exposed; the fit of its
// model; and that of a plan's own step.
#include "sim/timeline/collective_log.hpp"

#include "tests/catch.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

TimePoint at(int us) {
  return TimePoint{std::chrono::microseconds{us}};
}

// Two ranks, of which rank 0 runs what is added.
class Day {
 public:
  Day() {
    Program program;
    program.collectives = {
        {.kind = CollectiveKind::all_reduce, .group = GroupRole::data, .bytes = Bytes{4000}},
        {.kind = CollectiveKind::all_gather, .group = GroupRole::data, .bytes = Bytes{8000}}};
    program.names = {"kernel", "reduce", "gather"};
    program.buffers.resize(3);
    program.first_dependency = {0};
    program.first_buffer_use = {0};
    plan.programs.push_back(std::move(program));
    plan.program_of_rank = {0, 0};
    plan.groups.push_back({.ranks = {RankId{0}, RankId{1}}});
    std::array<std::uint32_t, group_role_count> groups{};
    groups.fill(Plan::no_group);
    groups[static_cast<std::size_t>(GroupRole::data)] = 0;
    plan.group_of = {groups, groups};
    track.rank = RankId{0};
  }
  Program& program() { return plan.programs.front(); }
  Day& kernel(int begin, int end, std::uint32_t writes) {
    return add(OpKind::gemm, Action::weight_gradient, 0, {begin, begin, end},
               {{BufferId{writes}, Access::write, Role::weight_gradient}});
  }
  Day& reduce(std::array<int, 3> times, std::uint32_t buffer) {
    return add(OpKind::collective, Action::reduce, 0, times,
               {{BufferId{buffer}, Access::write, Role::output}});
  }
  Day& gather(std::array<int, 3> times, std::uint32_t buffer) {
    return add(OpKind::collective, Action::gather_weights, 1, times,
               {{BufferId{buffer}, Access::write, Role::output}});
  }
  Day& add(OpKind kind, Action action, std::uint32_t work, std::array<int, 3> times,
           const std::vector<BufferUse>& uses) {
    Program& to = program();
    const auto op = static_cast<std::uint32_t>(to.size());
    track.spans.push_back({OpId{op}, at(times[0]), at(times[1]), at(times[2])});
    to.kind.push_back(kind);
    to.action.push_back(action);
    to.stream.push_back(kind == OpKind::collective ? Stream::data_comm : Stream::compute);
    to.pass.push_back(Pass::backward);
    to.work.push_back(work);
    to.subject.push_back(7);
    const std::uint32_t name = kind == OpKind::gemm ? 0 : action == Action::reduce ? 1 : 2;
    to.label.push_back({.name = name});
    to.first_dependency.push_back(static_cast<std::uint32_t>(to.dependency.size()));
    to.buffer_use.insert(to.buffer_use.end(), uses.begin(), uses.end());
    to.first_buffer_use.push_back(static_cast<std::uint32_t>(to.buffer_use.size()));
    return *this;
  }
  std::vector<CollectiveEntry> log() const { return log_collectives(plan, track); }

  Plan plan;
  RankTrack track;
};

CollectiveEntry alone(CollectiveKind kind, int ranks, std::int64_t bytes, Duration time) {
  CollectiveEntry entry;
  entry.kind = kind;
  entry.bytes = Bytes{bytes};
  entry.ranks = ranks;
  entry.done = entry.active + time;
  return entry;
}

}  // namespace

TEST_CASE("a bucket is ready with its last gradient, and hidden where kernels run", "[timeline]") {
  Day day;
  day.kernel(0, 10, 0).kernel(10, 20, 0).kernel(20, 35, 1);
  day.reduce({22, 24, 40}, 0);
  const std::vector<CollectiveEntry> log = day.log();
  REQUIRE(log.size() == 1);
  const CollectiveEntry& entry = log.front();
  CHECK(entry.name == "reduce");
  CHECK(entry.bucket == 7U);
  CHECK(entry.ranks == 2);
  CHECK(entry.bytes == Bytes{4000});
  CHECK(entry.ready == at(20));
  CHECK(entry.launched == at(22));
  CHECK(entry.active == at(24));
  CHECK(entry.done == at(40));
  CHECK(entry.hidden == 13us);
  CHECK(entry.exposed() == 5us);
}

TEST_CASE("weights that are gathered were there from the start", "[timeline]") {
  Day day;
  day.gather({0, 1, 5}, 2).kernel(5, 9, 0).gather({9, 9, 12}, 2).reduce({12, 12, 20}, 0);
  const std::vector<CollectiveEntry> log = day.log();
  REQUIRE(log.size() == 3);
  CHECK(log[0].ready == at(0));
  CHECK(log[1].ready == at(0));
  CHECK(log[2].ready == at(9));
  CHECK(log[2].hidden == 0us);
  CHECK(log[2].exposed() == 8us);
}

TEST_CASE("without buffers it is what the operator waits for", "[timeline]") {
  Day day;
  day.kernel(0, 10, 0);
  day.add(OpKind::collective, Action::sum_gradient_norm, 0, {11, 12, 13}, {});
  Program& program = day.program();
  program.dependency = {OpId{0}};
  program.first_dependency.back() = 1;
  const std::vector<CollectiveEntry> log = day.log();
  REQUIRE(log.size() == 1);
  CHECK(log[0].ready == at(10));
  CHECK(!log[0].bucket);
}

TEST_CASE("the fit finds the alpha and the beta that made the times", "[timeline]") {
  // 3 us and 2 GB/s: an all-reduce on 4 ranks is 6 messages of a quarter, a gather 3.
  std::vector<CollectiveEntry> entries{
      alone(CollectiveKind::all_reduce, 4, 8'000'000, 18us + 6000us),
      alone(CollectiveKind::all_gather, 4, 8'000'000, 9us + 3000us),
      alone(CollectiveKind::reduce_scatter, 2, 4, 3us + 1ns),
      alone(CollectiveKind::barrier, 2, 4, 1s)};
  // Kernels ran beside this one: its time says nothing.
  entries.push_back(alone(CollectiveKind::all_reduce, 2, 4000, 1s));
  entries.back().hidden = 1ms;
  const std::optional<AlphaBeta> fit = fit_alpha_beta(entries);
  REQUIRE(fit);
  CHECK(fit->collectives == 3);
  CHECK_THAT(to_seconds(fit->alpha), WithinRel(3e-6, 1e-6));
  CHECK_THAT(fit->beta.in_bytes_per_second(), WithinRel(2e9, 1e-6));
  CHECK_THAT(to_seconds(time_of(*fit, entries[0]).value()), WithinRel(6018e-6, 1e-6));
  CHECK(!time_of(*fit, entries[3]));
}

TEST_CASE("there is no fit to one size, nor to times that do not grow", "[timeline]") {
  const auto kind = CollectiveKind::all_reduce;
  CHECK(!fit_alpha_beta({}));
  CHECK(!fit_alpha_beta(std::vector{alone(kind, 2, 100, 1us), alone(kind, 2, 100, 2us)}));
  // A message that takes longer than a larger one: alpha is not below 0.
  const auto fit =
      fit_alpha_beta(std::vector{alone(kind, 2, 1000, 1us), alone(kind, 2, 2000, 5us)});
  REQUIRE(fit);
  CHECK(fit->alpha == 0us);
}

TEST_CASE("the text has a line for each collective, the sums and the fit", "[timeline]") {
  Day day;
  day.kernel(0, 10, 0).kernel(10, 20, 1).reduce({10, 10, 30}, 0).gather({30, 30, 31}, 2);
  const std::vector<CollectiveEntry> log = day.log();
  const std::string text = collective_log_text(
      log, AlphaBeta{2us, Bandwidth::bytes_per_second(1e9), 9}, std::vector<Duration>{7ms, 8ms});
  CHECK(text ==
        "collective, times in ms    bucket       size     ready  launched       met      done    "
        "hidden   exposed       fit  forecast\n"
        "reduce                          7   0.00 MiB      0.01      0.01      0.01      0.03      "
        "0.01      0.01      0.01      7.00\n"
        "gather                          7   0.01 MiB      0.00      0.03      0.03      0.03      "
        "0.00      0.00      0.01      8.00\n"
        "2 collectives, 0.01 MiB; under way 0.02 ms: 48 % hidden, 52 % exposed\n"
        "fit (alpha-beta): alpha 2.0 us a message, beta 1.00 GB/s; least squares over 9 "
        "collectives of this step\n");
  CHECK(collective_log_text({}, std::nullopt) == "no collectives\n");
}
