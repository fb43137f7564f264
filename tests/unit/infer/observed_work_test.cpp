// Products of a step as layers.
#include "sim/infer/observed_work.hpp"

#include "tests/catch.hpp"

using namespace sim;

namespace {

// A rank whose step issues these products, one kernel each.
struct Issued {
  RunRank rank;
  RankSteps steps;
  void add(const Product& product) {
    rank.products.push_back(product);
    DeviceActivity kernel;
    kernel.product = static_cast<std::int32_t>(rank.products.size() - 1);
    rank.device.push_back(kernel);
    steps.step_of.push_back(0);
  }
  // Forward, gradient of the input, gradient of the weights.
  void add_linear(std::int64_t tokens, std::int64_t in, std::int64_t out, bool forward) {
    if (forward) return add({tokens, out, in});
    add({tokens, in, out});
    add({out, in, tokens});
  }
};

Issued layer(std::int64_t tokens, std::int64_t hidden, std::int64_t wide) {
  Issued issued;
  issued.add_linear(tokens, hidden, wide, true);
  issued.add_linear(tokens, wide, hidden, true);
  issued.add_linear(tokens, wide, hidden, false);
  issued.add_linear(tokens, hidden, wide, false);
  return issued;
}

}  // namespace

TEST_CASE("observed work: the tokens are told from the width by which is depth later") {
  for (const std::int64_t tokens : {512, 2048, 65'536}) {
    const Issued issued = layer(tokens, 1024, 4096);
    const auto work = observed_work(issued.rank, issued.steps, 0);
    REQUIRE(work);
    CHECK(work->tokens == tokens);
    REQUIRE(work->linears.size() == 1);
    CHECK(work->linears[0].narrow == 1024);
    CHECK(work->linears[0].wide == 4096);
    CHECK(work->linears[0].gradients == 2);
    CHECK(work->linears[0].products == 6);
    CHECK(work->covered == Approx(1));
  }
}

TEST_CASE("observed work: as many tokens as features") {
  Issued issued = layer(1024, 1024, 4096);
  issued.add_linear(1024, 1024, 3072, true);
  issued.add_linear(1024, 1024, 3072, false);
  const auto work = observed_work(issued.rank, issued.steps, 0);
  REQUIRE(work);
  CHECK(work->tokens == 1024);
  REQUIRE(work->linears.size() == 2);
  CHECK(work->linears[0].gradients == 2);
  CHECK_FALSE(work->linears[0].all_alike);
}

TEST_CASE("observed work: kernels of one operator are one product") {
  Issued issued = layer(512, 1024, 4096);
  for (DeviceActivity& kernel : issued.rank.device)
    kernel.issuer = kernel.product;
  issued.rank.device.push_back(issued.rank.device.back());
  issued.steps.step_of.push_back(0);
  const auto work = observed_work(issued.rank, issued.steps, 0);
  REQUIRE(work);
  CHECK(work->linears[0].products == 6);
}

TEST_CASE("observed work: nothing without shapes") {
  Issued issued;
  issued.rank.device.emplace_back();
  issued.steps.step_of.push_back(0);
  CHECK_FALSE(observed_work(issued.rank, issued.steps, 0));
}
