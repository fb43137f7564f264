// An operator takes the first of several ways to compute attention that takes its shape.
#include <array>
#include <stdexcept>

#include "real/host/host_program.hpp"
#include "tests/unit/real_host/kernel_check.hpp"
#include "tests/unit/real_host/toy_run.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

namespace {

// The host's own, counted, for heads of `head_dim` elements; with a workspace that is watched.
class Counted : public real::Attention {
 public:
  explicit Counted(std::int64_t head_dim) : head_dim_{head_dim} {}
  std::string_view name() const override { return "counted"; }
  bool takes(const real::kernels::AttentionShape& shape) const override {
    return shape.fused && shape.heads.head_dim == head_dim_;
  }
  std::int64_t workspace(const real::kernels::AttentionShape&, bool backward) const override {
    return backward ? 9000 : 5000;
  }
  real::kernels::Launch forward(const real::kernels::AttentionShape& shape,
                                const real::AttentionForward& operands,
                                real::kernels::Workspace workspace) const override {
    CHECK(workspace.bytes >= 5000);
    return [this, own = flash().forward(shape, operands, workspace)](auto stream) {
      ++forwards;
      own(stream);
    };
  }
  real::kernels::Launch backward(const real::kernels::AttentionShape& shape,
                                 const real::kernels::AttentionBackward& operands,
                                 real::kernels::Workspace workspace) const override {
    CHECK(workspace.bytes >= 9000);
    return flash().backward(shape, operands, workspace);
  }
  mutable int forwards = 0;

 private:
  static const real::Attention& flash() { return *real::host_attentions().front(); }
  std::int64_t head_dim_;
};

struct Toy {
  explicit Toy(sim::AttentionKernel kernel) {
    sim::Layout layout = toy_layout();
    layout.attention = kernel;
    plan = sim::make_plan(model, layout);
    program = real::bind(plan, model, sim::RankId{0});
  }
  sim::Model model = sim::build_transformer(toy_shape());  // heads of 4 elements
  sim::Plan plan;
  real::BoundProgram program;
};

// Runs all attention of the program once; how often `counted` ran its forward pass, and the
// launches that there were.
std::pair<int, int> run_attention(const Toy& toy, const Counted& counted) {
  const std::array<const real::Attention*, 3> all{&counted, real::host_attentions()[0],
                                                  real::host_attentions()[1]};
  const real::ScratchLayout layout =
      real::scratch_layout(toy.program, real::host_kernels(), all, 0);
  real::Arena arena{toy.program.arena_bytes};
  real::Arena scratch{layout.bytes};
  const real::StepMemory memory =
      real::step_memory(layout, toy.program, scratch.bytes(0, layout.bytes).data());
  const sim::Training training;
  real::HostProducts products;
  real::KernelLaunches launches{{.program = toy.program,
                                 .training = training,
                                 .arena = arena.bytes(0, arena.size()).data(),
                                 .memory = memory,
                                 .kernels = real::host_kernels(),
                                 .attentions = all,
                                 .products = products}};
  int forwards = 0;
  for (const real::BoundOp& op : toy.program.ops) {
    if (op.model_op == nullptr || op.model_op->function != sim::Function::attention) continue;
    launches.launch_of(op)(nullptr);
    forwards += op.action == sim::Action::forward ? 1 : 0;
  }
  return {counted.forwards, forwards};
}

}  // namespace

TEST_CASE("an operator takes the first attention that takes its shape, with its workspace",
          "[real_host]") {
  using sim::AttentionKernel;
  const auto [taken, all] = run_attention(Toy{AttentionKernel::flash}, Counted{4});
  CHECK(all == 8);  // two layers, four micro-batches
  CHECK(taken == all);
  CHECK(run_attention(Toy{AttentionKernel::flash}, Counted{8}) == std::pair{0, 8});
  CHECK(run_attention(Toy{AttentionKernel::unfused}, Counted{4}) == std::pair{0, 8});
}

TEST_CASE("a shape that no attention takes is named, with those that there are", "[real_host]") {
  const Counted one{64};
  const Counted other{128};
  const std::array<const real::Attention*, 2> all{&one, &other};
  const real::kernels::AttentionShape shape{
      .heads = {.tokens = 8, .sequence = 8, .heads = 4, .kv_heads = 2, .head_dim = 48}};
  REQUIRE_THROWS_WITH(real::attention_for(shape, all),
                      "no kernel takes attention of 4 heads of 48 elements, 2 key/value heads, 8 "
                      "tokens in a sequence, causal; there are: counted, counted");
}
