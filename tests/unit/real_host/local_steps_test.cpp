// The host's kernels of ranks that meet.
#include <array>

#include "real/host/kernels_local_steps.hpp"
#include "tests/catch.hpp"

using namespace real;

TEST_CASE("an outer gradient is how far a rank has come", "[real_host]") {
  const std::array<float, 3> own{1, 2, 3}, last{2, 2, 1};
  std::array<float, 3> message{};
  const kernels::OuterTable& table = host::host_local_steps();
  table.outer_gradient(3, own.data(), last.data(), message.data(), nullptr);
  CHECK(message == std::array<float, 3>{1, 0, -2});
  table.outer_gradient(3, own.data(), nullptr, message.data(), nullptr);
  CHECK(message == own);
}

TEST_CASE("Nesterov's momentum as torch.optim.SGD has it", "[real_host]") {
  const kernels::OuterTable& table = host::host_local_steps();
  float last = 1, velocity = 0, master = 0.5F, weight = 0.5F;
  const float gradient = 0.25F;
  const kernels::OuterState state{.message = &gradient,
                                  .last = &last,
                                  .velocity = &velocity,
                                  .master = &master,
                                  .weight = &weight};
  const kernels::OuterUpdate update{.nesterov = true, .rate = 0.5F, .momentum = 0.5F};
  table.apply_outer(update, state, 1, nullptr);
  // v = 0.25; p = 1 - 0.5 (0.25 + 0.5 x 0.25).
  CHECK(velocity == 0.25F);
  CHECK(last == Approx(0.8125F));
  CHECK(master == last);
  CHECK(weight == last);
  table.apply_outer(update, state, 1, nullptr);
  // v = 0.375; p = 0.8125 - 0.5 (0.25 + 0.5 x 0.375).
  CHECK(velocity == 0.375F);
  CHECK(last == Approx(0.59375F));
}

TEST_CASE("a share of its own parameters stays", "[real_host]") {
  const float mean = 2;
  float weight = 1;
  host::host_local_steps().apply_outer({.mix = 0.25F}, {.message = &mean, .weight = &weight}, 1,
                                       nullptr);
  CHECK(weight == Approx(0.25F * 1 + 0.75F * 2));
}
