// Scenario files: what they mean, and the exact text of what is refused.
#include "sim/scenario/scenario.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
namespace fs = std::filesystem;

namespace {

const std::string root = sim::test::source_dir();

// The files of all cases, removed at the end of the program.
struct Folder {
  fs::path path = test::temporary_path("scenario");
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string write(const std::string& name, const std::string& text) {
  static const Folder folder;
  std::string path = (folder.path / name).string();
  std::ofstream{path} << text;
  return path;
}

// A valid scenario of eight GPUs, its layout followed by `layout`.
std::string small(const std::string& layout, const std::string& rest = "") {
  return "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
         "/topologies/dgx-h100.yaml, nodes: 1}\nlayout:\n  sequence_length: 1024\n  global_batch: "
         "64\n" +
         layout + rest;
}

Scenario load(const std::string& text, const std::vector<std::string>& set = {}) {
  return load_scenario(write("s.yaml", text), set);
}

// "line:column: what" of every problem.
std::vector<std::string> problems(const std::string& text,
                                  const std::vector<std::string>& set = {}) {
  try {
    load(text, set);
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the model may be a folder with a config.json", "[scenario]") {
  std::string text = small("");
  const std::string file = root + "/models/gpt2.yaml";
  const auto with_model = [&](const std::string& path) {
    std::string changed = text;
    return changed.replace(changed.find(file), file.size(), path);
  };
  const Scenario scenario = load(with_model(root + "/models/llama-3.1-405b"));
  CHECK(scenario.model.name == "llama-3.1-405b");
  CHECK(scenario.model_path == root + "/models/llama-3.1-405b/config.json");
  CHECK(problems(with_model(root + "/topologies")) ==
        Lines{"1:8: the folder holds no config.json; there is no file " + root +
              "/topologies/config.json"});
}

TEST_CASE("every shipped scenario loads") {
  int found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator{root + "/scenarios"}) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    const Scenario scenario = load_scenario(entry.path().string());
    CHECK(scenario.layout.world_size() == scenario.cluster.gpus());
    ++found;
  }
  CHECK(found >= 8);
}

// The complete example of the README is what it says: complete, and valid.
TEST_CASE("the example of the README loads") {
  std::ifstream file{root + "/sim/scenario/README.md"};
  std::string yaml;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      if (inside) break;
      inside = line == "```yaml";
      continue;
    }
    if (inside) yaml += line + '\n';
  }
  REQUIRE(inside);
  for (const char* folder : {"models", "topologies"}) {
    const std::string relative = std::string{"../"} + folder;
    for (std::size_t at = yaml.find(relative); at != std::string::npos; at = yaml.find(relative))
      yaml.replace(at, relative.size(), root + "/" + folder);
  }
  const Scenario scenario = load(yaml);
  CHECK(scenario.layout.tensor_parallel == 4);
  CHECK(scenario.layout.layers_per_chunk == std::vector<int>{9, 10, 10, 10, 10, 10, 11, 10});
  CHECK(scenario.options.stragglers.size() == 1);
  CHECK(scenario.faults.size() == 1);
}

TEST_CASE("data parallelism follows from the GPUs") {
  CHECK(load(small("  tensor_parallel: 2\n")).layout.data_parallel == 4);
  CHECK(load(small("")).layout.data_parallel == 8);
}

TEST_CASE("a job may use some of the GPUs of its cluster") {
  CHECK(load(small(""), {"cluster.gpus=4"}).layout.data_parallel == 4);
}

TEST_CASE("the types that are left out follow the compute type") {
  const Layout bf16 = load(small("")).layout;
  CHECK(bf16.activation_dtype == DType::bf16);
  CHECK(bf16.reduce_dtype == DType::bf16);
  CHECK(bf16.master_weights);
  const Layout fp32 = load(small("  compute_dtype: tf32\n")).layout;
  CHECK(fp32.activation_dtype == DType::fp32);
  CHECK(fp32.gradient_dtype == DType::fp32);
  CHECK_FALSE(fp32.master_weights);
}

TEST_CASE("layers spread over chunks: ends first, or by stage") {
  const auto chunks = [](const std::string& split) {
    return load(small("  pipeline_parallel: 2\n  virtual_stages: 2\n" + split))
        .layout.layers_per_chunk;
  };
  CHECK(chunks("").empty());
  CHECK(chunks("  layers_per_chunk: {first: 2, last: 2}\n") == std::vector<int>{2, 4, 4, 2});
  // Stage 0 has chunks 0 and 2 and gives its first one fewer; stage 1 its last.
  CHECK(chunks("  layers_per_stage: [7, 5]\n") == std::vector<int>{3, 3, 4, 2});
  CHECK(chunks("  layers_per_stage: even\n").empty());
}

TEST_CASE("--set wins over the file, adds what it lacks, and is checked as it is") {
  CHECK(
      load(small("  tensor_parallel: 2\n"), {"layout.tensor_parallel=4"}).layout.tensor_parallel ==
      4);
  CHECK(load(small(""), {"simulation.seed=9", "simulation.jitter=0.1"}).options.seed == 9);
  CHECK(load(small(""), {"cluster.nodes=2"}).cluster.gpus() == 16);
  CHECK(problems(small(""), {"layout.tensor_paralel=4"}).size() == 1);
  CHECK(problems(small(""), {"layout.tensor_parallel=0"}).size() == 1);
  CHECK(problems(small(""), {"layout"}) ==
        Lines{"0:0: --set layout: write it as section.key=value, for example "
              "layout.tensor_parallel=4"});
}

TEST_CASE("a framework names its kernels, and any of them alone") {
  const auto norm_launches = [](const std::vector<std::string>& set) {
    return load("model: " + root + "/models/llama-3.1-8b.yaml\ncluster: {path: " + root +
                    "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {sequence_length: 1024, "
                    "global_batch: 8}\n",
                set)
        .model.layers[0]
        .ops[0]
        .forward_launches;
  };
  CHECK(norm_launches({}) == 1);
  CHECK(norm_launches({"framework.name=pytorch"}) == 8);
  CHECK(norm_launches({"framework.name=pytorch", "framework.rms_norm=fused"}) == 1);
  CHECK(norm_launches({"framework.rms_norm=eager"}) == 8);
  CHECK(problems(small("", "framework: {name: tinygrad}\n")) ==
        Lines{"6:19: name is 'tinygrad'; allowed: megatron, pytorch, transformers, scaling, "
              "torchtitan, "
              "deepspeed, megatron_deepspeed, megatron_bridge, nemo, fsdp1, fsdp2, internevo, "
              "nanotron, olmo_core, torchtune"});
  CHECK(problems(small("", "framework: {softmax: lazy}\n")) ==
        Lines{"6:22: softmax is 'lazy'; allowed: fused, eager"});
  CHECK(problems(small("", "framework: {context: lazy}\n")) ==
        Lines{"6:22: context is 'lazy'; allowed: transformer_engine, eager, compiled"});
  CHECK(problems(small("", "framework: {norms: eager}\n")) ==
        Lines{"6:13: unknown key 'norms'; nearest of 64: rms_norm, layer_norm, no_sync"});
}

TEST_CASE("the host's time per kernel is the framework's where it says one") {
  CHECK_FALSE(load(small("")).options.host_issue);
  CHECK(load(small("", "framework: {host_issue: 25 us}\n")).options.host_issue ==
        Duration{std::chrono::microseconds{25}});
  CHECK(load(small("", "framework: {host_issue: 0 us}\n")).options.host_issue == Duration{});
  CHECK(load(small(""), {"framework.host_issue=1 ms"}).options.host_issue ==
        Duration{std::chrono::milliseconds{1}});
  CHECK(problems(small("", "framework: {host_issue: 25}\n")).size() == 1);
  CHECK(problems(small("", "framework: {host_issue: 2 ms}\n")) ==
        Lines{"6:25: it is the time of one kernel; allowed: 0 s to 1 ms"});
  CHECK(load(small("", "framework: {name: pytorch}\n")).options.host_calls == 1);
  CHECK(load(small("")).options.host_calls > 1);  // Megatron-LM's modules
  CHECK(load(small("", "framework: {host_calls: 2.5}\n")).options.host_calls == 2.5);
}

TEST_CASE("devices differ by what is published unless told otherwise") {
  CHECK_THAT(load(small("")).options.device_spread, WithinRel(0.08 / 5.4, 1e-12));
  CHECK(load(small("", "simulation: {device_spread: 0}\n")).options.device_spread == 0);
  CHECK(problems(small("", "simulation: {device_spread: -1}\n")) ==
        Lines{"6:29: device_spread is -1; allowed: 0 to 1"});
}

TEST_CASE("FlashAttention 1 is for devices whose file has its rates") {
  CHECK(load(small("  attention: flash-1\n")).layout.attention == AttentionKernel::flash_1);
  CHECK(problems(small("  attention: flash-1\n"),
                 {"cluster.path=" + root + "/topologies/dgx-b200.yaml"}) ==
        Lines{"6:14: the file of the B200 SXM has no rates of FlashAttention 1; flash takes cuDNN "
              "9 (FlashAttention-4 class)"});
}

TEST_CASE("contradictions are told where they stand") {
  CHECK(
      problems(small("  tensor_parallel: 2\n  data_parallel: 8\n")) ==
      Lines{"7:18: tensor_parallel 2 x pipeline_parallel 1 x data_parallel 8 is 16 ranks, but the "
            "cluster has 8 GPUs (1 nodes of 8); set cluster.nodes or cluster.gpus to match"});
  CHECK(problems(small("  tensor_parallel: 3\n")) ==
        Lines{"6:20: tensor_parallel 3 x pipeline_parallel 1 is 3, which does not divide the GPUs: "
              "the cluster has 8 GPUs (1 nodes of 8)"});
  CHECK(problems(small("  tensor_parallel: 8\n")) ==
        Lines{"6:20: tensor_parallel is 8, which does not divide 12 heads; allowed: 1, 2, 3, 4, 6, "
              "12"});
  CHECK(problems(small("  pipeline_parallel: 8\n")).size() == 1);
}

TEST_CASE("FlashAttention-2 is taken where the device file has its rates, else refused") {
  const std::string layout = "  attention: flash-2\n  gradient_dtype: fp16\n";
  CHECK(load(small(layout)).layout.attention == AttentionKernel::flash_2);
  CHECK(problems("model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
                 "/topologies/dgx-b200.yaml, nodes: 1}\nlayout:\n  sequence_length: 1024\n"
                 "  global_batch: 64\n" +
                 layout) ==
        Lines{"6:14: the file of the B200 SXM has no rates of FlashAttention-2; "
              "flash takes cuDNN 9 (FlashAttention-4 class)"});
}

TEST_CASE("all mistakes of a file come in one pass") {
  CHECK(problems("model: nowhere.yaml\ncluster: neither.yaml\nlayout:\n  tensor_paralel: 2\n"
                 "  zero_stage: 4\n  bucket: 25\n")
            .size() == 6);  // both files, the key, the stage, the unit, the missing batch
}

TEST_CASE("all that is missing is told at once, what the model asks for too") {
  CHECK(problems("name: empty\n") == Lines{"1:1: missing keys 'model', 'cluster' and 'layout'"});
  CHECK(problems("model: " + root + "/models/gpt2.yaml\nlayout: {}\n") ==
        Lines{"1:1: missing key 'cluster'", "2:9: missing key 'global_batch'",
              "2:9: the key is missing: tokens per sequence of gpt2"});
}

TEST_CASE("mistakes of the file, of --set and of the files that are named come in one pass") {
  const std::string broken = write("broken.yaml", "transformer: {layers: 0}\n");
  const Lines lines =
      problems("model: broken.yaml\ncluster: " + root +
                   "/topologies/dgx-h100.yaml\nlayout: {global_batch: 8, "
                   "zero_stage: 4}\n",
               {"layout.foo=3", "lay", "tensor_parallel=4", "simulation.jitter=-1"});
  REQUIRE(lines.size() > 5);
  CHECK(lines[0] == "3:39: zero_stage is 4; allowed: 0 to 3");
  CHECK(lines[1] ==
        "0:0: --set lay: write it as section.key=value, for example "
        "layout.tensor_parallel=4");
  CHECK(lines[2] ==
        "2:3: unknown key 'foo'; allowed: tensor_parallel, context_parallel, "
        "pipeline_parallel and 58 more");
  CHECK(lines[3] == "3:1: unknown key 'tensor_parallel'; it belongs in 'layout'");
  CHECK(lines[4] == "5:11: jitter is -1; allowed: 0 to 2");
  CHECK(std::any_of(lines.begin() + 5, lines.end(), [](const std::string& line) {
    return line.find("layers is 0") != std::string::npos;  // of broken.yaml
  }));
}

TEST_CASE("a file that is not there is answered with the nearest, or with the shipped one") {
  const std::string rest = "\ncluster: " + root +
                           "/topologies/dgx-h100.yaml\nlayout: {global_batch: 8, "
                           "sequence_length: 1024}\n";
  CHECK(problems("model: " + root + "/models/gtp2.yaml" + rest) ==
        Lines{"1:8: there is no file " + root + "/models/gtp2.yaml; did you mean 'gpt2.yaml'?"});
  CHECK(problems("model: gpt2.yaml" + rest)[0].find("gpt2.yaml; the shipped file is ") !=
        std::string::npos);
  CHECK(problems("model: /no/where/a.yaml" + rest) ==
        Lines{"1:8: there is no file /no/where/a.yaml; there is no folder /no/where"});
}

TEST_CASE("models and clusters are said by the names of shipped files") {
  const std::string text =
      "model: llama-3.1-405b\ncluster: {path: dgx-h100, nodes: 64}\n"
      "layout: {tensor_parallel: 8, pipeline_parallel: 1, global_batch: 64, sequence_length: "
      "1024}\n";
  const Scenario scenario = load(text);
  CHECK(scenario.model_path == root + "/models/llama-3.1-405b/config.json");
  CHECK(scenario.cluster_path == root + "/topologies/dgx-h100.yaml");
  CHECK(
      load_scenario(ScenarioSources::of_text(text, "a.yaml", {"cluster=dgx-b200"})).cluster_path ==
      root + "/topologies/dgx-b200.yaml");
  CHECK(load_scenario(ScenarioSources::of_text(text, "a.yaml", {"cluster.path=dgx-h200"}))
            .cluster_path == root + "/topologies/dgx-h200.yaml");
  CHECK(problems("model: llama-3.1-71b" + text.substr(text.find('\n')))[0].find("llama-3.1-70b") !=
        std::string::npos);
}

TEST_CASE("what is given as a scenario and is none is told what it is") {
  try {
    load_scenario(root + "/topologies/dgx-h100.yaml", {"lay"});
    FAIL("a cluster is no scenario");
  } catch (const InputError& error) {
    CHECK(test::lines_of(error) ==
          Lines{"0:0: this is a cluster file, not a scenario; a scenario names it as 'cluster: "
                "{path: FILE}'",
                "0:0: --set lay: write it as section.key=value, for example "
                "layout.tensor_parallel=4"});
  }
  const Lines swapped = problems("model: " + root + "/topologies/dgx-h100.yaml\ncluster: " + root +
                                 "/models/gpt2.yaml\nlayout: {global_batch: 8}\n");
  CHECK(swapped == Lines{"0:0: this is a cluster file, not a model file; a scenario names it as "
                         "'cluster: {path: FILE}'",
                         "0:0: this is a model file, not a cluster file; a scenario names it as "
                         "'model: FILE'"});
}

TEST_CASE("factors on the parts of a step are read, and refused where they have no meaning",
          "[scenario]") {
  const std::string some = "simulation:\n  time_factors: {products: 1.05, host: 2}\n";
  const Scenario scenario = load(small("", some));
  CHECK(scenario.options.factors == TimeFactors{.products = 1.05, .host = 2});
  CHECK(problems(small("", "simulation:\n  time_factors: {gemm: 2}\n")).size() == 1);
  CHECK(problems(small("", "simulation:\n  time_factors: {tensor: 0}\n")).size() == 1);
  CHECK(problems(small("", "simulation:\n  collectives: stepwise\n  time_factors: {data: 2}\n"))
            .size() == 1);
}

TEST_CASE("injected trouble must name what exists") {
  CHECK(problems(small("", "simulation:\n  stragglers: [{rank: 8, factor: 2}]\n")) ==
        Lines{"7:23: there is no rank 8: ranks are 0 to 7"});
  CHECK(
      problems(small("", "simulation:\n  faults: [{where: node 9 nic 0, factor: 0.5}]\n")).size() ==
      1);
}

TEST_CASE("a link that is left a billionth of itself is dead or a mistake") {
  REQUIRE(problems(small("", "simulation:\n  faults: [{where: node 0 nic 0, factor: 1e-9}]\n")) ==
          Lines{"7:42: factor is below a millionth; allowed: 0 (dead), or 1e-6 to 1"});
}

TEST_CASE("a rank has one factor") {
  CHECK(problems(small("",
                       "simulation:\n  stragglers: [{rank: 1, factor: 2}, {rank: 1, factor: "
                       "3}]\n")) == Lines{"7:45: rank 1 is named twice; give it one factor"});
}

TEST_CASE("a section that is a single value is refused, in the file and in --set") {
  CHECK(problems(small(""), {"layout=1"}) ==
        Lines{"1:9: layout is a section, not one value; its keys: stepcast keys layout."});
  CHECK(problems(small("", "simulation: fluid\nflops: full\n")) ==
        Lines{"6:13: simulation is a section, not one value; its keys: stepcast keys simulation.",
              "7:8: flops is a section, not one value; its keys: stepcast keys flops."});
  CHECK(problems(small("", "simulation:\nflops:\n")).empty());  // all of it commented out
}

TEST_CASE("placement is an order of all three dimensions") {
  CHECK(load(small("  placement: [tp, pp, dp]\n")).layout.placement[1] == Dimension::pipeline);
  CHECK(problems(small("  placement: [tp, tp, dp]\n")) ==
        Lines{"6:14: is an order of tp, dp and pp, fastest first, each once"});
  CHECK(problems(small("  placement: [tp, dp, pp, xx]\n")) ==
        Lines{"6:27: 'xx' is no dimension; allowed: tp, cp, dp, pp"});
}

TEST_CASE("context parallelism divides the GPUs and has a place in the order") {
  const Layout layout = load(small("  context_parallel: 2\n")).layout;
  CHECK(layout.context_parallel == 2);
  CHECK(layout.context_exchange == ContextExchange::ring);
  CHECK(layout.data_parallel == 4);
  CHECK(load(small("  context_parallel: 2\n  context_exchange: all_gather\n"))
            .layout.context_exchange == ContextExchange::all_gather);
  CHECK(problems(small("  context_parallel: 2\n  placement: [tp, dp, pp]\n")) ==
        Lines{"7:14: is an order of tp, cp, dp and pp, fastest first, each once"});
  CHECK(problems(small("  context_parallel: 3\n")) ==
        Lines{"6:21: tensor_parallel 1 x context_parallel 3 x pipeline_parallel 1 is 3, which does "
              "not divide the GPUs: the cluster has 8 GPUs (1 nodes of 8)"});
}

TEST_CASE("a scenario that is no mapping, empty, or missing is refused") {
  CHECK_THROWS_AS(load(""), InputError);
  CHECK_THROWS_AS(load("- 1\n"), InputError);
  CHECK_THROWS_AS(load_scenario("/no/such/file.yaml"), InputError);
}

TEST_CASE("search, sweep and budget are sections of others: known, and not read", "[scenario]") {
  CHECK(problems(small("", "search: {whatever: 1}\nsweep: [1]\nbudget: 2\n")).empty());
  CHECK(problems(small("", "serach: 1\n")).size() == 1);
}

TEST_CASE("a section is read alone, with --set on top and its own mistakes", "[scenario]") {
  const std::string path = write("own.yaml", small("", "search: {top: 3, tpo: 4}\nother: 1\n"));
  const ScenarioSources sources{path, {"search.top=7"}};
  const Layered section = sources.only_section("search");
  CHECK(section.int_or("top", 0, {1, 9}) == 7);
  try {
    sources.finish();
    FAIL("tpo is unknown");
  } catch (const InputError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems()[0].what == "unknown key 'tpo'; did you mean 'top'?");
  }
}

TEST_CASE("torchtitan overlaps tensor parallelism by cut products alone", "[scenario]") {
  const std::string text = "model: " + root + "/models/llama-3.1-8b.yaml\ncluster: {path: " + root +
                           "/topologies/dgx-h100.yaml, nodes: 1}\nlayout: {sequence_length: 1024, "
                           "tensor_parallel: 8, sequence_parallel: true, global_batch: 8}\n";
  const std::string titan = "framework.name=torchtitan";
  CHECK(load(text).layout.overlap_tensor_wgrad);
  CHECK_FALSE(load(text, {titan}).layout.overlap_tensor_wgrad);
  CHECK_FALSE(load(text, {titan, "layout.overlap=true"}).layout.overlap_tensor_wgrad);
  CHECK(load(text, {titan, "layout.overlap.tensor_products=true"}).layout.overlap_tensor_products);
  CHECK(problems(text, {titan, "cluster.nodes=2", "layout.tensor_parallel=16",
                        "layout.overlap.tensor_products=true", "layout.global_batch=1"})
            .back()
            .find("on one node, which has 8 GPUs") != std::string::npos);
  const Lines refused = problems(text, {titan, "layout.overlap.tensor_wgrad=true"});
  REQUIRE(refused.size() == 1);
  CHECK(refused.front().find("tensor_products for AsyncTP") != std::string::npos);
}

TEST_CASE("a workload needs no layout that fits", "[scenario]") {
  // 7 replicas do not divide 64 sequences, and 3 does not divide the heads.
  const std::string path = write("open.yaml", small("  tensor_parallel: 3\n  data_parallel: 7\n"));
  const Scenario scenario = load_workload(ScenarioSources{path});
  CHECK(scenario.layout.world_size() == 8);
  CHECK(scenario.layout.tensor_parallel == 1);
  CHECK(scenario.layout.global_batch == 64);
  const Scenario typed = load_workload(ScenarioSources::of_options(
      {"model=" + root + "/models/gpt2.yaml", "cluster.path=" + root + "/topologies/dgx-h100.yaml",
       "cluster.nodes=2", "layout.global_batch=64", "layout.sequence_length=1024"}));
  CHECK(typed.layout.world_size() == 16);
}

TEST_CASE("a job with more GPUs than the cluster is refused", "[scenario]") {
  const std::string text = "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
                           "/topologies/dgx-h100.yaml, nodes: 1, gpus: 16}\nlayout: "
                           "{sequence_length: 1024, global_batch: 64}\n";
  CHECK(problems(text) ==
        std::vector<std::string>{"2:" + std::to_string(text.find("16}") - text.find('\n')) +
                                 ": gpus is 16, but the cluster has 8 (1 nodes of 8); set "
                                 "cluster.nodes"});
}

TEST_CASE("what-ifs change the cluster and the device of a scenario", "[scenario]") {
  const Scenario before = load(small("", ""));
  const Scenario after =
      load(small(""), {"cluster.change.node.nics.bandwidth=x0.5", "cluster.device.memory=141 GiB",
                       "cluster.device.memory_bandwidth=x2"});
  CHECK(after.cluster.device().memory == Bytes{141LL << 30});
  CHECK(after.cluster.device().memory_bandwidth.in_bytes_per_second() ==
        2 * before.cluster.device().memory_bandwidth.in_bytes_per_second());
  CHECK(after.cluster.measured().size() == before.cluster.measured().size());
  const std::vector<std::string>& said = after.cluster.sources();
  CHECK(said[said.size() - 2] == "what if node.nics.bandwidth were x0.5");
  CHECK(said.back() == "4 measured curves carried over, as they are");
}

TEST_CASE("mistakes in what-ifs are refused", "[scenario]") {
  CHECK(problems(small(""), {"cluster.change.node.nics.bandwith=200 Gbps"}) ==
        std::vector<std::string>{
            "0:0: unknown key 'bandwith'; did you mean 'bandwidth'? (where 'node.nics.bandwith' is "
            "changed to '200 Gbps')"});
  CHECK(problems(small(""), {"cluster.device.memory=-1 GiB"}).size() == 1);
  CHECK(problems(small(""), {"cluster.change=3"}).size() == 1);
  CHECK(problems(small(""), {"cluster.change.fabric=[1, 2]"}).size() == 1);
}

namespace {

// A mixture of experts on `cluster` of 72-GPU racks.
std::string on_racks(const std::string& cluster, const std::string& layout) {
  return "model: " + root + "/models/mixtral-8x7b.yaml\ncluster: {path: " + root +
         "/topologies/gb200-nvl72.yaml, " + cluster +
         "}\nlayout: {sequence_length: 4096, global_batch: 576, " + layout + "}\n";
}

}  // namespace

TEST_CASE("racks are used as far as groups stay whole, unless the file says otherwise") {
  const auto cluster = [](const std::string& text, const std::vector<std::string>& set = {}) {
    return load(text, set).cluster;
  };
  const std::string job =
      "tensor_parallel: 2, sequence_parallel: true, expert_parallel: 8, "
      "expert_tensor_parallel: 2";
  const Scenario open = load(on_racks("nodes: 2", job));
  CHECK(open.cluster.gpus_per_node() == 64);
  CHECK(open.cluster.gpus() == 128);
  CHECK(open.layout.data_parallel == 64);
  CHECK(cluster(on_racks("nodes: 2", job + ", data_parallel: 64")).gpus_per_node() == 64);
  CHECK(cluster(on_racks("nodes: 2, gpus: 128", job)).gpus_per_node() == 64);
  // As many nodes as there are hold 144 GPUs only if all of each are used.
  CHECK(cluster(on_racks("nodes: 2, gpus: 144", job)).gpus_per_node() == 72);
  CHECK(cluster(on_racks("nodes: 2, gpus: 128, gpus_per_node: 72", job)).gpus_per_node() == 72);
  CHECK(cluster(on_racks("nodes: 4", job), {"cluster.gpus_per_node=32"}).gpus() == 128);
  CHECK(cluster(on_racks("nodes: 2", "expert_parallel: 8")).gpus_per_node() == 72);
}

TEST_CASE("GPUs per node that do not go with the rest are refused") {
  const std::string path = root + "/topologies/gb200-nvl72.yaml";
  CHECK(problems(on_racks("nodes: 2, gpus_per_node: 73", "expert_parallel: 8")) ==
        Lines{"2:" + std::to_string(path.size() + 44) +
              ": gpus_per_node is 73, but a node of gb200-nvl72 has 72; allowed: 1 to 72"});
  CHECK(problems(on_racks("nodes: 2, gpus: 128", ""), {"cluster.gpus_per_node=60"}) ==
        Lines{"2:" + std::to_string(path.size() + 35) +
              ": gpus is 128, but the cluster has 120 (2 nodes with 60 of 72 GPUs in use); set "
              "cluster.nodes or cluster.gpus_per_node"});
  CHECK(problems(on_racks("nodes: 2, gpus_per_node: 36", "data_parallel: 144")) ==
        Lines{"3:67: tensor_parallel 1 x pipeline_parallel 1 x data_parallel 144 is 144 ranks, but "
              "the cluster has 72 GPUs (2 nodes with 36 of 72 GPUs in use); set cluster.nodes, "
              "cluster.gpus or cluster.gpus_per_node to match"});
  // Set on top it makes the file's replicas follow.
  const Scenario fewer =
      load(on_racks("nodes: 2", "data_parallel: 144"), {"cluster.gpus_per_node=36"});
  CHECK(fewer.layout.data_parallel == 72);
  CHECK_FALSE(fewer.followed.empty());
  CHECK(
      problems(on_racks("nodes: 2", "pipeline_parallel: 32")) ==
      Lines{"3:71: tensor_parallel 1 x pipeline_parallel 32 is 32, which does not divide the GPUs: "
            "the cluster has 144 GPUs (2 nodes of 72); cluster.gpus_per_node: 64 would do"});
}

TEST_CASE("lengths of sequences are those of a file beside the scenario", "[scenario][packing]") {
  const std::string lengths = write("lengths.csv", "length,count\n100,30\n400,10\n");
  const Scenario scenario = load(small("  packing: {lengths: lengths.csv, seed: 3}\n"));
  const LengthSource& source = scenario.layout.packing_lengths;
  CHECK(source.name == lengths);
  REQUIRE(source.measured);
  CHECK(*source.measured == std::vector<LengthCount>{{100, 30}, {400, 10}});
  CHECK(scenario.layout.packing_seed == 3);
  // Written elsewhere, it is found from there.
  const std::string text = scenario_yaml(scenario, fs::path{lengths}.parent_path().string());
  CHECK(text.find("lengths: \"lengths.csv\"") != std::string::npos);
  const Scenario again = load(text);
  CHECK(again.layout.packing_lengths == source);
}

TEST_CASE("what is wrong with lengths is told with its place", "[scenario][packing]") {
  const std::string bad = write("bad.csv", "100\nmany\n");
  CHECK(problems(small("  packing: {lengths: bad.csv}\n")) ==
        Lines{"2:1: 'many' is no length; allowed: whole numbers from 1 to 4294967296"});
  const Lines missing = problems(small("  packing: {lengths: lenghts.csv}\n"));
  REQUIRE(missing.size() == 1);
  CHECK(missing.front().starts_with("6:22: there is no file "));
  CHECK(
      problems(small("  packing: {lengths: lognormal, mean: 0.5}\n")) ==
      Lines{"6:12: packing.mean is 0.5, the mean of lognormal lengths; allowed: 1 token or more"});
  CHECK(
      problems(small("  packing: {mean: 100}\n")) ==
      Lines{"6:12: a key of packing is set, but packing.lengths is none; allowed: lognormal, or a "
            "file"});
  CHECK(problems(small("  packing: {method: tetris}\n")).size() == 1);
}

TEST_CASE("MXFP8 is refused where the device has no tensor cores for it", "[scenario]") {
  const std::string layout = "  compute_dtype: fp8\n";
  const auto of = [&](const char* cluster, const char* software) {
    return problems(
        small(layout, std::string{"framework: {name: megatron, fp8: "} + software + "}\n"),
        {std::string{"cluster.path="} + root + "/topologies/" + cluster + ".yaml"});
  };
  const std::vector<std::string> refused = of("dgx-h100", "transformer_engine_mxfp8");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find("is MXFP8, which needs Blackwell (compute capability 10) or CDNA 4; the "
                        "H100") != std::string::npos);
  CHECK(refused[0].find("allowed: transformer_engine, transformer_engine_tensorwise, "
                        "transformer_engine_blockwise") != std::string::npos);
  CHECK(of("dgx-h100", "torchao_mxfp8").size() == 1);
  CHECK(of("dgx-h100", "transformer_engine_blockwise").empty());
  CHECK(of("dgx-b200", "transformer_engine_mxfp8").empty());
}
