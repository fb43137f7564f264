// Effects of a distribution of tokens over experts: shares of ranks, drops, plans.
#include "sim/plan/sharding/expert_shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/drawn_load.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout layout_of(int experts) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.expert_parallel = experts;
  layout.expert_tensor_parallel = 1;
  return layout;
}

// Shares of 8 experts, two for each token.
ExpertShares shares_of(const Layout& layout) {
  return expert_shares(layout, test::mixture(0));
}

double cv_of(const std::vector<double>& row) {
  const auto count = static_cast<double>(row.size());
  double sum = 0, squares = 0;
  for (const double value : row) {
    sum += value;
    squares += value * value;
  }
  return std::sqrt(squares / count / (sum / count * sum / count) - 1);
}

double flops_of(const Program& program, const std::string& name) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::gemm && program.name({i}) == name)
      sum += program.kernels[program.work[i]].flops.count();
  return sum;
}

}  // namespace

TEST_CASE("the fullest rank paces, and one rank holds most", "[plan][experts]") {
  Layout layout = layout_of(4);
  // Ranks have two experts each: 2.5 and 1.75 times the mean; over both rows 1.75 on rank 0.
  layout.expert_load = ExpertLoad{{{16, 4, 2, 2, 2, 2, 2, 2}, {4, 4, 2, 2, 2, 2, 7, 7}}};
  const ExpertShares shares = shares_of(layout);
  const double first = 10 / (32 / 8.0), second = 7 / (30 / 8.0);
  CHECK_THAT(shares.paced.come, WithinRel((first + second) / 2, 1e-12));
  CHECK_THAT(shares.held.come, WithinRel((first + 4 / (30 / 8.0)) / 2, 1e-12));
  CHECK(shares.fullest_rank == 0);
  CHECK(shares.sent == 1);
  CHECK(shares.dropped == 0);
  REQUIRE(shares.paced.sizes.size() == 2);
  CHECK_THAT(shares.paced.sizes[0], WithinRel((16 / 4.0 + 7 / 3.75) / 2, 1e-12));
  CHECK_THAT(shares.paced.sizes[1], WithinRel((4 / 4.0 + 7 / 3.75) / 2, 1e-12));
}

TEST_CASE("a capacity drops what is beyond it, expert by expert", "[plan][experts]") {
  Layout layout = layout_of(4);
  layout.expert_load = ExpertLoad{{{16, 4, 2, 2, 2, 2, 2, 2}}};  // over the mean: 4, 1, 0.5 ...
  layout.expert_capacity = 1.5;
  const ExpertShares shares = shares_of(layout);
  CHECK_THAT(shares.dropped, WithinRel((4 - 1.5) / 8, 1e-12));
  CHECK_THAT(shares.sent, WithinRel(1 - (4 - 1.5) / 8, 1e-12));
  CHECK_THAT(shares.paced.come, WithinRel((1.5 + 1) / 2, 1e-12));
  layout.pad_to_capacity = true;
  const ExpertShares padded = shares_of(layout);
  CHECK_THAT(padded.dropped, WithinRel((4 - 1.5) / 8, 1e-12));
  CHECK(padded.sent == 1.5);
  CHECK(padded.paced.come == 1.5);
}

TEST_CASE("equal rows are as none, and expert_imbalance stays", "[plan][experts]") {
  for (const TokenDispatcher dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::deepep}) {
    Layout layout = layout_of(4);
    layout.token_dispatcher = dispatcher;
    layout.expert_load = ExpertLoad{{std::vector<double>(8, 7.0)}};
    const ExpertShares shares = shares_of(layout);
    CHECK_THAT(shares.paced.come, WithinRel(1, 1e-12));
    CHECK_THAT(shares.held.come, WithinRel(1, 1e-12));
    CHECK(shares.dropped == 0);
    for (const double block : shares.paced.blocks)
      if (block > 0) CHECK_THAT(block, WithinRel(1, 1e-9));
  }
  Layout layout = layout_of(4);
  layout.expert_imbalance = 1.5;
  CHECK(shares_of(layout).paced.come == 1.5);
  CHECK(shares_of(layout).paced.sizes.empty());
  layout.expert_capacity = 1.25;
  CHECK(shares_of(layout).paced.come == 1.25);
}

TEST_CASE("fused dispatchers send fewer tokens to blocks of ranks than choices",
          "[plan][experts]") {
  Layout layout = layout_of(4);
  layout.token_dispatcher = TokenDispatcher::deepep;
  layout.expert_load = ExpertLoad{{{16, 4, 2, 2, 2, 2, 2, 2}}};
  const ExpertShares shares = shares_of(layout);
  // A token that has chosen both experts of a rank is sent once.
  CHECK(shares.paced.blocks[0] > 1);
  CHECK(shares.paced.blocks[0] < shares.paced.come);
  CHECK(shares.paced.blocks[1] < shares.paced.blocks[0]);  // of two ranks
  CHECK_THAT(shares.paced.blocks[2], WithinRel(1, 1e-9));  // of all
  CHECK(shares.paced.blocks[3] == 0);
}

TEST_CASE("loads are drawn with the spread that is asked for", "[plan][experts]") {
  for (const double cv : {0.1, 0.5, 1.0}) {
    const auto rows = drawn_load({.experts = 64, .per_token = 1, .rows = 400, .cv = cv});
    double squares = 0;
    for (const std::vector<double>& row : rows) {
      CHECK_THAT(std::accumulate(row.begin(), row.end(), 0.0), WithinRel(64, 1e-9));
      squares += cv_of(row) * cv_of(row);
    }
    CHECK_THAT(std::sqrt(squares / 400), WithinRel(cv, 0.05));
  }
  const LoadDraw draw{.experts = 8, .per_token = 2, .rows = 2, .cv = 1.2};
  CHECK(drawn_load(draw) == drawn_load(draw));
  LoadDraw other = draw;
  other.seed = 2;
  CHECK_FALSE(drawn_load(draw) == drawn_load(other));
  for (const std::vector<double>& row : drawn_load(draw))
    for (const double load : row)
      CHECK(load <= 4 * (1 + 1e-9));  // a token chooses an expert once
}

// A search prices a model of few layers in the place of the whole one.
TEST_CASE("a model that is cut short has the draws of the whole one", "[plan][experts]") {
  const Model whole = test::mixture(0, 6);
  Model cut = whole;
  cut.layers.resize(2);
  Layout layout = layout_of(4);
  layout.expert_load_cv = 0.7;
  CHECK(expert_shares(layout, cut).paced.come == expert_shares(layout, whole).paced.come);
  CHECK(expert_load_rows(layout, whole).size() == 6);
}

// Shazeer et al. 2017 (arXiv:1701.06538), table 6: CV(Load) and max(Load) / mean(Load) of 256
// experts, measured in training with six weights of the balancing losses.
TEST_CASE("the fullest expert of a drawn load is as full as measured ones", "[plan][experts]") {
  struct Row {
    double cv, most;
  };
  for (const Row& row : {Row{0.17, 1.47}, Row{0.04, 1.15}, Row{0.05, 1.14}, Row{0.11, 1.37},
                         Row{0.02, 1.07}, Row{3.01, 17.8}}) {
    double most = 0;
    constexpr int draws = 200;
    for (const auto& drawn :
         drawn_load({.experts = 256, .per_token = 1, .rows = draws, .cv = row.cv}))
      most += *std::max_element(drawn.begin(), drawn.end()) / draws;
    CAPTURE(row.cv, row.most, most);
    CHECK_THAT(most - 1, WithinRel(row.most - 1, 0.35));
  }
}

TEST_CASE("plans with uneven experts are sound, and what they do follows the fullest rank",
          "[plan][experts]") {
  for (const TokenDispatcher dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::allgather,
                                           TokenDispatcher::deepep, TokenDispatcher::hybridep})
    for (int kind = 0; kind < test::mixture_kinds; ++kind) {
      CAPTURE(word(dispatcher), kind);
      const Model model = test::mixture(kind);
      Layout layout = layout_of(4);
      layout.token_dispatcher = dispatcher;
      const Plan even = make_plan(model, layout);
      layout.expert_load = ExpertLoad{{{8, 8, 2, 2, 2, 2, 4, 4}}};
      REQUIRE(layout_problems(layout, model).empty());
      const Plan plan = make_plan(model, layout);
      check_plan(plan);
      // To the first rank come twice as many as to each in the mean.
      CHECK_THAT(flops_of(plan.programs[0], "expert_up") / flops_of(even.programs[0], "expert_up"),
                 WithinRel(2, 0.01));
      CHECK(plan.programs[0].size() == even.programs[0].size());
      CHECK(memory_use(plan.programs[0]).peak > memory_use(even.programs[0]).peak);
    }
}

TEST_CASE("what is wrong with a distribution", "[plan][experts]") {
  const Model model = test::mixture(0);
  const auto problems = [&](auto change) {
    Layout layout = layout_of(4);
    change(layout);
    std::vector<std::string> texts;
    for (const LayoutProblem& problem : layout_problems(layout, model))
      texts.push_back(problem.what);
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(problems([](Layout& l) {
          l.expert_load = ExpertLoad{{{1, 2, 3}}};
        }) == Texts{"moe.load has 3 experts, and " + model.name + " has 8"});
  CHECK(problems([](Layout& l) {
          l.expert_load = ExpertLoad{{{9, 1, 1, 1, 1, 1, 1, 1}}};
        }) ==
        Texts{"moe.load: expert 0 has 9 of the 16 choices in row 1; with 2 different experts for "
              "each token an expert has at most 1 of 2"});
  CHECK(problems([](Layout& l) {
          l.expert_load_cv = 0.5;
          l.expert_imbalance = 1.5;
        }) ==
        Texts{"expert_imbalance is 1.5 with moe.load_cv, from which the fullest rank follows; "
              "allowed: 1"});
  CHECK(
      problems([](Layout& l) { l.expert_load_cv = 2; }) ==
      Texts{"moe.load_cv is 2; allowed: less than 1.732, at which all tokens choose the same 2 of "
            "8 experts"});
  CHECK(problems([](Layout& l) { l.expert_load_seed = 2; }) ==
        Texts{"moe.load_seed is of moe.load_cv, which is 0"});
  CHECK(problems([](Layout& l) {
          l.expert_load = ExpertLoad{{std::vector<double>(8, 1.0)}};
          l.expert_load_cv = 0.5;
        }) == Texts{"moe.load_cv excludes moe.load: give one of them"});
}
