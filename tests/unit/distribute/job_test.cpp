// A job from its input to its exit code, in one process; mpirun is in tests/e2e/distribute.
#include "sim/distribute/job.hpp"

#include <cstdlib>

#include "sim/base/input_error.hpp"
#include "tests/unit/distribute/support.hpp"

using namespace sim;
using namespace sim::test;

namespace {

// Ten units, the answer to n being 10 n; its leader asks for those that nobody knows.
struct TenUnits {
  JobKey key = sample_header().question;
  std::vector<std::string> notes{};
  std::size_t computed = 0;

  int lead(const Lead& leader) {
    for (std::uint64_t unit = 0; unit < 10; ++unit) {
      if (leader.book.find(unit)) continue;
      leader.workers.submit(unit);
      const std::optional<Answered> answered = leader.workers.next(std::chrono::seconds{60});
      REQUIRE(answered);
      CHECK(answered->answer == value(10 * unit));
      if (leader.file) leader.file->append(unit, answered->answer);
      ++computed;
    }
    if (leader.file) leader.file->finish();
    return 7;
  }
  Job job() {
    return {.load =
                [this](bool leads) {
                  CHECK(leads);
                  return key;
                },
            .work = [](std::uint64_t unit) { return value(10 * unit); },
            .read_answer = read_value,
            .lead = [this](const Lead& leader) { return lead(leader); }};
  }
  JobHost host() {
    return {.note = [this](const std::string& text) { notes.push_back(text); },
            .failure =
                [] {
                  return std::pair{3, std::string{"failed"}};
                },
            .control =
                [](bool ranks) {
                  CHECK_FALSE(ranks);
                  return Control{};
                }};
  }
};

// As torchrun would have started this process.
class Torchrun {
 public:
  explicit Torchrun(const char* rank) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "2", 1);
  }
  Torchrun(const Torchrun&) = delete;
  Torchrun& operator=(const Torchrun&) = delete;
  ~Torchrun() {
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
  }
};

}  // namespace

TEST_CASE("a job that keeps records goes on with them", "[distribute]") {
  const TemporaryFile file{"job"};
  WorkOptions options{.results = file.path, .threads = 1};
  CHECK(is_distributed(options));
  TenUnits first;
  CHECK(run_job(options, first.job(), first.host()) == 7);
  CHECK(first.computed == 10);
  CHECK(first.notes.empty());
  options.resume = true;
  TenUnits again;
  CHECK(run_job(options, again.job(), again.host()) == 7);
  CHECK(again.computed == 0);
  CHECK(again.notes == std::vector<std::string>{file.path + ": 10 answers known"});
}

TEST_CASE("records of another job are refused", "[distribute]") {
  ResultCache book;
  TenUnits units;
  CHECK(run_job_from(book, units.key, 1, units.job(), units.host()) == 7);
  JobKey other = units.key;
  other.arguments = {"--set", "search.top=4"};
  CHECK(problem_of([&] {
          run_job_from(book, other, 1, units.job(), units.host());
        }).starts_with("the records answer another question: "));
}

TEST_CASE("copies that would all do the same are refused, and one speaks for them",
          "[distribute]") {
  TenUnits units;
  ResultCache book;
  {
    const Torchrun first{"0"};
    CHECK(is_distributed({}));
    CHECK(run_job({}, units.job(), units.host()) == 3);
    CHECK(units.notes == std::vector<std::string>{"failed"});
    CHECK_THROWS_WITH(run_job_from(book, units.key, 1, units.job(), units.host()),
                      "torchrun (RANK, WORLD_SIZE) has started 2 copies of this program; one is "
                      "enough to merge");
  }
  const Torchrun second{"1"};
  CHECK(run_job({}, units.job(), units.host()) == 3);
  CHECK(units.notes.size() == 1);
  CHECK_THROWS_WITH(run_job_from(book, units.key, 1, units.job(), units.host()), "");
  CHECK(units.computed == 0);
}

TEST_CASE("a part says what is done and what comes next", "[distribute]") {
  const TemporaryFile path{"part"};
  ResultCache book;
  const RecordFile file{path.path, sample_header(), false, read_value, book};
  CHECK(part_text({.results = "r"}, file, 3, false) ==
        "stopped; what was computed is in " + path.path + ": go on with --resume");
  CHECK(part_text({.results = "r", .is_part = true, .shard = {1, 4}}, file, 3, true) ==
        "part 1/4 is done: 3 computed, in " + path.path +
            "; when all are: stepcast merge r.*-of-4");
}
