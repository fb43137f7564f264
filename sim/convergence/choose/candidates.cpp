#include "sim/convergence/choose/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

SchemeKey key_of(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  return {assignment.substr(0, equals), assignment.substr(equals + 1)};
}

constexpr int most_workers = 256;

class List {
 public:
  explicit List(const Scenario& scenario) : scenario_{scenario}, layout_{scenario.layout} {}

  std::vector<SchemeCandidate> take() {
    all_.push_back({"as-it-is", {}});
    if (layout_.replicas() == 1) return std::move(all_);
    algorithms();
    servers();
    compressed();
    quantized();
    local_steps();
    return std::move(all_);
  }

 private:
  void algorithms() {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical,
                                      Algorithm::in_switch, Algorithm::parameter_server})
      if (algorithm != scenario_.options.data_choice.algorithm)
        all_.push_back({fmt::format("{}", word(algorithm)),
                        {fmt::format("simulation.data_algorithm={}", word(algorithm))}});
  }

  // Synchronous, a shard of the server beside every rank; and servers on the hosts of the nodes, of
  // workers of one GPU, and of nodes that reduce among themselves first, in BytePS's parts.
  void servers() {
    all_.push_back({"parameter_server",
                    {"simulation.data_algorithm=parameter_server",
                     fmt::format("simulation.server_shards={}", layout_.replicas())}});
    if (layout_.replicas() != layout_.world_size()) return;
    const int node = ranks_on_a_node();
    if (node > 1 && node < layout_.replicas() && layout_.replicas() / node <= most_workers)
      all_.push_back(
          {"servers-nodes",
           {"layout.servers.mode=synchronous", "layout.zero_stage=1",
            fmt::format("layout.shard_group={}", node), "layout.servers.partition=4096000 B"}});
    if (layout_.replicas() > most_workers) return;
    all_.push_back({"servers-sync", {"layout.servers.mode=synchronous", "layout.zero_stage=0"}});
    add("servers-async", {"layout.servers.mode=asynchronous"}, {"layout.zero_stage=0"});
    add("servers-bounded-1", {"layout.servers.mode=bounded", "layout.servers.staleness=1"},
        {"layout.zero_stage=0"});
  }

  // `learns` decide what is learned; the rest follows from them.
  void add(std::string name, std::vector<std::string> learns, std::vector<std::string> rest) {
    SchemeCandidate made{std::move(name), {}};
    for (const std::string& assignment : learns)
      made.learns.push_back(key_of(assignment));
    made.set = std::move(rest);
    made.set.insert(made.set.end(), learns.begin(), learns.end());
    all_.push_back(std::move(made));
  }

  std::vector<std::string> whole_gradients() const {
    return {"layout.zero_stage=0",
            fmt::format("layout.reduce_dtype={}", word(layout_.gradient_dtype))};
  }

  void compressed() {
    if (layout_.reduce_dtype == DType::fp32) add("bf16-wire", {"layout.reduce_dtype=bf16"}, {});
    const auto scheme = [&](std::string name, const char* gradients, const char* parameter) {
      std::vector<std::string> learns{fmt::format("layout.compression.gradients={}", gradients)};
      if (*parameter != '\0') learns.push_back(fmt::format("layout.compression.{}", parameter));
      add(std::move(name), std::move(learns), whole_gradients());
    };
    scheme("top_k-0.01", "top_k", "density=0.01");
    scheme("top_k-0.001", "top_k", "density=0.001");
    scheme("random_k-0.01", "random_k", "density=0.01");
    scheme("power_sgd-1", "power_sgd", "rank=1");
    scheme("power_sgd-4", "power_sgd", "rank=4");
    scheme("one_bit", "one_bit", "");
  }

  void quantized() {
    const int node = ranks_on_a_node();
    std::vector<std::string> rest{
        fmt::format("layout.reduce_dtype={}", word(layout_.gradient_dtype))};
    if (node > 1 && node < layout_.replicas())
      rest.push_back(fmt::format("layout.compression.node_ranks={}", node));
    for (const char* bits : {"int8", "int4"})
      add(bits, {"layout.zero_stage=3", fmt::format("layout.compression.gradients={}", bits)},
          rest);
  }

  // Groups are nodes, where the replicas of a node are whole.
  void local_steps() {
    const int ranks = std::max(1, ranks_on_a_node());
    std::vector<std::string> rest;
    if (ranks < layout_.replicas() && ranks > 1) {
      rest.push_back(fmt::format("layout.local_steps.ranks={}", ranks));
      rest.push_back(fmt::format("layout.zero_stage={}", std::max(1, layout_.zero_stage)));
    }
    for (const int every : {10, 100}) {
      const std::string key = fmt::format("layout.local_steps.every={}", every);
      add(fmt::format("local-{}", every), {key}, rest);
      add(fmt::format("diloco-{}", every), {key, "layout.local_steps.outer=nesterov"}, rest);
    }
  }

  // Data-parallel ranks that lie on a node and divide all of them; 0: none.
  int ranks_on_a_node() const {
    const int inner = layout_.tensor_parallel;
    const int gpus = scenario_.cluster.gpus_per_node();
    if (gpus % inner != 0) return 0;
    return std::gcd(gpus / inner, layout_.replicas());
  }

  const Scenario& scenario_;
  const Layout& layout_;
  std::vector<SchemeCandidate> all_;
};

}  // namespace

std::vector<SchemeCandidate> candidates_for(const Scenario& scenario) {
  return List{scenario}.take();
}

SchemeCandidate parse_candidate(const std::string& text) {
  const auto trimmed = [](const std::string& part) {
    const std::size_t first = part.find_first_not_of(' ');
    if (first == std::string::npos) return std::string{};
    return part.substr(first, part.find_last_not_of(' ') - first + 1);
  };
  const SourcePosition where{"--scheme", 0, 0};
  const std::size_t colon = text.find(':');
  SchemeCandidate made{trimmed(text.substr(0, colon)), {}};
  if (colon == std::string::npos || made.name.empty())
    throw InputError{where,
                     fmt::format("'{}' is no scheme; write NAME: KEY=VALUE, KEY=VALUE", text)};
  for (std::size_t at = colon + 1; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = trimmed(text.substr(at, comma - at));
    at = comma + 1;
    if (part.find('=') == std::string::npos || part.find('.') == std::string::npos)
      throw InputError{where,
                       fmt::format("'{}' of scheme {} is no SECTION.KEY=VALUE", part, made.name)};
    made.set.push_back(part);
    made.learns.push_back(key_of(part));
  }
  return made;
}

}  // namespace sim
