// The host's kernels of ranks that meet.
#include <algorithm>
#include <array>
#include <vector>

#include "real/host/kernels/kernels_local_steps.hpp"
#include "real/host/kernels/kernels_quantized.hpp"
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

TEST_CASE("E3M0 keeps powers of two, zero and signs, and rounds to the nearest", "[real_host]") {
  const std::vector<float> exact{8, -4, 2, 1, 0.5F, -0.25F, 0.125F, 0};
  std::vector<std::byte> packed(static_cast<std::size_t>(host::quantized_size(8, 4)));
  std::vector<float> back(8);
  host::encode_e3m0_piece(8, exact.data(), packed.data());
  host::decode_e3m0_piece(8, packed.data(), back.data());
  CHECK(back == exact);
  // The middle of 4 and 8 is 6; of the least, 0.125, and zero it is 0.0625.
  const std::vector<float> between{8, 5.9F, 6.1F, -3.1F, -2.9F, 0.07F, 0.06F, -1.4F};
  host::encode_e3m0_piece(8, between.data(), packed.data());
  host::decode_e3m0_piece(8, packed.data(), back.data());
  CHECK(back == std::vector<float>{8, 4, 8, -4, -2, 0.125F, 0, -1});
}

TEST_CASE("the mean of quantised pieces is that of their numbers", "[real_host]") {
  for (const sim::OuterQuantization how :
       {sim::OuterQuantization::int8, sim::OuterQuantization::e3m0}) {
    // Five numbers for two groups: three each, of which the last is none.
    const kernels::OuterPieces pieces{.how = how, .elements = 5, .part = 3, .count = 2};
    const std::vector<float> last{1, 1, 1, 1, 1}, own{0, 2, 0.5F, 0, 0.5F};
    const auto piece = static_cast<std::size_t>(
        host::quantized_size(3, how == sim::OuterQuantization::int8 ? 8 : 4));
    std::vector<std::byte> message(2 * piece), came(2 * piece), mean(piece);
    const kernels::OuterTable& table = host::host_local_steps();
    table.quantized_outer_gradient(pieces, own.data(), last.data(), message.data(), nullptr);
    // Both groups have the same: so is the mean.
    for (std::size_t i = 0; i < 2 * piece; ++i)
      came[i] = message[i % piece];
    table.mean_outer(pieces, came.data(), mean.data(), nullptr);
    CHECK(std::equal(mean.begin(), mean.end(), message.begin()));
    std::vector<float> state(10), weight(5);
    std::copy(last.begin(), last.end(), state.begin());
    table.apply_outer({.nesterov = true, .rate = 1, .momentum = 0, .pieces = pieces},
                      {.pieces = message.data(),
                       .last = state.data(),
                       .velocity = state.data() + 5,
                       .weight = weight.data()},
                      5, nullptr);
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(weight[i] == Approx(own[i]).margin(0.01));
  }
}

TEST_CASE("a share of its own parameters stays", "[real_host]") {
  const float mean = 2;
  float weight = 1;
  host::host_local_steps().apply_outer({.mix = 0.25F}, {.message = &mean, .weight = &weight}, 1,
                                       nullptr);
  CHECK(weight == Approx(0.25F * 1 + 0.75F * 2));
}
