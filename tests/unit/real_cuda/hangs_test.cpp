// Causes that hang a GPU's run and that no emulation of numbers shows: first use of connections,
// graphs that outlive what they refer to, kernels that load late, ranks that die at the wrong time.
// The fakes of the libraries wait where NCCL and CUDA wait.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "real/cuda/environment.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/fakes/fake_nccl.hpp"
#include "tests/unit/real_cuda/cases.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

namespace {

TEST_CASE("ranks that share a GPU share the channels of the service", "[cuda]") {
  for (const int ranks : {0, 1, 4, 5})
    CHECK(real::work_queues(ranks) == 16);
  CHECK(real::work_queues(6) == 13);
  CHECK(real::work_queues(8) == 8);
  CHECK(real::work_queues(100) == 1);
}

// One micro-batch per stage: a rank posts its receives before its sends.
ToyRun one_micro_batch(int stages, sim::Schedule schedule) {
  ToyRun run = base(false);
  run.shape.layers = 4;
  run.layout.pipeline_parallel = stages;
  run.layout.schedule = schedule;
  run.layout.micro_batch = run.layout.global_batch;
  run.layout.overlap_pipeline = true;
  run.timeout = std::chrono::seconds{20};  // of a hang, which is what fails here
  return run;
}

// As a user sets a variable, for as long as it lives.
class UserSets {
 public:
  UserSets(const char* name, const char* value) : name_{name} {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    (void)setenv(name, value, 1);
  }
  ~UserSets() {
    if (before_)
      (void)setenv(name_, before_->c_str(), 1);
    else
      (void)unsetenv(name_);
  }
  UserSets(const UserSets&) = delete;
  UserSets& operator=(const UserSets&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

using During = fakes::NcclFault::During;
class Fault {
 public:
  explicit Fault(const fakes::NcclFault& fault) { fakes::set_nccl_fault(fault); }
  ~Fault() { fakes::set_nccl_fault({}); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

}  // namespace

// A first send or receive waits for its partner's on the host (NCCL's ncclTransportP2pSetup).
TEST_CASE("a pipeline with one micro-batch connects before it starts", "[real_cuda][hangs]") {
  const auto schedule =
      GENERATE(sim::Schedule::one_f_one_b, sim::Schedule::gpipe, sim::Schedule::zb_h1);
  const int stages = GENERATE(2, 4);
  CAPTURE(sim::word(schedule), stages);
  ToyRun run = one_micro_batch(stages, schedule);
  const ToyResult reference = reference_of(run);
  check_equal(run_toy(run), reference, 1e-5);
  CHECK(fakes::nccl_misuse().empty());
}

TEST_CASE("collectives that connect at first use do not stop a run", "[real_cuda][hangs]") {
  const auto index = static_cast<std::size_t>(GENERATE(2, 5, 8, 11, 14, 16, 17));
  const UserSets connect{"NCCL_RUNTIME_CONNECT", "1"};
  const Case chosen = cases()[index];
  CAPTURE(chosen.name);
  ToyRun run = base(false);
  chosen.change(run);
  check_equal(run_toy(run), reference_of(run), 1e-5);
  CHECK(fakes::nccl_misuse().empty());
}

TEST_CASE("a rank that dies or hangs in its first use of a communicator ends the others",
          "[real_cuda][hangs]") {
  const bool hangs = GENERATE(false, true);
  CAPTURE(hangs);
  ToyRun run = one_micro_batch(2, sim::Schedule::one_f_one_b);
  run.connect_timeout = std::chrono::milliseconds{hangs ? 300 : 60'000};
  const Fault fault{{.device = 1, .during = During::first_use, .hangs = hangs}};
  const ToyResult result = run_toy(run);
  bool late = false;
  for (const std::string& failure : result.failures) {
    CHECK_THAT(failure,
               Catch::Matchers::StartsWith("NCCL: connecting the communicator of message on "));
    late = late || failure.ends_with(": its ranks did not all come within 300 ms");
  }
  CHECK(late == hangs);
  CHECK(fakes::nccl_misuse().empty());
}

// NCCL frees a communicator only when no graph holds an operation of it.
TEST_CASE("graphs go before communicators, whether a run ends or is aborted",
          "[real_cuda][hangs]") {
  const auto index = static_cast<std::size_t>(GENERATE(2, 5, 9, 11, 15));
  const bool quits = GENERATE(false, true);
  const Case chosen = cases()[index];
  CAPTURE(chosen.name, quits);
  ToyRun run = base(false);
  chosen.change(run);
  run.graphs = true;
  run.steps = 4;
  run.leaves_before = 3;  // its partners are in a graph that was launched before
  if (quits) run.quits = 1;
  if (quits) run.timeout = std::chrono::milliseconds{2000};
  const ToyResult result = run_toy(run);
  CHECK(result.failures[1] == (quits ? "quit" : ""));
  CHECK(result.failures[0].empty() != quits);
  CHECK(fakes::nccl_misuse().empty());
}

TEST_CASE("a rank that hangs ends the others, which wait in a graph", "[real_cuda][hangs]") {
  const int before = GENERATE(1, 2);  // their capture, their replay
  const auto index = static_cast<std::size_t>(GENERATE(2, 9));
  ToyRun run = base(false);
  cases()[index].change(run);
  CAPTURE(before, cases()[index].name);
  run.graphs = true;
  run.hangs = 1;
  run.leaves_before = before;
  run.timeout = std::chrono::milliseconds{400};
  const ToyResult result = run_toy(run);
  CHECK_THAT(result.failures[0],
             Catch::Matchers::StartsWith("rank 0: ") &&
                 Catch::Matchers::EndsWith(": the device did not get through it within 400 ms"));
  CHECK(fakes::nccl_misuse().empty());
}

TEST_CASE("a rank that dies or hangs while it captures ends the others", "[real_cuda][hangs]") {
  const bool hangs = GENERATE(false, true);
  const auto index = static_cast<std::size_t>(GENERATE(2, 9));
  CAPTURE(hangs, cases()[index].name);
  ToyRun run = base(false);
  cases()[index].change(run);
  run.graphs = true;
  run.timeout = std::chrono::milliseconds{400};
  const Fault fault{{.device = 1, .during = During::capture, .hangs = hangs}};
  const ToyResult result = run_toy(run);
  CHECK_FALSE(result.failures[0].empty());
  CHECK_THAT(result.failures[1],
             hangs ? Catch::Matchers::EndsWith("did not get through it within 400 ms")
                   : Catch::Matchers::EndsWith("internal error ()"));
  CHECK(fakes::nccl_misuse().empty());
}

TEST_CASE("steps are captured where the host waits nowhere, unless the user says otherwise",
          "[real_cuda]") {
  const sim::Model model = sim::build_transformer(gpt_shape());
  sim::Plan plan = sim::make_plan(model, toy_layout());
  {
    const UserSets automatic{"STEPCAST_GRAPHS", "auto"};
    CHECK(real::wants_graphs(plan));
    plan.programs[0].host_waits.emplace_back();
    CHECK_FALSE(real::wants_graphs(plan));
  }
  {
    const UserSets on{"STEPCAST_GRAPHS", "on"};
    CHECK(real::wants_graphs(plan));
  }
  plan.programs[0].host_waits.clear();
  {
    const UserSets off{"STEPCAST_GRAPHS", "off"};
    CHECK_FALSE(real::wants_graphs(plan));
  }
  const UserSets wrong{"STEPCAST_GRAPHS", "yes"};
  REQUIRE_THROWS_WITH(real::wants_graphs(plan),
                      "STEPCAST_GRAPHS: error: it is \"yes\"; allowed: auto, on, off");
}
