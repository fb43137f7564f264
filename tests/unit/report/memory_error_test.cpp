// The figures of the memory forecast's error, as the file has them.
#include "sim/report/memory_error.hpp"

#include <algorithm>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

struct File {
  std::string path = test::temporary_path("memory_error").string();
  explicit File(const std::string& text) { std::ofstream{path} << text; }
  ~File() { std::remove(path.c_str()); }
};

const std::string sound =
    "source: a command\n"
    "errors:\n"
    "  - {error: 0.05, rows: 200, measured: 100}\n"
    "  - {framework: megatron, error: 0.03, rows: 100, measured: 100}\n"
    "  - {framework: megatron, schedule: zb-h1, error: 0.04, rows: 30, measured: 30}\n"
    "  - {without: some_set, error: 0.02, rows: 150, measured: 50}\n";

std::vector<std::string> problems(const std::string& text) {
  const File file{text};
  try {
    static_cast<void>(MemoryErrors::load(file.path));
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

}  // namespace

TEST_CASE("the error is of the schedule, else of the framework, else of all", "[report]") {
  const File file{sound};
  const MemoryErrors errors = MemoryErrors::load(file.path);
  const MemoryError& own = errors.of(FrameworkName::megatron, Schedule::zb_h1);
  CHECK(own.fraction == 0.04);
  CHECK(own.rows == 30);
  CHECK(own.of == "megatron zb-h1");
  CHECK(errors.of(FrameworkName::megatron, Schedule::gpipe).of == "megatron");
  CHECK(errors.of(FrameworkName::pytorch, Schedule::zb_h1).fraction == 0.05);
  CHECK(errors.of(FrameworkName::pytorch, Schedule::zb_h1).of == "all frameworks");
}

TEST_CASE("a job of a kind that no measured run has is as sure as the worst group", "[report]") {
  const std::string shares = ", excess: [-0.2, -0.1, 0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06]}\n";
  const File file{
      "source: a command\nerrors:\n"
      "  - {error: 0.04, rows: 200, measured: 100" +
      shares +
      "  - {framework: megatron, error: 0.03, rows: 100, measured: 100, "
      "excess: [-0.01, -0.01, 0, 0.01, 0.01, 0.02, 0.03, 0.03, 0.03]}\n"
      "  - {framework: scaling, error: 0.3, rows: 30, measured: 0, "
      "excess: [0, 0, 0, 0, 0, 0.1, 0.3, 0.4, 0.5]}\n"
      "  - {without: some_set, error: 0.9, rows: 150, measured: 50}\n"
      "kinds: [framework megatron, experts under megatron]\n"};
  const MemoryErrors errors = MemoryErrors::load(file.path);
  const auto of = [&](const std::vector<std::string>& kinds) {
    return errors.of(FrameworkName::megatron, Schedule::one_f_one_b, kinds);
  };
  CHECK(of({"framework megatron", "experts under megatron"}).fraction == 0.03);
  CHECK(of({"framework megatron"}).unlike.empty());
  const MemoryError unlike = of({"framework megatron", "optimizer on the host"});
  CHECK(unlike.unlike == std::vector<std::string>{"optimizer on the host"});
  CHECK(unlike.fraction == 0.3);
  CHECK(unlike.excess.front() == -0.2);
  CHECK(unlike.excess.back() == 0.5);
  CHECK(std::is_sorted(unlike.excess.begin(), unlike.excess.end()));
  // A file without kinds says nothing of them.
  const File bare{sound};
  CHECK(MemoryErrors::load(bare.path)
            .of(FrameworkName::megatron, Schedule::zb_h1, {"optimizer on the host"})
            .unlike.empty());
}

TEST_CASE("for the rows of a set the error is that of all other sets", "[report]") {
  const File file{sound};
  const MemoryErrors errors = MemoryErrors::load(file.path);
  CHECK(errors.without("some_set", FrameworkName::megatron, Schedule::zb_h1).fraction == 0.02);
  // Which has no rows in them.
  CHECK(errors.without("another", FrameworkName::megatron, Schedule::zb_h1).fraction == 0.04);
}

TEST_CASE("a file of errors without sense is refused", "[report]") {
  CHECK(problems(sound).empty());
  CHECK(problems("source: x\nerrors: []\n") ==
        std::vector<std::string>{"2:9: has no entry of all frameworks"});
  CHECK(problems("source: x\nerrors: [{schedule: gpipe, error: -1, rows: 0, measured: 0}]\n") ==
        std::vector<std::string>{"2:21: goes with a framework only",
                                 "2:35: error is -1; allowed: 0 to 10",
                                 "2:45: rows is 0; allowed: 1 to 1048576"});
}

TEST_CASE("what is within an error fits with it", "[report]") {
  CHECK(most_within(0, Bytes{1000}) == Bytes{1000});
  CHECK(most_within(0.25, Bytes{1000}) == Bytes{800});
  CHECK(most_within(0.03, Bytes{1000}) == Bytes{970});
}

TEST_CASE("the shipped figures are readable", "[report]") {
  const std::optional<MemoryErrors> errors = shipped_memory_errors();
  REQUIRE(errors);
  for (const auto& framework : words_of(FrameworkName{})) {
    for (const auto& schedule : words_of(Schedule{})) {
      const MemoryError& error = errors->of(framework.value, schedule.value);
      CHECK(error.fraction > 0);
      CHECK(error.fraction < 0.5);
      CHECK(error.rows >= 20);
    }
  }
}

TEST_CASE("The chance to fit follows the shares of runs, straight in between", "[report]") {
  MemoryError error;
  error.excess = {-0.04, -0.02, -0.01, 0, 0.02, 0.04, 0.08, 0.1, 0.2};
  CHECK(chance_to_fit(error, 0.02) == Approx(0.5));
  CHECK(chance_to_fit(error, 0.03) == Approx(0.625));
  CHECK(chance_to_fit(error, -1) == 0.01);
  CHECK(chance_to_fit(error, 5) == 0.99);
  double before = 0;
  for (int i = -100; i < 300; ++i) {
    const double chance = chance_to_fit(error, 0.001 * i);
    CHECK(chance >= before);
    before = chance;
  }
  // Many runs alike: at their room all of them fit.
  error.excess.assign(excess_shares.size(), 0.05);
  CHECK(chance_to_fit(error, 0.05) == 0.99);
  CHECK(chance_to_fit(error, 0.04) == 0.01);
}

TEST_CASE("Nine in ten runs need between the 5% and the 95% quantile", "[report]") {
  MemoryError error;
  error.excess = {-0.04, -0.02, -0.01, 0, 0.02, 0.04, 0.08, 0.1, 0.2};
  const MemoryRange range = range_of(error, Bytes{1000});
  CHECK(range.low == Bytes{980});
  CHECK(range.high == Bytes{1100});
}

TEST_CASE("Shares of runs that are not as many, or do not ascend, are refused", "[report]") {
  const std::string begin = "source: x\nerrors: [{error: 0.1, rows: 9, measured: 9, excess: ";
  CHECK(problems(begin + "[0, 1]}]\n").at(0).find("has 2 values; allowed: 9") != std::string::npos);
  CHECK(problems(begin + "[0, 1, 0, 1, 1, 1, 1, 1, 1]}]\n").at(0).find("do not ascend") !=
        std::string::npos);
}
