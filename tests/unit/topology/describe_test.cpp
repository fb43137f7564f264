// Machines in words.
#include "sim/topology/describe.hpp"

#include "cluster_files.hpp"
#include "sim/base/quantity.hpp"
#include "sim/topology/route_check.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two GPUs of a mesh, 12 NVLinks between them; no NIC.
const std::string mesh =
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV12\t0-15\t0\n"
    "GPU1\tNV12\t X \t0-15\t0\n";

TEST_CASE("a device is described by its memory and its dense peaks", "[topology]") {
  const std::string text = describe(load_device(device_path()));
  CHECK(text.starts_with("device: H100 SXM, 132 SMs, "));
  CHECK(has(text, "\n  bf16  " + to_text(FlopRate::per_second(989.4e12)) + " dense\n"));
  CHECK_FALSE(has(text, "fp4"));  // Hopper has none
}

TEST_CASE("an imported node is described with what was assumed of it", "[topology]") {
  const ImportedNode node = import_nvidia_smi_topo(mesh, "topo.txt", example_defaults());
  const std::string text = describe(node, "topo.txt");
  CHECK(text.starts_with("topo.txt\nparts\n"));
  CHECK(has(text, "    2 gpu\n"));
  CHECK(has(text, "links, one direction each\n"));
  // Hopper's 20.6 GB/s a link, since nobody has said the generation: 12 are 247.2.
  CHECK(has(text, to_text(Bandwidth::bytes_per_second(12 * 20.6e9))));
  CHECK(has(text, "\nassumed: "));
  CHECK(text.ends_with("\nIn a cluster file:\nnode: {kind: imported, file: topo.txt, ...}\n"));
}

TEST_CASE("a walk of the routes counts them", "[topology]") {
  // 4 x 4 within a node; both ways between each of 4 GPUs and its like on 7 other nodes.
  CHECK(check_routes(ClusterText{}.load()) == 4 * 4 + 2 * 4 * 7);
}

}  // namespace
}  // namespace sim
