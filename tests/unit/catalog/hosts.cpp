#include "tests/unit/catalog/hosts.hpp"

#include <filesystem>
#include <fstream>

#include "sim/config/input_log.hpp"
#include "sim/economics/budget.hpp"
#include "sim/model/model.hpp"
#include "sim/scenario/disturbance.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/topology/cluster_data.hpp"
#include "tests/support/source_dir.hpp"

namespace sim::test {
namespace {

namespace fs = std::filesystem;
const std::string root = test::source_dir();

const std::string machine = "cluster: {path: " + root + "/topologies/dgx-h100.yaml, nodes: 8}\n";
const std::string drawn_machine =
    "cluster: {path: " + root +
    "/topologies/dgx-h100.yaml, nodes: 8, allocation: {kind: fragmented, occupancy: 0.5}}\n";
const std::string mixtral = "model: " + root + "/models/mixtral-8x7b.yaml\n";
const std::string dense = "model: " + root + "/models/gpt2.yaml\n";
const std::string batch = "  sequence_length: 1024\n  global_batch: 64\n";

// Models with every section that a transformer may have.
const std::string latent_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    vocabulary: 100\n    norm: rms\n    activation: swiglu\n"
    "    positions: rotary\n    biases: none\n    experts: {count: 4, per_token: 2, feed_forward: "
    "64}\n    latent_attention: {key_value_rank: 32, plain_dim: 16, rotary_dim: 8, value_dim: "
    "16}\n";
const std::string image_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    norm: layer\n    activation: gelu\n    positions: learned\n"
    "    biases: all\n    image: {size: 32, patch: 16}\n    head: classifier\n    classes: 10\n";
const std::string plain_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    vocabulary: 100\n    norm: rms\n    activation: swiglu\n"
    "    positions: rotary\n    biases: none\n    window: 16\n    full_attention: [0]\n";

const std::string hybrid_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    vocabulary: 100\n    norm: rms\n    activation: swiglu\n"
    "    positions: none\n    biases: none\n    mamba2: {heads: 16}\n"
    "    gated_delta_net: {key_heads: 4, value_heads: 8}\n    layer_pattern: \"M*G-\"\n";
const std::string sparse_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    vocabulary: 100\n    norm: rms\n    activation: swiglu\n"
    "    positions: rotary\n    biases: none\n    latent_attention: {query_rank: 32, "
    "key_value_rank: 32, plain_dim: 16, rotary_dim: 8, value_dim: 16}\n"
    "    sparse_attention: {index_heads: 4}\n";

const std::string vision_model =
    "model:\n  name: m\n  source: s\n  transformer:\n    layers: 4\n    hidden: 64\n    heads: 4\n"
    "    feed_forward: 64\n    vocabulary: 100\n    norm: rms\n    activation: swiglu\n"
    "    positions: rotary\n    biases: none\n    vision: {layers: 2, hidden: 32, heads: 2, "
    "feed_forward: 64, norm: layer, activation: gelu, patch: 1, positions: 64, window: 16}\n"
    "    projector: {merge: 2, norm: layer}\n";

// Sets a key of a scenario's own model, which --set does not take.
std::string with_model_key(std::string yaml, const std::string& key, const std::string& value) {
  const bool inside = key.starts_with("model.transformer.");
  std::string leaf = key.substr(key.rfind('.') + 1);
  const std::string section = inside ? key.substr(18, key.size() - 18 - leaf.size()) : "";
  const std::string begin = section.empty() ? (inside ? "    " : "  ") : "";
  if (section.empty()) {
    const std::size_t old = yaml.find("\n" + begin + leaf + ": ");
    if (old != std::string::npos) yaml.erase(old, yaml.find('\n', old + 1) - old);
    const std::string after = inside ? "  transformer:\n" : "model:\n";
    return yaml.insert(yaml.find(after) + after.size(), begin + leaf + ": " + value + "\n");
  }
  const std::size_t open =
      yaml.find('{', yaml.find("    " + section.substr(0, section.size() - 1)));
  const std::size_t old = yaml.find(leaf + ": ", open);
  if (old < yaml.find('}', open)) {
    const std::size_t begins = old + leaf.size() + 2;
    return yaml.replace(begins, yaml.find_first_of(",}", begins) - begins, value);
  }
  return yaml.insert(open + 1, leaf + ": " + value + ", ");
}

// observed() is what `read` asks for below `prefix` of the catalogue, and what is wrong.
template <class Read>
Answer observed(const std::string& prefix, Read read) {
  Answer answer;
  const InputLog log{LoggedKeys::asked};
  try {
    read();
  } catch (const InputError& error) {
    answer.problems = error.problems();
  }
  for (const std::string& path : log.asked())
    answer.asked.insert(prefix + path);
  return answer;
}

Host scenario_host(std::string name, std::string text) {
  return {std::move(name), [text = std::move(text)](const std::string& key, const std::string& v) {
            const bool in_file = key.starts_with("model.");
            const std::string yaml = in_file ? with_model_key(text, key, v) : text;
            std::vector<std::string> set;
            if (!in_file && !v.empty()) set.push_back(key + "=" + v);
            Answer answer = observed("", [&] {
              const ScenarioSources sources = ScenarioSources::of_text(yaml, root + "/s.yaml", set);
              const Scenario scenario = load_scenario(sources);
              if (yaml.find("\nbudget:") != std::string::npos)
                static_cast<void>(load_budget(scenario, sources));
              if (yaml.find("\ndisturbance:") != std::string::npos)
                static_cast<void>(read_disturbance({root + "/s.yaml", yaml}, set, 16));
            });
            // The model's and the cluster's own files are hosts of their own.
            std::erase_if(answer.asked, [](const std::string& path) {
              const std::string top = path.substr(0, path.find('.'));
              static const std::set<std::string> sections{
                  "name",      "model",  "cluster", "layout",     "simulation",
                  "framework", "notes",  "carried", "training",   "flops",
                  "budget",    "search", "sweep",   "disturbance"};
              return sections.count(top) == 0;
            });
            return answer;
          }};
}

using Changes = std::vector<Change>;

Changes changes_of(const std::string& prefix, const std::string& key, const std::string& value) {
  return value.empty() ? Changes{} : Changes{{key.substr(prefix.size()), value}};
}

Host cluster_host(const std::string& path, const std::string& yaml) {
  const std::string prefix = "cluster.change.";
  return {path, [=](const std::string& key, const std::string& value) {
            return observed(prefix, [&] {
              Document document = Document::parse_yaml(yaml, path);
              document.change(changes_of(prefix, key, value));
              ClusterFiles files;  // an imported node without parts
              files.node = [](const std::string&, const ImportDefaults&) { return ImportedNode{}; };
              files.device = [](const std::string&) { return Device{}; };
              static_cast<void>(read_cluster(document, {}, files));
            });
          }};
}

Host device_host(const std::string& path) {
  const std::string prefix = "cluster.device.";
  return {path, [=](const std::string& key, const std::string& value) {
            return observed(prefix, [&] {
              static_cast<void>(load_device(path, changes_of(prefix, key, value)));
            });
          }};
}

std::set<std::string> files_of(const std::string& folder) {
  std::set<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator{root + folder})
    if (entry.path().extension() == ".yaml") paths.insert(entry.path().string());
  return paths;
}

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// Parts of cluster files that no shipped cluster has.
const std::string device_line = "name: c\ndevice: " + root + "/topologies/devices/h100_sxm.yaml\n";
const std::string rest_of_node =
    "  pcie: {generation: 5, switches: 2, latency: 500 ns}\n"
    "  sockets: {count: 2, bandwidth: 22 GB/s}\n"
    "  nics: {count: 8, bandwidth: 400 Gbps, latency: 300 ns}\n";
const std::string nvswitch =
    "node:\n  kind: nvswitch\n  gpus: 8\n  nvlink: {links: 18, rate: 25 GB/s, latency: 300 ns}\n" +
    rest_of_node;
const std::string network =
    "network: {cpu_vendor: intel, overhead: 1 us, tuner: {ll: 0 B}}\n"
    "transport: {loss: 0}\n"
    "host: {source: s, nvme: {read: 1 GB/s, write: 1 GB/s}}\n"
    "sources: [s]\n";

void add_clusters(std::vector<Host>& hosts) {
  const auto add = [&](const std::string& name, const std::string& node,
                       const std::string& fabric) {
    hosts.push_back(cluster_host(root + "/topologies/" + name,
                                 device_line + "nodes: 8\n" + node + fabric + network));
  };
  add("flat", nvswitch, "fabric: {kind: flat, switch_latency: 130 ns}\n");
  add("tree", nvswitch,
      "fabric: {kind: fat_tree, switch_latency: 130 ns, levels: 3, radix: 64, nodes_per_leaf: "
      "4}\n");
  add("dragonfly", nvswitch,
      "fabric: {kind: dragonfly, switch_latency: 130 ns, groups: 2, routers_per_group: 2, "
      "global_links_per_router: 1, nodes_per_router: 2}\n");
  add("torus", nvswitch,
      "fabric: {kind: torus, switch_latency: 130 ns, dims: [2, 2], nodes_per_router: 2}\n");
  add("imported",
      "node: {kind: imported, file: missing.xml, nvlink: {latency: 1 us}, pcie: {latency: 1 us}, "
      "nics: {latency: 1 us}}\n",
      "fabric: {kind: none}\n");
}

}  // namespace

std::vector<Host> hosts() {
  // Sections that are there, so that readers ask for their keys.
  const std::string empty =
      "simulation: {time_factors: {}, most_blocks: {}}\nframework: {}\nflops: {}\ntraining: {}\n";
  const std::string layout = empty + "layout:\n" + batch;
  const std::string budget =
      "price: {}, power: {}, failures: {}, preemption: {}, stragglers: {}, checkpoint: {}, "
      "restart: {}";
  std::vector<Host> hosts{
      scenario_host("dense", dense + machine + layout + "  overlap: {}\n"),
      scenario_host("drawn nodes", dense + drawn_machine + layout),
      scenario_host("selected gradients",
                    dense + machine + layout + "  compression: {gradients: top_k}\n"),
      scenario_host("factors",
                    dense + machine + layout + "  compression: {gradients: power_sgd}\n"),
      scenario_host("integers", dense + machine + layout +
                                    "  zero_stage: 3\n  compression: {gradients: int8}\n"),
      scenario_host("host", dense + machine + layout + "  offload: {optimizer: cpu}\n"),
      scenario_host("local steps", dense + machine + layout +
                                       "  local_steps: {every: 10, overlap: 2, outer: nesterov}\n"),
      scenario_host("servers",
                    dense + machine + layout + "  servers: {mode: bounded, staleness: 2}\n"),
      scenario_host("server machines",
                    dense + machine + layout +
                        "  servers: {mode: synchronous, place: machines, machines: 2}\n"),
      scenario_host("states", dense + machine + layout +
                                  "  zero_stage: 1\n  second_moment_dtype: bf16\n"
                                  "  master_format: remainders\n"),
      scenario_host("adapters", dense + machine + layout +
                                    "  zero_stage: 1\n  lora: {rank: 16}\n  packed_length: 512\n"),
      scenario_host("lengths",
                    dense + machine + layout +
                        "  packing: {lengths: lognormal, mean: 300, sigma: 1, multiple: 16}\n"),
      scenario_host("adapters of experts",
                    mixtral + machine + layout + "  lora: {rank: 16, experts: each}\n"),
      scenario_host("ends in 16 bits",
                    dense + machine + layout + "  compute_dtype: fp8\n  bf16_layers: {first: 1}\n"),
      scenario_host("modules", dense + machine + layout +
                                   "  recompute: selective\n  recompute_modules: [mlp]\n"),
      scenario_host("pieces", dense + machine + layout + "  mlp_tiles: 2\n  loss_chunks: 2\n"),
      scenario_host("experts", mixtral + machine + layout),
      scenario_host("dispatcher", mixtral + machine + layout + "  moe: {}\n  overlap: {}\n"),
      scenario_host("ends", dense + machine + layout + "  layers_per_chunk: {first: 6, last: 6}\n"),
      scenario_host("rate", dense + machine + "layout:\n" + batch +
                                "training: {learning_rate: {peak: 0.1}}\n"),
      scenario_host("latent model", latent_model + machine + layout),
      scenario_host("hybrid model", hybrid_model + machine + layout),
      scenario_host("sparse model", sparse_model + machine + layout),
      scenario_host("image model", image_model + machine + "layout:\n  global_batch: 64\n"),
      scenario_host("vision model", vision_model + machine + layout +
                                        "  images: 2\n  image_tokens: 16\n"
                                        "  freeze_vision_model: true\n"),
      scenario_host("plain model", plain_model + machine + layout),
      scenario_host("tokens", dense + machine + layout + "budget: {tokens: 1e9, finish_in: 60 d, " +
                                  budget + "}\n"),
      scenario_host("steps", dense + machine + layout +
                                 "budget: {steps: 1000}\ndisturbance: {preset: shared}\n"),
      scenario_host("strategies", dense + machine + layout +
                                      "budget: {tokens: 1e9, spares: {nodes: 1}, elastic: {nodes: "
                                      "1}, memory_checkpoint: {place: peer}, corruption: {gpu: 1 "
                                      "y}, flaps: {nic: 1 y}}\n"),
      scenario_host(
          "checks within steps",
          dense + machine + layout + "budget: {tokens: 1e9, corruption: {gpu: 1 y, share: 0.1}}\n"),
      scenario_host("minimum", dense + machine + layout +
                                   "budget: {minimum_steps: 1000, critical_batch: 1e6}\n"),
  };
  add_clusters(hosts);
  for (const std::string& path : files_of("/topologies"))
    hosts.push_back(cluster_host(path, text_of(path)));
  for (const std::string& path : files_of("/topologies/devices"))
    hosts.push_back(device_host(path));
  return hosts;
}

}  // namespace sim::test
