// The reference between measurements: what it says of a machine that changes its speed, and that
// this comes out of what is measured.
#include "real/calibrate/reference.hpp"

#include <atomic>

#include "real/calibrate/agree.hpp"
#include "real/calibrate/measure.hpp"
#include "real/calibrate/measure_machine.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_calibrate/small_plans.hpp"

namespace {

using namespace real;
using calibrate_test::on_all_ranks;
using calibrate_test::two_ranks;

// A machine whose GEMMs and copies take so many times as long as at first, from run to run.
struct Phases {
  std::vector<ReferencePiece> of_run;
  ReferencePiece at(std::size_t run) const { return of_run[std::min(run, of_run.size() - 1)]; }
};

class ScriptedReference : public Reference {
 public:
  ScriptedReference(Phases phases, double rank_factor = 1)
      : phases_{std::move(phases)}, rank_factor_{rank_factor} {}
  ReferenceRun run(int) override {
    const ReferencePiece now = phases_.at(runs_++);
    return {.typical = {.product = 1e-3 * now.product * rank_factor_,
                        .copy = 2e-3 * now.copy * rank_factor_},
            .whole = 5e-3 * now.product * rank_factor_};
  }
  int pieces_between_kernels() const override { return 1; }
  int pieces_beside_step(double, double) const override { return 1; }
  ReferencePiece phase() const { return phases_.at(runs_); }

 private:
  Phases phases_;
  double rank_factor_;
  std::size_t runs_ = 0;
};

TEST_CASE("a sample of the reference is the mean rank's pieces, and the slowest rank's whole") {
  on_all_ranks(3, [](Transport& transport) {
    ScriptedReference reference{{{{1, 1}}}, 1.0 + transport.rank()};
    const ReferenceSample sample = sample_reference(reference, transport, 4);
    // Ranks take 1, 2 and 3 times as long, and each of them learns the same.
    if (std::abs(sample.typical.product - 2e-3) > 1e-12) throw std::logic_error("product");
    if (std::abs(sample.typical.copy - 4e-3) > 1e-12) throw std::logic_error("copy");
    if (std::abs(sample.whole - 15e-3) > 1e-12) throw std::logic_error("whole");
  });
}

TEST_CASE("a measurement is scaled by the reference before and after it, GEMM and copy apart") {
  on_all_ranks(1, [](Transport& transport) {
    // One run warms up, the second is where times refer to.
    ScriptedReference reference{{{{9, 9}, {1, 1}, {1, 2}, {3, 4}}}};
    DriftMeter drift{reference, transport, false};
    CHECK(drift.scale(ReferenceKind::product) == 1);
    drift.mark();
    CHECK_THAT(drift.scale(ReferenceKind::product), WithinRel(1.0, 1e-12));
    CHECK_THAT(drift.scale(ReferenceKind::copy), WithinRel(1 / 1.5, 1e-12));
    drift.mark();
    CHECK_THAT(drift.scale(ReferenceKind::product), WithinRel(1 / 2.0, 1e-12));
    CHECK_THAT(drift.scale(ReferenceKind::copy), WithinRel(1 / 3.0, 1e-12));
    // The typical of 1, 1, 3 and of 1, 2, 4: what the times are told at.
    CHECK_THAT(drift.rescale(ReferenceKind::product), WithinRel(1.0, 1e-12));
    CHECK_THAT(drift.rescale(ReferenceKind::copy), WithinRel(2.0, 1e-12));
    CHECK_THAT(drift.typical().whole, WithinRel(1e-3 + 4e-3, 1e-12));
    CHECK(drift.slowdowns().size() == 3);
    CHECK_THAT(drift.slowdowns().back(), WithinRel(15.0 / 5, 1e-12));
  });
}

TEST_CASE("of ranks that share cores the whole counts, turns and all") {
  on_all_ranks(1, [](Transport& transport) {
    ScriptedReference reference{{{{1, 1}, {1, 1}, {3, 1}}}};
    DriftMeter drift{reference, transport, true};
    drift.mark();
    CHECK_THAT(drift.scale(ReferenceKind::copy), WithinRel(1 / 2.0, 1e-12));
    CHECK_THAT(drift.typical().whole, WithinRel(10e-3, 1e-12));
  });
}

// Every product takes 10 us and every other kernel 20 us, times what the machine is slower.
class DriftingBench : public Bench {
 public:
  explicit DriftingBench(Phases phases) : reference_{std::move(phases)} {}

  class Kernels : public KernelBench {
   public:
    Kernels(const BoundProgram& program, const ScriptedReference& reference)
        : program_{program}, reference_{reference} {}
    void refill(std::uint64_t) override {}
    std::vector<double> run(std::span<const std::uint32_t> ops) override {
      std::vector<double> seconds;
      for (const std::uint32_t op : ops) {
        const bool product = reference_of(*program_.ops[op].kernel) == ReferenceKind::product;
        seconds.push_back(product ? 10e-6 * reference_.phase().product
                                  : 20e-6 * reference_.phase().copy);
      }
      return seconds;
    }
    Beside run_beside(std::uint32_t, int, const CollectiveCase&) override { return {}; }

   private:
    const BoundProgram& program_;
    const ScriptedReference& reference_;
  };

  Reference& reference() override { return reference_; }
  std::unique_ptr<KernelBench> load(const BoundProgram& program, std::uint64_t) override {
    return std::make_unique<Kernels>(program, reference_);
  }
  Interval run(const CollectiveCase&, int) override { return {}; }
  int calls_per_sample(std::int64_t) const override { return 1; }
  double copy(sim::MeasuredCopy::Way, std::int64_t) override { return 1; }
  std::vector<sim::MeasuredCopy::Way> copies() const override { return {}; }
  std::optional<double> issue_cost(KernelBench&, std::span<const std::uint32_t>) override {
    return std::nullopt;
  }
  void describe(sim::MeasuredMachine&) override {}

 private:
  ScriptedReference reference_;
};

TEST_CASE("kernels of a machine that slows down come out as at its typical speed") {
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 1}, sim::DType::fp32);
  // Half of the passes run three times slower, the GEMM; the copy twice. Each phase lasts over the
  // pass and the mark behind it.
  Phases phases;
  for (int run = 0; run < 400; ++run)
    phases.of_run.push_back(run < 5 ? ReferencePiece{1, 1} : ReferencePiece{3, 2});
  sim::MeasuredMachine machine;
  on_all_ranks(1, [&](Transport& transport) {
    DriftingBench bench{phases};
    MeasureRequest request;
    request.plans = {{.plan = &grid.plan, .model = &grid.model}};
    request.grid = false;
    request.seconds = 0.01;
    machine = measure_rank(request, bench, transport);
  });
  REQUIRE(machine.reference);
  const double slow_product = sim::to_seconds(machine.reference->product) / 1e-3;
  const double slow_copy = sim::to_seconds(machine.reference->copy) / 2e-3;
  REQUIRE(machine.kernels.size() > 5);
  for (const sim::MeasuredKernel& row : machine.kernels) {
    const bool product = reference_of(row.kernel) == ReferenceKind::product;
    CAPTURE(sim::word(row.kernel.kind));
    CHECK_THAT(sim::to_seconds(row.time),
               WithinRel(product ? 10e-6 * slow_product : 20e-6 * slow_copy, 1e-6));
  }
}

TEST_CASE("the reference of a core runs, as long as a step, and tells whether ranks share cores") {
  const std::unique_ptr<Reference> reference = make_host_reference(false);
  const ReferenceRun run = reference->run(12);
  CHECK(run.typical.product > 0);
  CHECK(run.typical.copy > 0);
  // Medians of pieces may lie above the mean a little, never far.
  CHECK(run.whole > 0.5 * (run.typical.product + run.typical.copy));
  // Ranks that take turns: every rank has the same share of every moment, also beside other
  // programs.
  const ReferenceRun turns = make_host_reference(true)->run(50);
  CHECK_THAT(turns.whole, WithinRel(turns.typical.product + turns.typical.copy, 1e-6));
  CHECK(reference->pieces_beside_step(0.1, 0.001) == 100);
  CHECK(reference->pieces_beside_step(0, 0.001) == 10);
  CHECK(reference->pieces_beside_step(1000, 0.001) == 2000);
  CHECK_FALSE(ranks_share_cores(1));
  CHECK(ranks_share_cores(1 << 20));
}

}  // namespace
