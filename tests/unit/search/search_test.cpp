// A search drops nothing that belongs to its result, and depends on nothing but its input.
#include "sim/search/search.hpp"

#include <tbb/task_arena.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stop_token>

#include "sim/report/report.hpp"
#include "sim/search/result.hpp"
#include "sim/uncertainty/time_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/search/small_search.hpp"

using namespace sim;
using test::small_search;

namespace {

const Control never;

struct Outcome {
  std::vector<Evaluation> best, within, memory, gpus;
  SearchCounts counts;
};

Outcome outcome_of(SearchSpecification specification, bool prune) {
  specification.prune = prune;
  Search search{std::move(specification)};
  REQUIRE(run_search(search, never));
  const Ranking& ranking = search.ranking();
  return {ranking.best(), ranking.within_margin(), ranking.memory_front(), ranking.by_gpus(),
          search.counts()};
}

// Spaces of a few hundred layouts that differ in what they exercise.
const std::vector<std::pair<std::string, std::string>> spaces{
    {"top: 5, micro_batch: [1, 2], zero_stage: [0, 1], shard_group: 0, recompute_every: 1, "
     "virtual_stages: [1, 2, 3]",
     "global_batch: 16"},
    {"top: 3, tensor_parallel: [1, 2], micro_batch: 1, virtual_stages: 1, recompute: none",
     "global_batch: 32, gradient_dtype: fp32"},
    {"top: 4, gpus: [2, 4, 8], micro_batch: [1, 4], zero_stage: [0, 3], shard_group: 0, "
     "virtual_stages: [1, 2], recompute: [none, full], recompute_every: [1, 3]",
     "global_batch: 16, overlap: false"},
    {"top: 4, context_parallel: [1, 2], tensor_parallel: [1, 2, 4], zero_stage: 1, shard_group: 0, "
     "micro_batch: 1, virtual_stages: 1, recompute: none, placement: [tp-cp-dp-pp, dp-pp-tp-cp]",
     "global_batch: 8, reduce_dtype: fp32"},
    {"top: 3, context_parallel: [1, 2, 4], context_exchange: [ring, all_gather, all_to_all], "
     "tensor_parallel: [1, 2], zero_stage: [0, 1], shard_group: 0, micro_batch: 1, "
     "virtual_stages: 1, recompute: none, placement: tp-cp-dp-pp",
     "global_batch: 8"},
    {"top: 2, recompute: [none, selective], micro_batch: [1, 2], zero_stage: [0, 2], shard_group: "
     "0, schedule: [gpipe, zb-h1, 1f1b], virtual_stages: 1",
     "global_batch: 16, attention: unfused"},
    {"top: 3, micro_batch: [1, 2], zero_stage: [0, 1], shard_group: 0, schedule: [1f1b, gpipe], "
     "virtual_stages: 1, recompute: [none, full], placement: tp-cp-dp-pp",
     "global_batch: 16, overlap: {tensor_products: true}"},
    {"top: 3, micro_batch: [1, 2], zero_stage: [0, 1, 3], shard_group: 0, schedule: [1f1b, gpipe, "
     "zb-h1, interleaved], virtual_stages: [1, 2], recompute: none, placement: tp-cp-dp-pp",
     "global_batch: 32, pipeline_parallel: 2, pipeline_runs: 2"}};

}  // namespace

TEST_CASE("pruning changes no result", "[search]") {
  std::uint64_t spared = 0;
  for (const auto& [space, layout] : spaces) {
    CAPTURE(space);
    const Outcome all = outcome_of(small_search(space, layout), false);
    const Outcome pruned = outcome_of(small_search(space, layout), true);
    CHECK(all.counts.simulated + all.counts.too_large == all.counts.legal);
    CHECK(pruned.best == all.best);
    CHECK(pruned.memory == all.memory);
    CHECK(pruned.gpus == all.gpus);
    spared += all.counts.simulated - pruned.counts.simulated;
  }
  CHECK(spared > 0);
}

namespace {

// memory_of() is over all stages: an evaluation looks no further than the first one that needs too
// much.
Bytes memory_of(const SearchSpecification& asked, const Candidates& listed, std::uint32_t index) {
  const Plan plan = make_plan(asked.workload.model, layout_of(asked, listed, index));
  Bytes most{};
  for (const StageMemory& stage : stage_memory(plan, cluster_of(asked, listed, index)))
    most = std::max(most, stage.total);
  return most;
}

}  // namespace

TEST_CASE("no layout takes less time or memory than its bounds", "[search]") {
  for (const auto& [space, layout] : spaces) {
    CAPTURE(space);
    const SearchSpecification asked = small_search(space, layout);
    const Candidates listed = list_candidates(asked);
    const Bounds bounds{asked, listed};
    std::vector<Bound> coarse(listed.all.size());
    for (std::uint32_t i = 0; i < listed.pipelines.size(); ++i)
      bounds.coarse(i, coarse);
    for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
      const Evaluation exact = evaluate(asked, listed, i);
      CAPTURE(describe(layout_of(asked, listed, i)));
      CHECK(exact.least_memory <= exact.memory);
      CHECK(coarse[i].memory <= memory_of(asked, listed, i));
      if (!exact.fits) continue;
      CHECK(coarse[i].step_time <= exact.step_time);
      CHECK(bounds.fine(i).step_time <= exact.step_time);
    }
  }
}

TEST_CASE("result and counts do not depend on the number of threads", "[search]") {
  const auto json_with = [](int threads) {
    tbb::task_arena arena{threads > 0 ? threads : tbb::task_arena::automatic};
    return arena.execute([] {
      Search search{small_search(spaces[0].first)};
      REQUIRE(run_search(search, never));
      return search_json(make_result(search, true));
    });
  };
  const std::string one = json_with(1);
  CHECK(json_with(4) == one);
  CHECK(json_with(0) == one);
}

TEST_CASE("a result is computed from evaluations in any order, through their text", "[search]") {
  const SearchSpecification asked = small_search("top: 3, micro_batch: 2, zero_stage: 0");
  const Candidates listed = list_candidates(asked);
  std::vector<Evaluation> made;
  for (std::uint32_t i = 0; i < listed.all.size(); i += 3)
    made.push_back(evaluate(asked, listed, i));
  Ranking forward{asked, listed}, backward{asked, listed};
  for (const Evaluation& one : made)
    forward.add(one);
  std::reverse(made.begin(), made.end());
  for (const Evaluation& one : made)
    backward.add(evaluation_of_text(one.index, answer_text(one)));
  CHECK(forward.best() == backward.best());
  CHECK(forward.memory_front() == backward.memory_front());
}

TEST_CASE("layouts that are equal in time and memory are one row, in any order", "[search]") {
  const SearchSpecification asked = small_search("top: 3, zero_stage: 0");
  const Candidates listed = list_candidates(asked);
  REQUIRE(listed.all.size() > 4);
  const auto of = [](std::uint32_t index, int milliseconds, std::int64_t bytes) {
    return Evaluation{.index = index,
                      .fits = true,
                      .memory = Bytes{bytes},
                      .step_time = std::chrono::milliseconds{milliseconds}};
  };
  std::vector<Evaluation> made{of(3, 10, 1000), of(0, 10, 1000), of(1, 10, 999), of(2, 11, 1000),
                               of(4, 12, 1000)};
  Ranking ranking{asked, listed};
  for (const Evaluation& one : made)
    ranking.add(one);
  CHECK(ranking.best() == std::vector<Evaluation>{made[1], made[2], made[3]});
  std::reverse(made.begin(), made.end());
  Ranking backward{asked, listed};
  for (const Evaluation& one : made)
    backward.add(one);
  CHECK(backward.best() == ranking.best());
}

TEST_CASE("of layouts as fast, the one that is less sure comes behind and has more regret",
          "[search]") {
  TimeErrorModel model;
  model.rest = 0.05;
  model.unlike = 0.2;
  model.categories = {"framework megatron", "generation hopper", "dtype bf16",
                      "dtype bf16 on hopper", "schedule none"};
  const TimeErrors errors{model};
  const auto layout = [](int milliseconds, bool unlike) {
    RankedLayout one;
    one.evaluation.step_time = std::chrono::milliseconds{milliseconds};
    one.traits.emplace();
    one.traits->job = "a job";
    one.traits->context = unlike;
    return one;
  };
  std::vector<RankedLayout> layouts{layout(1000, true), layout(1001, false), layout(1500, false)};
  weigh_errors(&errors, layouts);
  CHECK(layouts[0].evaluation.step_time == std::chrono::milliseconds{1001});
  CHECK(layouts[1].evaluation.step_time == std::chrono::milliseconds{1000});
  CHECK(*layouts[0].regret < *layouts[1].regret);
  CHECK(*layouts[1].regret < *layouts[2].regret);
  CHECK(*layouts[1].chance_behind < 0.5);
  CHECK(*layouts[2].chance_behind > 0.9);
  // Without figures of errors the forecast alone decides.
  std::vector<RankedLayout> plain{layout(1000, true), layout(1001, false)};
  weigh_errors(nullptr, plain);
  CHECK(plain[0].evaluation.step_time == std::chrono::milliseconds{1000});
  CHECK_FALSE(plain[0].regret);
}

TEST_CASE("a ranking explains the words of its layouts, and no others", "[search]") {
  Search search{small_search("top: 2, gpus: 8, data_parallel: 8, zero_stage: 1, shard_group: 4")};
  REQUIRE(run_search(search, never));
  const std::string text = search_markdown(make_result(search, true));
  CHECK(text.find("zero-1/4") != std::string::npos);
  CHECK(text.find("zero-: stage of ZeRO; with /N, each N replicas hold a copy") !=
        std::string::npos);
  CHECK(text.find("mb: sequences of a micro-batch") != std::string::npos);
  CHECK(text.find("virtual stages") == std::string::npos);
}

TEST_CASE("a search that is stopped keeps what it has", "[search]") {
  Search search{small_search(spaces[0].first)};
  std::stop_source stop;
  const bool complete = run_search(search, {.stop = stop.get_token()},
                                   [&](const SearchProgress&) { stop.request_stop(); });
  CHECK_FALSE(complete);
  CHECK(!search.ranking().best().empty());
  const SearchResult result = make_result(search, false);
  CHECK(result.counts.open > 0);
  CHECK(search_table(result).find("Stopped early") != std::string::npos);
  // Layouts that are left are no better than the result says.
  Search whole{small_search(spaces[0].first)};
  REQUIRE(run_search(whole, never));
  REQUIRE(result.could_be_faster);
  CHECK(to_seconds(whole.ranking().favourite()->step_time) >=
        to_seconds(result.favourite()->evaluation.step_time) * (1 - *result.could_be_faster));
  CHECK_FALSE(make_result(whole, true).could_be_faster);
}

TEST_CASE("what was handed out and not judged is still open", "[search]") {
  Search search{small_search(spaces[0].first)};
  const std::uint64_t legal = search.counts().open;
  const std::vector<std::uint32_t> wave = search.next_wave();
  REQUIRE(wave.size() > 1);
  const std::optional<Duration> least = search.least_of_open();
  search.accept(std::vector{evaluate(search.specification(), search.candidates(), wave.front())});
  CHECK(search.counts().open + 1 + search.counts().too_slow + search.counts().too_large_by_bound >=
        legal);
  CHECK(search.least_of_open() >= least);
  CHECK(search.next_wave().front() == wave[1]);
}

TEST_CASE("every evaluation is told once, as it is made, and the telling changes nothing",
          "[search]") {
  Search quiet{small_search(spaces[2].first)};
  REQUIRE(run_search(quiet, never));
  Search search{small_search(spaces[2].first)};
  std::mutex telling;
  std::vector<Judged> told;
  std::uint64_t decided = 0;
  REQUIRE(run_search(
      search, {.progress = [&](const Progress&) { CHECK(search.counts().legal > 0); }},
      [&](const SearchProgress& progress) {
        decided = progress.counts.simulated + progress.counts.too_large;
        CHECK(told.size() >= decided);
      },
      [&](const Judged& one) {
        const std::scoped_lock lock{telling};
        told.push_back(one);
      }));
  std::erase_if(told, [](const Judged& one) { return one.verdict == Verdict::too_slow; });
  CHECK(told.size() == decided);
  CHECK(search_json(make_result(search, true)) == search_json(make_result(quiet, true)));
  std::set<std::uint32_t> indices;
  for (const auto& [evaluation, verdict] : told) {
    CHECK(indices.insert(evaluation.index).second);
    const Evaluation exact =
        evaluate(search.specification(), search.candidates(), evaluation.index);
    if (verdict == Verdict::outranked)
      CHECK(evaluation.step_time <= exact.step_time);
    else
      CHECK(evaluation == exact);
  }
}

TEST_CASE("a search is stopped while it bounds layouts, too", "[search]") {
  Search search{small_search(spaces[0].first)};
  std::stop_source stop;
  CHECK_FALSE(run_search(search, {.stop = stop.get_token(),
                                  .progress = [&](const Progress&) { stop.request_stop(); }}));
  CHECK(search.counts().simulated == 0);
  CHECK(search.counts().open > 0);
}

TEST_CASE("the outline of a result is the result without the parts of layouts", "[search]") {
  Search search{small_search(spaces[2].first)};
  REQUIRE(run_search(search, never));
  SearchResult whole = make_result(search, true);
  const SearchResult outlined = outline_result(search, true);
  REQUIRE(whole.best.size() > 1);
  CHECK(whole.best[0].breakdown.total() == whole.best[0].evaluation.step_time);
  CHECK(ranked(search, whole.best[1].evaluation).breakdown == whole.best[1].breakdown);
  whole.comparison.clear();
  for (auto* list : {&whole.best, &whole.within_margin})
    for (RankedLayout& one : *list) {
      one.breakdown = {};
      one.interval = {};
      one.chance_behind = {};
      one.regret = {};
    }
  CHECK(search_json(outlined) == search_json(whole));
}

TEST_CASE("where nothing fits, the answer says what is closest and what would help", "[search]") {
  // 1,024 sequences in one micro-batch on one GPU.
  Search search{small_search("gpus: 1, micro_batch: 1024, recompute: none", "global_batch: 1024")};
  REQUIRE(run_search(search, never));
  const SearchResult result = make_result(search, true);
  CHECK(result.best.empty());
  CHECK(result.nothing_fits.find("nothing fits; closest is tp 1 pp 1 dp 1 mb 1024") !=
        std::string::npos);
  CHECK(result.nothing_fits.find("try: layout.micro_batch: 1") != std::string::npos);
}

TEST_CASE("the best layout comes as a scenario that can be simulated", "[search]") {
  Search search{small_search("top: 1, micro_batch: [1, 2]")};
  REQUIRE(run_search(search, never));
  const Evaluation best = search.ranking().best().front();
  const Scenario scenario = take_scenario(std::move(search), best.index);
  const Plan plan = make_plan(scenario.model, scenario.layout);
  CHECK(simulate(plan, scenario.cluster, scenario.options).timeline.end.time_since_epoch() ==
        best.step_time);
}

namespace {

// A mixture of experts on racks of 72 GPUs; `options` on top.
SearchSpecification rack_search(const std::string& model, int nodes, int gpus,
                                const std::vector<std::string>& options) {
  const std::string root = sim::test::source_dir();
  std::vector<std::string> all{"model=" + root + "/models/" + model,
                               "cluster.path=" + root + "/topologies/gb200-nvl72.yaml",
                               "cluster.nodes=" + std::to_string(nodes),
                               "cluster.gpus=" + std::to_string(gpus),
                               "layout.sequence_length=4096",
                               "layout.global_batch=512",
                               "search.tensor_parallel=1",
                               "search.micro_batch=1",
                               "search.recompute=none",
                               "search.schedule=1f1b"};
  all.insert(all.end(), options.begin(), options.end());
  return load_search(ScenarioSources::of_options(all));
}

}  // namespace

TEST_CASE("experts are shared within a rack, which keeps some GPUs idle", "[search]") {
  Search search{rack_search("deepseek-v2.yaml", 4, 256,
                            {"search.pipeline_parallel=[1, 2]", "search.zero_stage=1"})};
  REQUIRE(run_search(search, never));
  const SearchResult result = make_result(search, true);
  REQUIRE(result.best.front().layout.expert_parallel == 32);
  CHECK(result.best.front().gpus_per_node == 64);
  CHECK(search_table(result).find("zero-1 64/node") != std::string::npos);
  CHECK(search_json(result).find("\"gpus\": 256, \"gpus_per_node\": 64,") != std::string::npos);
  const std::uint32_t best = search.ranking().best().front().index;
  const Scenario taken = take_scenario(std::move(search), best);
  CHECK(taken.cluster.gpus_per_node() == 64);
}

TEST_CASE("pruning changes no result where GPUs per node vary", "[search]") {
  const auto asked = [] {
    return rack_search("mixtral-8x7b.yaml", 2, 128,
                       {"search.gpus_per_node=[64, 72]", "search.top=3", "search.wave=2",
                        "search.pipeline_parallel=[1, 2, 4]", "search.zero_stage=[0, 1]"});
  };
  const Outcome pruned = outcome_of(asked(), true);
  const Outcome all = outcome_of(asked(), false);
  CHECK(pruned.best == all.best);
  CHECK(pruned.memory == all.memory);
  CHECK(pruned.counts.simulated < all.counts.simulated);
}

TEST_CASE("as many GPUs per node as the nodes need", "[search]") {
  const SearchSpecification fixed =
      rack_search("mixtral-8x7b.yaml", 2, 128, {"cluster.gpus_per_node=64"});
  CHECK(fixed.space.gpus_per_node == std::vector<int>{64});
  const Candidates few =
      list_candidates(rack_search("mixtral-8x7b.yaml", 2, 128, {"search.gpus_per_node=[60, 68]"}));
  CHECK(few.gpus_per_node == std::vector<int>{68});
  CHECK(few.refused[static_cast<std::size_t>(Refusal::room)] > 0);
  // Left open: what keeps groups whole, and racks filled alike.
  const Candidates open = list_candidates(rack_search("mixtral-8x7b.yaml", 2, 128, {}));
  CHECK(open.gpus_per_node == std::vector<int>{64, 72});
  CHECK_THROWS_AS(rack_search("mixtral-8x7b.yaml", 2, 128, {"search.gpus_per_node=73"}),
                  InputError);
}

// The layouts of this space need between 6 and 14 GiB of 80: the margin sets the lean ones apart.
TEST_CASE("pruning changes no result with a memory margin", "[search]") {
  for (const char* margin : {"68 GiB", "72 GiB", "79 GiB", "10"}) {
    for (const auto& [space, layout] : {spaces[0], spaces[2]}) {
      CAPTURE(margin, space);
      const std::string asked = space + ", memory_margin: " + margin;
      const Outcome all = outcome_of(small_search(asked, layout), false);
      const Outcome pruned = outcome_of(small_search(asked, layout), true);
      CHECK(pruned.best == all.best);
      CHECK(pruned.within == all.within);
      CHECK(pruned.memory == all.memory);
      CHECK(pruned.gpus == all.gpus);
    }
  }
}

TEST_CASE("a faster layout within the memory margin stands beside the best, marked", "[search]") {
  const std::string space = "top: 3, zero_stage: 0, recompute: [none, full], recompute_every: 1";
  const Outcome free = outcome_of(small_search(space + ", memory_margin: 0"), true);
  REQUIRE(free.best.size() == 3);
  CHECK(free.within.empty());
  // A margin that the fastest does not leave by a byte.
  SearchSpecification asked = small_search(space);
  const Bytes capacity = asked.workload.cluster.device().memory;
  const Bytes fastest = free.best.front().memory;
  asked.memory_margin = {.bytes = capacity - fastest + Bytes{1}};
  Search search{std::move(asked)};
  REQUIRE(run_search(search, never));
  const Ranking& ranking = search.ranking();
  REQUIRE_FALSE(ranking.best().empty());
  CHECK(ranking.best().front().memory < fastest);
  CHECK(ranking.best().front().step_time >= free.best.front().step_time);
  REQUIRE_FALSE(ranking.within_margin().empty());
  CHECK(ranking.within_margin().front() == free.best.front());
  for (const Evaluation& one : ranking.within_margin())
    CHECK(one.step_time < ranking.best().front().step_time);
  const SearchResult result = make_result(search, true);
  CHECK(search_table(result).find("Faster: may not fit, less is left than") != std::string::npos);
  CHECK(search_json(result).find("\"within_memory_margin\": [\n") != std::string::npos);
  CHECK(search_csv(result).find(",within\n") != std::string::npos);
  CHECK(result.favourite() == &result.best.front());
}

TEST_CASE("where no layout leaves the margin those that fit are shown, marked", "[search]") {
  Search search{small_search("top: 2, zero_stage: 0, recompute: none, memory_margin: 79 GiB")};
  REQUIRE(run_search(search, never));
  CHECK(search.ranking().best().empty());
  CHECK(search.ranking().within_margin().size() == 2);
  CHECK(search.ranking().by_gpus().size() == 1);
  const SearchResult result = make_result(search, true);
  CHECK(result.nothing_fits.empty());
  CHECK(result.favourite() == &result.within_margin.front());
  CHECK(search_table(result).find("Nothing leaves the memory margin: may not fit, less is left "
                                  "than 79.0 GiB") != std::string::npos);
}

TEST_CASE("the memory margin is the forecast's error unless the file says another", "[search]") {
  const auto margin_of = [](const std::string& search) {
    return small_search(search).memory_margin;
  };
  const Bytes capacity{80'000'000'000};
  const MemoryMargin own = margin_of("top: 1");
  REQUIRE(own.errors);
  const Model model = small_search("top: 1").workload.model;
  Layout layout;
  for (const auto& schedule : words_of(Schedule{})) {
    layout.schedule = schedule.value;
    CHECK(own.most_of(layout, model, capacity) ==
          most_within(own.errors->of(FrameworkName::megatron, schedule.value).fraction, capacity));
  }
  CHECK(margin_of("memory_margin: 0.25").most_of(layout, model, capacity) == Bytes{64'000'000'000});
  CHECK(margin_of("memory_margin: 2 GB").most_of(layout, model, capacity) == Bytes{78'000'000'000});
  CHECK(margin_of("memory_margin: 0").most_of(layout, model, capacity) == capacity);
}

TEST_CASE("a layout of a kind without a measured run leaves the error that its report has",
          "[search]") {
  const Search search{small_search("zero_stage: [1, 3], shard_group: 0")};
  const SearchSpecification& asked = search.specification();
  const Bytes capacity = asked.workload.cluster.device().memory;
  double widest = 0, least = 1;
  for (std::uint32_t i = 0; i < search.candidates().all.size(); ++i) {
    const Layout layout = layout_of(asked, search.candidates(), i);
    const Plan plan = make_plan(asked.workload.model, layout);
    PlanMemory memory{plan};
    const double error = make_memory_report(asked.workload, plan, memory).memory_error->fraction;
    Evaluation evaluation;
    evaluation.index = i;
    evaluation.memory = most_within(error, capacity);
    CHECK(search.ranking().leaves_margin(evaluation));
    evaluation.memory += Bytes{1};
    CHECK(!search.ranking().leaves_margin(evaluation));
    widest = std::max(widest, error);
    least = std::min(least, error);
  }
  CHECK(widest > least);  // ZeRO-3 under Megatron-LM, and 1f1b
  CHECK(make_result(search, true).margin.find("ZeRO-3 under megatron") != std::string::npos);
}

TEST_CASE("what is said to fit in a search fits in its report too", "[search]") {
  // PyTorch's allocator holds more than tensors; a search counts what `memory` does.
  SearchSpecification asked = small_search("top: 1, zero_stage: 3, shard_group: 0",
                                           "global_batch: 16", "framework: {name: torchtitan}\n");
  const Candidates listed = list_candidates(asked);
  REQUIRE(!listed.all.empty());
  const Plan plan = make_plan(asked.workload.model, layout_of(asked, listed, 0));
  REQUIRE(plan.caching_allocator);
  Bytes most{};
  for (const StageMemory& stage : stage_memory(plan, asked.workload.cluster))
    most = std::max(most, stage.total);
  CHECK(evaluate(asked, listed, 0).memory == most);
}
