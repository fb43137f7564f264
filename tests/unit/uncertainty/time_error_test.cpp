// Intervals and chances of a small model of errors, by hand.
#include "sim/uncertainty/time_error.hpp"

#include <cmath>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/uncertainty/normal.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

TimeErrorModel small_model() {
  TimeErrorModel model;
  model.level = 0.9;
  model.multiple = 2;
  model.deviation[static_cast<Eigen::Index>(ErrorSource::machine)] = 0.03;
  model.deviation[static_cast<Eigen::Index>(ErrorSource::job)] = 0.04;
  model.deviation[static_cast<Eigen::Index>(ErrorSource::layout)] = 0.02;
  model.deviation[static_cast<Eigen::Index>(ErrorSource::tensor)] = 1;
  model.rest = 0.05;
  model.unlike = 0.1;
  model.unmeasured = 0.2;
  model.categories = {"framework megatron", "generation hopper", "dtype bf16",
                      "dtype bf16 on hopper", "schedule none"};
  model.rows = 100;
  model.sets = 5;
  return model;
}

JobTraits plain() {
  return {.job = "a job", .layout = "a layout", .shares = {.products = 1}};
}

double half_width(const TimeInterval& of) {
  return std::log(of.high / of.low) / 2;
}

std::string saved(const std::string& text) {
  std::string path = test::temporary_path("time_error").string();
  std::ofstream{path} << text;
  return path;
}

}  // namespace

TEST_CASE("An interval adds the variances of what is known of a job", "[uncertainty]") {
  const TimeErrors errors{small_model()};
  const TimeInterval interval = errors.interval(plain());
  CHECK(half_width(interval) ==
        Approx(2 * std::sqrt(0.03 * 0.03 + 0.04 * 0.04 + 0.02 * 0.02 + 2 * 0.05 * 0.05)));
  CHECK(interval.low * interval.high == Approx(1));
  CHECK(interval.level == 0.9);
  CHECK(interval.rows == 100);
  CHECK(interval.unlike.empty());
}

TEST_CASE("Exposed communication, other categories and machines without a run widen it",
          "[uncertainty]") {
  const TimeErrors errors{small_model()};
  const double known = half_width(errors.interval(plain()));
  JobTraits exposed = plain();
  exposed.shares.tensor = 0.2;
  CHECK(half_width(errors.interval(exposed)) > known * 2);
  JobTraits pipelined = plain();
  pipelined.pipelined = true;
  const TimeInterval of_schedule = errors.interval(pipelined);
  CHECK(of_schedule.unlike == std::vector<std::string>{"schedule 1f1b"});
  CHECK(half_width(of_schedule) == Approx(std::hypot(known, 2 * 0.1)));
  // Two such categories make a job no less like the others than one.
  pipelined.context = true;
  const TimeInterval of_both = errors.interval(pipelined);
  CHECK(of_both.unlike ==
        std::vector<std::string>{"schedule 1f1b", "context parallel under megatron"});
  CHECK(half_width(of_both) == Approx(half_width(of_schedule)));
  JobTraits unknown = plain();
  unknown.validated = false;
  CHECK(half_width(errors.interval(unknown)) == Approx(std::hypot(known, 2 * 0.2)));
  JobTraits format = plain();
  format.dtype = DType::fp8;
  CHECK(half_width(errors.interval(format)) > std::hypot(known, 2 * 0.2));
}

TEST_CASE("A setting that the forecast leaves out widens the interval, and is named",
          "[uncertainty]") {
  const TimeErrors errors{small_model()};
  const double known = half_width(errors.interval(plain()));
  JobTraits job = plain();
  job.unmodelled = {"--deterministic-mode"};
  const TimeInterval wider = errors.interval(job);
  CHECK(wider.unlike == std::vector<std::string>{"setting --deterministic-mode"});
  CHECK(half_width(wider) == Approx(std::hypot(known, 2 * 0.1)));
  // A run of one's own that has it narrows it, as any category.
  Anchor anchor;
  anchor.runs.emplace_back().traits = job;
  CHECK(half_width(errors.anchored(anchor).interval(job)) < half_width(wider));
}

TEST_CASE("A framework that is not named shifts and widens the interval", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.unnamed = {.mean = 0.2, .deviation = 0.3, .rows = 50, .sets = 12};
  const TimeErrors errors{model};
  const double known = half_width(errors.interval(plain()));
  JobTraits unnamed = plain();
  unnamed.named = false;
  unnamed.zero_3 = true;  // under a framework that nobody names it is no category of its own
  const TimeInterval interval = errors.interval(unnamed);
  CHECK(half_width(interval) == Approx(std::hypot(known, 2 * 0.3)));
  CHECK(std::log(interval.low * interval.high) / 2 == Approx(0.2));
  CHECK(interval.rows == 50);
  CHECK(interval.of_unknown_framework());
  CHECK(interval.unlike.empty());
  CHECK(std::log(errors.mean_factor(unnamed)) > 0.2);
  // Two layouts of one job are off alike by it.
  const Duration one = std::chrono::seconds{1};
  const auto later = duration_from_seconds(1.05);
  CHECK(errors.chance_faster(unnamed, one, unnamed, later) ==
        Approx(errors.chance_faster(plain(), one, plain(), later)));
  // A run of one's own tells it: the forecast takes the factor, and the interval is around it.
  Anchor anchor;
  anchor.runs.emplace_back().traits = unnamed;
  anchor.runs[0].log_error = 0.5;
  const TimeErrors once = errors.anchored(anchor);
  CHECK(std::log(once.factors(unnamed).products) == Approx(0.5).margin(0.02));
  CHECK(once.moments(unnamed).mean == Approx(0));
  CHECK(half_width(once.interval(unnamed)) < half_width(interval) / 2);
  CHECK_FALSE(once.interval(unnamed).of_unknown_framework());
}

TEST_CASE("A preset that no run was measured of is a category", "[uncertainty]") {
  const TimeErrors errors{small_model()};
  JobTraits job = plain();
  job.preset = "nanotron";
  CHECK(errors.interval(job).unlike == std::vector<std::string>{"preset nanotron"});
  CHECK(half_width(errors.interval(job)) > half_width(errors.interval(plain())));
}

TEST_CASE("Of two layouts the chance follows their gap and what differs", "[uncertainty]") {
  const TimeErrors errors{small_model()};
  const Duration one = std::chrono::seconds{1};
  const auto later = duration_from_seconds(1.05);
  CHECK(errors.chance_faster(plain(), one, plain(), one) == Approx(0.5));
  const double near = errors.chance_faster(plain(), one, plain(), later);
  CHECK(near > 0.6);
  CHECK(near + errors.chance_faster(plain(), later, plain(), one) == Approx(1));
  // Exposed communication of one of them alone makes the order less sure.
  JobTraits exposed = plain();
  exposed.shares.tensor = 0.3;
  CHECK(errors.chance_faster(plain(), one, exposed, later) < near);
  // So does what no run has, unless both have it.
  JobTraits context = plain();
  context.context = true;
  CHECK(errors.chance_faster(plain(), one, context, later) < near);
  CHECK(errors.chance_faster(context, one, context, later) == Approx(near));
}

TEST_CASE("One's own runs narrow the interval, of the same job most", "[uncertainty]") {
  const TimeErrors errors{small_model()};
  Anchor anchor;
  anchor.runs.emplace_back().traits = plain();
  anchor.runs[0].log_error = 0.1;
  const double before = half_width(errors.interval(plain()));
  const TimeErrors once = errors.anchored(anchor);
  const double same = half_width(once.interval(plain()));
  CHECK(same < before);
  const double rest = std::sqrt(2) * 0.05;
  CHECK(same > 2 * rest);
  JobTraits other = plain();
  other.job = "another job";
  CHECK(half_width(once.interval(other)) > same);
  CHECK(half_width(once.interval(other)) < before);
  CHECK(once.interval(plain()).own_runs == 1);
  // Very many runs leave what nothing explains.
  const AnchorRun run = anchor.runs[0];
  anchor.runs.assign(10'000, run);
  CHECK(half_width(errors.anchored(anchor).interval(plain())) == Approx(2 * rest).epsilon(0.01));
}

TEST_CASE("Factors take what runs say: by hand, of one effect", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.deviation.setZero();
  model.deviation[static_cast<Eigen::Index>(ErrorSource::machine)] = 0.03;
  const TimeErrors errors{model};
  Anchor anchor;
  anchor.runs.emplace_back().traits = plain();
  anchor.runs[0].log_error = 0.1;
  // A normal prior of 0.03 and a reading with the variance 2 x 0.05^2.
  const double expected = 0.1 * 0.0009 / (0.0009 + 0.005);
  const TimeErrors once = errors.anchored(anchor);
  const TimeFactors factors = once.factors(plain());
  CHECK(factors.products == Approx(std::exp(expected)));
  CHECK(factors.tensor == Approx(std::exp(expected)));
  CHECK(once.moments(plain()).mean == Approx(0));
}

TEST_CASE("A run tells of its layout what it tells of no other", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.deviation[static_cast<Eigen::Index>(ErrorSource::layout)] = 0.2;
  model.rest = 0.01;
  Anchor anchor;
  anchor.runs.emplace_back().traits = plain();
  anchor.runs[0].log_error = 0.2;
  const TimeErrors once = TimeErrors{model}.anchored(anchor);
  // A run far from the forecasts of others: its own forecast comes out at it.
  CHECK(std::log(once.factors(plain()).products) == Approx(0.2).margin(0.002));
  JobTraits other = plain();
  other.layout = "another layout";
  CHECK(once.factors(other).products < std::exp(0.05));
  CHECK(half_width(once.interval(other)) > 2 * 0.2);
  CHECK(half_width(once.interval(plain())) < 2 * 0.03);
}

TEST_CASE("Two runs of one layout tell how its error grows with the GPUs", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.deviation[static_cast<Eigen::Index>(ErrorSource::layout)] = 0.2;
  model.rest = 0.005;
  model.growth = 0.05;
  Anchor anchor;
  anchor.runs.resize(2);
  anchor.runs[0].traits = anchor.runs[1].traits = plain();
  anchor.runs[0].traits.gpus = 8;
  anchor.runs[1].traits.gpus = 64;
  anchor.runs[0].log_error = 0.1;
  anchor.runs[1].log_error = 0.2;
  const TimeErrors both = TimeErrors{model}.anchored(anchor);
  JobTraits larger = plain();
  larger.gpus = 512;
  CHECK(std::log(both.factors(larger).products) == Approx(0.3).margin(0.01));
  // One run alone gives its own factor at any scale, and is less sure of it there.
  anchor.runs.resize(1);
  const TimeErrors one = TimeErrors{model}.anchored(anchor);
  CHECK(one.factors(larger).products == Approx(one.factors(anchor.runs[0].traits).products));
  CHECK(half_width(one.interval(larger)) > half_width(both.interval(larger)));
}

TEST_CASE("A part that was measured by itself moves its own factor", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.rest = 0.01;
  Anchor anchor;
  AnchorRun& run = anchor.runs.emplace_back();
  run.traits = plain();
  run.traits.shares = {.products = 0.8, .tensor = 0.2};
  run.log_error = 0.1;  // all of it by communication: 0.2 x 0.5
  const auto part_of = [](double StepShares::*share) {
    std::size_t at = 0;
    while (parts_of_step[at].share != share)
      ++at;
    return at;
  };
  const TimeErrors by_step = TimeErrors{model}.anchored(anchor);
  run.parts[part_of(&StepShares::products)] = 0.0;
  run.parts[part_of(&StepShares::tensor)] = 0.5;
  const TimeErrors by_parts = TimeErrors{model}.anchored(anchor);
  CHECK(std::log(by_parts.factors(plain()).products) == Approx(0).margin(0.01));
  CHECK(std::log(by_parts.factors(plain()).tensor) == Approx(0.5).margin(0.02));
  CHECK(by_step.factors(plain()).products > by_parts.factors(plain()).products + 0.002);
  JobTraits other = run.traits;
  other.shares = {.products = 0.3, .tensor = 0.7};
  CHECK(half_width(by_parts.interval(other)) < half_width(by_step.interval(other)));
}

TEST_CASE("Runs that are far off move no factor beyond its bounds", "[uncertainty]") {
  TimeErrorModel model = small_model();
  model.deviation.setConstant(1);
  Anchor anchor;
  anchor.runs.emplace_back().traits = plain();
  anchor.runs[0].log_error = 15;
  const TimeFactors factors = TimeErrors{model}.anchored(anchor).factors(plain());
  CHECK(factors.products == 4);
}

TEST_CASE("The file of an anchor gives the runs that were written", "[uncertainty]") {
  Anchor anchor{.device = "NVIDIA \"H100\"", .framework = FrameworkName::torchtitan, .runs = {}};
  AnchorRun& run = anchor.runs.emplace_back();
  run.scenario = "small.yaml";
  run.traits = plain();
  run.traits.gpus = 64;
  run.traits.shares = {.products = 0.7, .memory_kernels = 0.2, .tensor = 0.1};
  run.measured = std::chrono::milliseconds{1500};
  run.forecast = std::chrono::milliseconds{1400};
  run.anchored = std::chrono::milliseconds{1450};
  run.log_error = 0.0689;
  run.parts[0] = 0.0125;
  run.parts[3] = -0.25;
  const Anchor read = load_anchor(saved(anchor_yaml(anchor)));
  REQUIRE(read.runs.size() == 1);
  CHECK(read.device == anchor.device);
  CHECK(read.framework == anchor.framework);
  CHECK(read.runs[0].traits.job == "a job");
  CHECK(read.runs[0].traits.layout == "a layout");
  CHECK(read.runs[0].traits.gpus == 64);
  CHECK(read.runs[0].traits.shares.tensor == 0.1);
  CHECK(read.runs[0].measured == run.measured);
  CHECK(read.runs[0].log_error == 0.0689);
  CHECK(read.runs[0].parts == run.parts);
  CHECK_THROWS_AS(load_anchor(saved("device: x\nframework: megatron\nruns: []\n")), InputError);
}

TEST_CASE("The file of errors gives the model that was written", "[uncertainty]") {
  const TimeErrorModel model = small_model();
  const TimeErrors read = TimeErrors::load(saved(time_error_yaml(model)));
  CHECK(read.model().categories == model.categories);
  CHECK(read.model().multiple == model.multiple);
  CHECK(half_width(read.interval(plain())) ==
        Approx(half_width(TimeErrors{model}.interval(plain()))).epsilon(1e-3));
}

TEST_CASE("A file of errors that is not one is refused by line", "[uncertainty]") {
  std::string text = time_error_yaml(small_model());
  text.replace(text.find("level: 0.9"), 10, "level: 9.9");
  try {
    static_cast<void>(TimeErrors::load(saved(text)));
    FAIL("was read");
  } catch (const InputError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems()[0].where.line == 6);
  }
}

TEST_CASE("A job narrower than any with scales of rows that was measured is less sure",
          "[uncertainty]") {
  const TimeErrors errors{small_model()};
  JobTraits narrow = plain();
  narrow.narrow_row_scales = true;
  const TimeInterval interval = errors.interval(narrow);
  CHECK(half_width(interval) > half_width(errors.interval(plain())) * 1.3);
  CHECK(interval.unlike ==
        std::vector<std::string>{"scales of rows on less than 4,096 features of a rank"});
}

TEST_CASE("Of two jobs that are as fast, choosing the one that is less sure costs more",
          "[uncertainty]") {
  const TimeErrors errors{small_model()};
  const Duration one = std::chrono::seconds{1};
  JobTraits context = plain();
  context.context = true;
  CHECK(errors.mean_factor(context) > errors.mean_factor(plain()));
  const std::vector<double> equal = errors.regrets({plain(), plain()}, {one, one});
  CHECK(equal[0] == equal[1]);
  // The mean of the smaller of two normal errors is 1/sqrt(pi) of their deviation below their mean.
  CHECK(equal[0] ==
        Approx(std::hypot(std::sqrt(2) * 0.05, 0.02) / std::sqrt(3.14159)).margin(0.006));
  const std::vector<double> unequal = errors.regrets({plain(), context}, {one, one});
  CHECK(unequal[1] > unequal[0]);
  CHECK(errors.regrets({context}, {one})[0] == Approx(0).margin(1e-12));
  // Who is far behind loses what it is behind.
  const std::vector<double> far = errors.regrets({plain(), plain()}, {one, one * 3});
  CHECK(far[0] == Approx(0).margin(1e-3));
  CHECK(far[1] == Approx(2).margin(1e-2));
}

TEST_CASE("The error of a step is normal in its logarithm, with the interval's level",
          "[uncertainty]") {
  CHECK(normal_quantile(0.95) == Approx(1.644854).epsilon(1e-6));
  CHECK(normal_quantile(0.5) == Approx(0).margin(1e-12));
  TimeInterval interval;
  interval.low = 0.8;
  interval.high = 1.3;
  interval.level = 0.9;
  const StepError error = StepError::of(interval);
  CHECK(error.chance_within(1.3) == Approx(0.95));
  CHECK(error.chance_within(0.8) == Approx(0.05));
  CHECK(error.chance_within(0) == 0);
  CHECK(StepError{}.chance_within(1) == 1);
  CHECK(StepError{}.chance_within(0.999) == 0);
}
