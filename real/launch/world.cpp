#include "real/launch/world.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace real {
namespace {

using Text = std::optional<std::string>;

[[noreturn]] void refuse(const std::string& problem) {
  throw std::invalid_argument{problem};
}

int number(const std::string& name, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    refuse(most == std::numeric_limits<int>::max()
               ? fmt::format("{} is \"{}\": a whole number from {} is wanted", name, text, least)
               : fmt::format("{} is \"{}\": a whole number from {} to {} is wanted", name, text,
                             least, most));
  return value;
}

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_{environment} {}
  Text text(const std::string& name) const {
    Text value = environment_(name);
    return value && value->empty() ? std::nullopt : value;
  }
  std::optional<int> whole(const std::string& name, int least) const {
    const Text value = text(name);
    if (!value) return std::nullopt;
    return number(name, *value, least, std::numeric_limits<int>::max());
  }
  // needed() is a variable that must be there because `because` is.
  int needed(const std::string& name, const std::string& because, int least) const {
    const std::optional<int> value = whole(name, least);
    if (!value) refuse(fmt::format("{} is set, but {} is not", because, name));
    return *value;
  }

 private:
  const Environment& environment_;
};

// A port that all processes of a job derive alike. Below the ports that Linux gives to outgoing
// connections (32768 to 60999, net.ipv4.ip_local_port_range), above those of services (RFC 6335).
int port_of(const std::string& job) {
  constexpr int first = 20'000;
  constexpr int count = 10'000;
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : job)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return first + static_cast<int>(hash % count);
}

// "host", "host:1234", "[::1]:1234".
void set_master(World& world, const std::string& text) {
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket))
    refuse(fmt::format("--master is \"{}\": ADDRESS:PORT is wanted", text));
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)  // whose last group would be the port
    refuse(fmt::format("--master is \"{}\": an IPv6 address stands in brackets: [::1]:1234", text));
  if (host.empty()) refuse(fmt::format("--master is \"{}\": ADDRESS:PORT is wanted", text));
  world.master_address = host;
  world.master_port = number("the port of --master", text.substr(colon + 1), 1, 65535);
}

void check(const World& world, const std::string& rank, const std::string& size) {
  if (world.rank >= world.size)
    refuse(fmt::format("{} is {}, but {} is {}", rank, world.rank, size, world.size));
  if (world.local_rank >= world.local_size)
    refuse(fmt::format("rank {} is number {} on its machine, where only {} ranks are", world.rank,
                       world.local_rank, world.local_size));
}

std::optional<World> from_command_line(const WorldOptions& options) {
  if (!options.rank && !options.world_size && !options.master) return std::nullopt;
  if (!options.rank || !options.world_size || !options.master)
    refuse("--rank, --world-size and --master go together");
  World world{.rank = *options.rank, .size = *options.world_size, .source = "command line"};
  if (world.rank < 0 || world.size < 1)
    refuse(fmt::format("--rank is {} and --world-size {}", world.rank, world.size));
  set_master(world, *options.master);
  world.job = "command line " + *options.master;
  check(world, "--rank", "--world-size");
  return world;
}

std::optional<World> from_torchrun(const Variables& variables) {
  const std::optional<int> rank = variables.whole("RANK", 0);
  if (!rank) return std::nullopt;
  World world{.rank = *rank,
              .size = variables.needed("WORLD_SIZE", "RANK", 1),
              .local_rank = variables.whole("LOCAL_RANK", 0).value_or(0),
              .source = "torchrun"};
  const std::optional<int> local_size = variables.whole("LOCAL_WORLD_SIZE", 1);
  world.local_size = local_size.value_or(world.local_rank + 1);
  world.one_machine = local_size == world.size;
  const Text address = variables.text("MASTER_ADDR");
  const int port = variables.needed("MASTER_PORT", "RANK", 1);
  if (!address) refuse("RANK is set, but MASTER_ADDR is not");
  world.master_address = *address;
  // torchrun's agent itself listens at MASTER_PORT.
  world.master_port = port + 1;
  if (world.master_port > 65535)
    refuse(fmt::format("MASTER_PORT is {}, and the run needs the port after it", port));
  world.job = "torchrun " + variables.text("TORCHELASTIC_RUN_ID").value_or("none") + " restart " +
              variables.text("TORCHELASTIC_RESTART_COUNT").value_or("0") +
              fmt::format(" at {}:{}", *address, port);
  check(world, "RANK", "WORLD_SIZE");
  return world;
}

// MASTER_ADDR and MASTER_PORT where the user has set them, as scripts for srun and mpirun do.
bool take_master(World& world, const Variables& variables) {
  const Text address = variables.text("MASTER_ADDR");
  if (address) world.master_address = *address;
  const Text port = variables.text("MASTER_PORT");
  world.master_port = port ? number("MASTER_PORT", *port, 1, 65535) : port_of(world.job);
  return address.has_value();
}

std::optional<World> from_open_mpi(const Variables& variables) {
  const std::string name = "OMPI_COMM_WORLD_RANK";
  const std::optional<int> rank = variables.whole(name, 0);
  if (!rank) return std::nullopt;
  World world{.rank = *rank,
              .size = variables.needed("OMPI_COMM_WORLD_SIZE", name, 1),
              .local_rank = variables.needed("OMPI_COMM_WORLD_LOCAL_RANK", name, 0),
              .local_size = variables.needed("OMPI_COMM_WORLD_LOCAL_SIZE", name, 1),
              .source = "Open MPI"};
  world.one_machine = world.local_size == world.size;
  // PMIX_NAMESPACE, in Open MPI 4 also OMPI_MCA_orte_ess_jobid: one per mpirun.
  const Text job = variables.text("PMIX_NAMESPACE");
  world.job =
      "Open MPI " + job.value_or(variables.text("OMPI_MCA_ess_base_jobid").value_or("none"));
  if (!take_master(world, variables) && world.local_size < world.size) {
    const Text nodes = variables.text("SLURM_JOB_NODELIST");
    if (!nodes)
      refuse(
          "mpirun runs on several machines: set MASTER_ADDR to the first of them, as in "
          "mpirun -x MASTER_ADDR=host");
    world.master_address = first_host(*nodes);
  }
  check(world, name, "OMPI_COMM_WORLD_SIZE");
  return world;
}

// How many ranks of this step the machine of the node has: "4(x2),3" with SLURM_NODEID.
int tasks_on_node(const std::string& list, int node) {
  std::size_t at = 0;
  int passed = 0;
  while (at < list.size()) {
    std::size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    const std::string item = list.substr(at, end - at);
    const std::size_t repeat = item.find("(x");
    const int tasks = number("SLURM_STEP_TASKS_PER_NODE", item.substr(0, repeat), 1, 1'000'000);
    int nodes = 1;
    if (repeat != std::string::npos && item.ends_with(')'))
      nodes = number("SLURM_STEP_TASKS_PER_NODE", item.substr(repeat + 2, item.size() - repeat - 3),
                     1, 1'000'000);
    passed += nodes;
    if (node < passed) return tasks;
    at = end + 1;
  }
  refuse(fmt::format("SLURM_STEP_TASKS_PER_NODE is \"{}\", but SLURM_NODEID is {}", list, node));
}

std::optional<World> from_slurm(const Variables& variables) {
  const std::string name = "SLURM_PROCID";
  const std::optional<int> rank = variables.whole(name, 0);
  if (!rank) return std::nullopt;
  // A batch script has SLURM_PROCID too; only what srun starts has a step and its size.
  const std::optional<int> step_size = variables.whole("SLURM_STEP_NUM_TASKS", 1);
  const bool in_step = step_size || variables.text("SLURM_STEP_ID");
  const bool batch_script =
      !in_step && variables.text("SLURM_JOB_NAME") && variables.text("SLURM_TASKS_PER_NODE");
  if (batch_script) return std::nullopt;
  World world{.rank = *rank, .source = "Slurm"};
  world.size = step_size ? *step_size : variables.needed("SLURM_NTASKS", name, 1);
  world.local_rank = variables.whole("SLURM_LOCALID", 0).value_or(0);
  const Text per_node = variables.text("SLURM_STEP_TASKS_PER_NODE");
  world.local_size = per_node
                         ? tasks_on_node(*per_node, variables.whole("SLURM_NODEID", 0).value_or(0))
                         : world.local_rank + 1;
  world.one_machine = per_node && world.local_size == world.size;
  world.job = "Slurm " + variables.text("SLURM_JOB_ID").value_or("none") + "." +
              variables.text("SLURM_STEP_ID").value_or("0");
  if (!take_master(world, variables)) {
    Text nodes = variables.text("SLURM_STEP_NODELIST");
    if (!nodes) nodes = variables.text("SLURM_JOB_NODELIST");
    if (nodes) world.master_address = first_host(*nodes);
  }
  check(world, name, step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  return world;
}

}  // namespace

std::string first_host(const std::string& nodelist) {
  const std::size_t bracket = nodelist.find('[');
  const std::size_t comma = nodelist.find(',');
  if (bracket == std::string::npos || comma < bracket) return nodelist.substr(0, comma);
  const std::size_t close = nodelist.find(']', bracket);
  const std::size_t end = nodelist.find_first_of(",-]", bracket + 1);
  if (close == std::string::npos || end == bracket + 1)
    refuse(fmt::format("SLURM_JOB_NODELIST is \"{}\": no list of hosts", nodelist));
  // Multi-dimensional names repeat the bracket: rack[1-2]node[01-04].
  std::string first = nodelist.substr(0, bracket) + nodelist.substr(bracket + 1, end - bracket - 1);
  const std::size_t rest_end = nodelist.find(',', close);
  const std::string rest = nodelist.substr(
      close + 1, rest_end == std::string::npos ? std::string::npos : rest_end - close - 1);
  if (rest.empty()) return first;
  return first_host(first + nodelist.substr(close + 1));
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::optional<World> join_world(const WorldOptions& options, const Environment& environment) {
  const Variables variables{environment};
  if (std::optional<World> world = from_command_line(options)) return world;
  if (std::optional<World> world = from_torchrun(variables)) return world;
  if (std::optional<World> world = from_open_mpi(variables)) return world;
  return from_slurm(variables);
}

}  // namespace real
