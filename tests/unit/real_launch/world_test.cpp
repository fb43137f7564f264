// Who this process is, by environments as the launchers set them (torchrun --no-python env; mpirun
// env with Open MPI 4.1.4; srun env and srun --mpi=pmix env with Slurm 22.05).
#include "real/launch/world.hpp"

#include <map>

#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using Variables = std::map<std::string, std::string>;

namespace {

std::optional<World> join(const Variables& variables, const WorldOptions& options = {}) {
  return join_world(options, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

const Variables torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "node01"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                         {"TORCHELASTIC_RUN_ID", "abc"}};
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1534918657"}};
const Variables slurm{
    {"SLURM_PROCID", "6"},  {"SLURM_LOCALID", "2"},        {"SLURM_NODEID", "1"},
    {"SLURM_NTASKS", "8"},  {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
    {"SLURM_STEP_ID", "3"}, {"SLURM_JOB_ID", "77"},        {"SLURM_JOB_NODELIST", "node[03-04]"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more)
    variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

}  // namespace

TEST_CASE("without a launcher a run starts its ranks itself", "[launch]") {
  REQUIRE_FALSE(join({}));
  REQUIRE_FALSE(join({{"MASTER_ADDR", "a"}, {"SLURM_JOB_ID", "1"}, {"RANK", ""}}));
}

TEST_CASE("torchrun's ranks meet at the port after the one its agent listens at", "[launch]") {
  const World world = join(torchrun).value();
  REQUIRE(world.source == "torchrun");
  REQUIRE(world.rank == 5);
  REQUIRE(world.size == 8);
  REQUIRE(world.local_rank == 1);
  REQUIRE(world.local_size == 4);
  REQUIRE(world.master_address == "node01");
  REQUIRE(world.master_port == 29501);
  REQUIRE(world.job == "torchrun abc restart 0 at node01:29500");
  REQUIRE_FALSE(world.one_machine);
}

TEST_CASE("mpirun's ranks on one machine need nothing else", "[launch]") {
  const World world = join(open_mpi).value();
  REQUIRE(world.source == "Open MPI");
  REQUIRE(world.rank == 1);
  REQUIRE(world.local_size == 2);
  REQUIRE(world.master_address == "127.0.0.1");
  REQUIRE(world.master_port >= 20000);
  REQUIRE(world.master_port < 30000);
  // The same job, the same port; another job, another one.
  REQUIRE(join(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "0"}}))->master_port == world.master_port);
  REQUIRE(join(with(open_mpi, {{"PMIX_NAMESPACE", "7"}}))->master_port != world.master_port);
}

TEST_CASE("mpirun's ranks on several machines need a master", "[launch]") {
  const Variables two =
      with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  REQUIRE_THROWS_WITH(
      join(two),
      "mpirun runs on several machines: set MASTER_ADDR to the first of them, as in "
      "mpirun -x MASTER_ADDR=host");
  REQUIRE(join(with(two, {{"MASTER_ADDR", "a"}}))->master_address == "a");
  REQUIRE(join(with(two, {{"SLURM_JOB_NODELIST", "b[7,9]"}}))->master_address == "b7");
}

TEST_CASE("srun's ranks meet at the first host of the job", "[launch]") {
  const World world = join(slurm).value();
  REQUIRE(world.source == "Slurm");
  REQUIRE(world.rank == 6);
  REQUIRE(world.size == 8);
  REQUIRE(world.local_rank == 2);
  REQUIRE(world.local_size == 4);
  REQUIRE(world.master_address == "node03");
  REQUIRE(world.job == "Slurm 77.3");
  const World set = join(with(slurm, {{"MASTER_ADDR", "x"}, {"MASTER_PORT", "999"}})).value();
  REQUIRE(set.master_address == "x");
  REQUIRE(set.master_port == 999);
}

TEST_CASE("srun --mpi=pmix sets no variables of Open MPI, and none are needed", "[launch]") {
  const World world =
      join(with(slurm, {{"PMIX_RANK", "6"}, {"PMIX_NAMESPACE", "slurm.pmix.77.3"}})).value();
  REQUIRE(world.source == "Slurm");
  REQUIRE(world.rank == 6);
}

TEST_CASE("a step of another size than its job counts its own tasks", "[launch]") {
  const World world =
      join(with(slurm, {{"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_TASKS_PER_NODE", "4,3"}}))
          .value();
  REQUIRE(world.size == 7);
  REQUIRE(world.local_size == 3);
}

TEST_CASE("a batch script that srun has not started is no rank", "[launch]") {
  REQUIRE_FALSE(join({{"SLURM_PROCID", "0"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_JOB_NAME", "train.sh"},
                      {"SLURM_TASKS_PER_NODE", "4(x2)"},
                      {"SLURM_JOB_NODELIST", "node[03-04]"}}));
}

TEST_CASE("the command line goes before torchrun, torchrun before mpirun, mpirun before srun",
          "[launch]") {
  const Variables all = with(with(torchrun, open_mpi), slurm);
  const World world = join(all, {.rank = 1, .world_size = 2, .master = "[::1]:1234"}).value();
  REQUIRE(world.source == "command line");
  REQUIRE(world.master_address == "::1");
  REQUIRE(world.master_port == 1234);
  REQUIRE(join(all)->source == "torchrun");
  REQUIRE(join(with(open_mpi, slurm))->source == "Open MPI");
}

TEST_CASE("--master is a name, an IPv4 or an IPv6 address, with a port", "[launch]") {
  const auto v6 = join({}, {.rank = 0, .world_size = 2, .master = "[2001:db8::7]:4711"});
  CHECK(v6->master_address == "2001:db8::7");
  CHECK(v6->master_port == 4711);
  CHECK(join({}, {.rank = 0, .world_size = 2, .master = "node1:4711"})->master_address == "node1");
}

TEST_CASE("variables that do not fit together are named", "[launch]") {
  REQUIRE_THROWS_WITH(join(without(torchrun, "WORLD_SIZE")), "RANK is set, but WORLD_SIZE is not");
  REQUIRE_THROWS_WITH(join(without(torchrun, "MASTER_ADDR")),
                      "RANK is set, but MASTER_ADDR is not");
  REQUIRE_THROWS_WITH(join(with(torchrun, {{"RANK", "8"}})), "RANK is 8, but WORLD_SIZE is 8");
  REQUIRE_THROWS_WITH(join(with(torchrun, {{"RANK", "two"}})),
                      "RANK is \"two\": a whole number from 0 is wanted");
  REQUIRE_THROWS_WITH(join(with(torchrun, {{"MASTER_PORT", "65535"}})),
                      "MASTER_PORT is 65535, and the run needs the port after it");
  REQUIRE_THROWS_WITH(join(with(torchrun, {{"LOCAL_RANK", "4"}})),
                      "rank 5 is number 4 on its machine, where only 4 ranks are");
  REQUIRE_THROWS_WITH(join(without(open_mpi, "OMPI_COMM_WORLD_SIZE")),
                      "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not");
  REQUIRE_THROWS_WITH(join(with(slurm, {{"SLURM_NODEID", "2"}})),
                      "SLURM_STEP_TASKS_PER_NODE is \"4(x2)\", but SLURM_NODEID is 2");
  REQUIRE_THROWS_WITH(join({}, {.rank = 1}), "--rank, --world-size and --master go together");
  REQUIRE_THROWS_WITH(join({}, {.rank = 2, .world_size = 2, .master = "a:1"}),
                      "--rank is 2, but --world-size is 2");
  REQUIRE_THROWS_WITH(join({}, {.rank = 0, .world_size = 2, .master = "a"}),
                      "--master is \"a\": ADDRESS:PORT is wanted");
  REQUIRE_THROWS_WITH(join({}, {.rank = 0, .world_size = 2, .master = "[::1]"}),
                      "--master is \"[::1]\": ADDRESS:PORT is wanted");
  REQUIRE_THROWS_WITH(join({}, {.rank = 0, .world_size = 2, .master = "fe80::1"}),
                      "--master is \"fe80::1\": an IPv6 address stands in brackets: [::1]:1234");
  REQUIRE_THROWS_WITH(join({}, {.rank = 0, .world_size = 2, .master = "a:0"}),
                      "the port of --master is \"0\": a whole number from 1 to 65535 is wanted");
}

TEST_CASE("the first host of Slurm's bracket form", "[launch]") {
  REQUIRE(first_host("node01") == "node01");
  REQUIRE(first_host("node01,node02") == "node01");
  REQUIRE(first_host("node[01-04]") == "node01");
  REQUIRE(first_host("node[7,9-11],login") == "node7");
  REQUIRE(first_host("login,node[01-04]") == "login");
  REQUIRE(first_host("rack[1-2]node[01-04]") == "rack1node01");
  REQUIRE(first_host("gpu[003]-ib,x[1-2]") == "gpu003-ib");
  REQUIRE_THROWS_WITH(first_host("node[01"), "SLURM_JOB_NODELIST is \"node[01\": no list of hosts");
}

TEST_CASE("a launcher may say that all ranks are on this machine", "[launch]") {
  REQUIRE(join(with(torchrun, {{"LOCAL_WORLD_SIZE", "8"}})).value().one_machine);
  // Not said: the rank alone must not conclude it, for the others would not.
  const Variables last = with(torchrun, {{"RANK", "7"}, {"LOCAL_RANK", "7"}});
  REQUIRE_FALSE(join(without(last, "LOCAL_WORLD_SIZE")).value().one_machine);
  REQUIRE(join(open_mpi).value().one_machine);
  REQUIRE_FALSE(join(slurm).value().one_machine);
  REQUIRE(join(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "8"}, {"SLURM_NODEID", "0"}}))
              .value()
              .one_machine);
}
