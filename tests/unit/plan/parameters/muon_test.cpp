// Muon: what it keeps, what it multiplies, and who updates which matrix.
#include "sim/plan/parameters/muon.hpp"

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout muon(int data, int zero_stage) {
  Layout layout = test::layout_for(1, data, 1, 1);
  layout.optimizer = OptimizerKind::muon;
  layout.zero_stage = zero_stage;
  return layout;
}

double newton_schulz_flops(const Program& program) {
  double sum = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == Action::orthogonalize && program.kind[op] == OpKind::gemm)
      sum += program.kernels[program.work[op]].flops.count();
  return sum;
}

std::int64_t kept_states(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.category == BufferCategory::optimizer && buffer.persistent)
      bytes += buffer.size.count();
  return bytes;
}

// 20 m^2 n + 10 m^3, as the formula has it.
double flops_of(double a, double b) {
  const double m = std::min(a, b), n = std::max(a, b);
  return 20 * m * m * n + 10 * m * m * m;
}

}  // namespace

TEST_CASE("Muon multiplies 20 m^2 n + 10 m^3 for every matrix of a layer", "[plan][muon]") {
  const Model model = test::transformer(1);  // 8 layers, grouped queries, a gate
  const double h = static_cast<double>(model.hidden);
  const double f = static_cast<double>(model.feed_forward);
  const double q = static_cast<double>(model.attention.heads * model.attention.head_dim);
  const double k = static_cast<double>(model.attention.kv_heads * model.attention.head_dim);
  const double layer =
      flops_of(q, h) + 2 * flops_of(k, h) + flops_of(h, q) + flops_of(2 * f, h) + flops_of(h, f);
  CHECK(newton_schulz_flops(test::checked_plan(model, muon(1, 0)).programs[0]) == 8 * layer);
  // Every replica does all of it without ZeRO, a part of it with.
  CHECK(newton_schulz_flops(test::checked_plan(model, muon(4, 0)).programs[0]) == 8 * layer);
  const double part = newton_schulz_flops(test::checked_plan(model, muon(4, 1)).programs[0]);
  CHECK(part >= 2 * layer);
  CHECK(part < 2.2 * layer);
}

TEST_CASE("a replica that has the embedding as a whole keeps its states alone", "[plan][muon]") {
  Model model = test::transformer(1);
  const auto states = [&](bool deals, int data, int stage) {
    model.execution.deals_parameters = deals;
    return kept_states(test::checked_plan(model, muon(data, stage)).programs[0]);
  };
  // Its owner has, of 12 bytes for each number of it, those that the other three have no share of,
  // less what they have instead.
  const std::int64_t table = 12 * model.vocabulary * model.hidden;
  const std::int64_t more = states(true, 4, 1) - states(false, 4, 1);
  CHECK(more > table / 4);
  CHECK(more < table * 3 / 4);
  CHECK(states(true, 4, 0) == states(false, 4, 0));
  CHECK(states(true, 1, 1) == states(false, 1, 1));
}

TEST_CASE("tensor ranks gather a matrix and make all of it orthogonal", "[plan][muon]") {
  const Model model = test::transformer(1);
  Layout layout = muon(2, 1);
  const double alone = newton_schulz_flops(test::checked_plan(model, layout).programs[0]);
  layout.tensor_parallel = 2;
  const Plan shared = test::checked_plan(model, layout);
  CHECK(newton_schulz_flops(shared.programs[0]) == alone);
  layout.zero_stage = 0;
  const Plan whole = test::checked_plan(model, layout);
  const Program& program = whole.programs[0];
  std::int64_t gathered = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == Action::orthogonalize && program.kind[op] == OpKind::collective)
      gathered += program.collectives[program.work[op]].bytes.count();
  std::int64_t matrices = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      matrices += op.kind == ModelOpKind::linear ? op.weights : 0;
  CHECK(gathered == 4 * matrices);
}

TEST_CASE("Muon keeps one number for an element of a matrix, Adam two for the rest",
          "[plan][muon]") {
  const Model model = test::transformer(0);  // with biases
  std::int64_t all = 0, matrices = 0;
  for (const Block* block : {&model.input, &model.output})
    all += block->parameters();
  for (const Block& layer : model.layers) {
    all += layer.parameters();
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear) matrices += op.weights;
  }
  CHECK(kept_states(test::checked_plan(model, muon(1, 0)).programs[0]) ==
        4 * all + 4 * matrices + 8 * (all - matrices));
}

TEST_CASE("every expert has matrices of its own", "[plan][muon]") {
  const Model model = test::mixture(0);  // 4 layers of 8 experts of 16 features
  Layout layout = muon(2, 1);
  const double alone = newton_schulz_flops(test::checked_plan(model, layout).programs[0]);
  layout.expert_parallel = 2;
  // Half of the experts, whole; what two replicas had shared before is then one's alone.
  const double h = static_cast<double>(model.hidden);
  const double expert = flops_of(32, h) + flops_of(16, h);
  const double held = newton_schulz_flops(test::checked_plan(model, layout).programs[0]);
  CHECK(held == alone);
  layout.zero_stage = 0;
  layout.expert_parallel = 1;
  const double whole = newton_schulz_flops(test::checked_plan(model, layout).programs[0]);
  CHECK(whole - newton_schulz_flops(test::checked_plan(model, muon(1, 0)).programs[0]) == 0);
  CHECK(whole > 4 * 8 * expert);
}

TEST_CASE("where Muon is not modelled it is refused", "[plan][muon][problems]") {
  const auto problem = [](auto change) {
    Layout layout = muon(2, 1);
    change(layout);
    const std::vector<LayoutProblem> found = layout_problems(layout, test::transformer(1));
    return found.empty() ? std::string{} : found[0].key + ": " + found[0].what;
  };
  CHECK(problem([](Layout&) {}).empty());
  CHECK(problem([](Layout& l) { l.zero_stage = 2; }) ==
        "optimizer: optimizer is muon with zero_stage 2; allowed: 0 (every replica updates all), 1 "
        "(a matrix belongs to one of them)");
  CHECK(problem([](Layout& l) { l.moment_dtype = DType::bf16; }) ==
        "optimizer: optimizer is muon; allowed with framework.optimizer fused, moment_dtype fp32, "
        "and no offload, compression or local_steps");
}
