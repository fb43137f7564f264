#include "sim/topology/import.hpp"

#include "cluster_files.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

using namespace sim::literals;

ImportDefaults defaults() {
  return {.generation = Generation::hopper,
          .nvlink_latency = 300ns,
          .nic = 400_Gbps,
          .nic_latency = 300ns,
          .pcie_latency = 500ns,
          .socket_bandwidth = 22_GBps};
}

// Two sockets, each with a PCIe 5 switch over one GPU and one NIC; NVSwitch seen as two devices.
const std::string two_gpus = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.0" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:96:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:98:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="0">
        <gpu dev="0" sm="90" rank="1" gdr="1">
          <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:99:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_1" dev="1" speed="-1" port="1" latency="4.0" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
)";

const PartLink& link_between(const NodeTemplate& node, const std::string& from,
                             const std::string& to) {
  for (const PartLink& link : node.links)
    if (node.parts[link.from].name == from && node.parts[link.to].name == to) return link;
  FAIL("no link from " << from << " to " << to);
  return node.links.front();
}

TEST_CASE("an NCCL dump becomes GPUs by dev, switches, NICs with NCCL's rates", "[import]") {
  const ImportedNode imported = import_nccl_xml(two_gpus, "dump.xml", ImportDefaults{});
  const NodeTemplate& node = imported.node;
  CHECK(imported.cpu_vendor == "intel");
  CHECK(node.gpus.size() == 2);
  const auto rate = [&](const std::string& from, const std::string& to) {
    return link_between(node, from, to).link.capacity.in_bytes_per_second() / 1e9;
  };
  // 10 + 8 links of 20.6 GB/s, over switches that count as one.
  CHECK_THAT(rate("gpu 1", "nvswitch"), WithinRel(370.8));
  CHECK(link_between(node, "gpu 1", "nvswitch").bundled == 18);
  CHECK_THAT(rate("gpu 0", "nvswitch"), WithinRel(370.8));
  CHECK_THAT(rate("gpu 1", "pcie 0"), WithinRel(48.0));
  CHECK_THAT(rate("nic 0", "pcie 0"), WithinRel(24.0));  // 16 GT/s
  CHECK_THAT(rate("gpu 0", "pcie 1"), WithinRel(48.0));  // a hidden width counts as 16
  CHECK_THAT(rate("cpu 0", "cpu 1"), WithinRel(22.0));   // model 143: Sapphire Rapids
  REQUIRE(imported.nics.size() == 2);
  CHECK(imported.nics[0].capacity == 400_Gbps);
  CHECK(imported.nics[1].capacity == 10_Gbps);  // unknown speed
  CHECK(imported.nics[1].latency == Duration{2us});
}

TEST_CASE("a static file with classes only takes NVLinks and NIC speeds from the cluster file",
          "[import]") {
  const std::string text = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>)";
  ImportDefaults given = defaults();
  given.generation = Generation::ampere;
  given.nvlinks = 12;
  const ImportedNode imported = import_nccl_xml(text, "static.xml", given);
  CHECK(imported.cpu_vendor == "amd");
  CHECK_THAT(link_between(imported.node, "gpu 0", "nvswitch").link.capacity.in_bytes_per_second(),
             WithinRel(240e9));
  CHECK(imported.nics.front().capacity == 400_Gbps);
  CHECK(imported.notes == std::vector<std::string>{
                              "the file names no NVLink: 12 links of each GPU to an NVSwitch are "
                              "assumed"});
}

TEST_CASE("junk and contradictions in a topology XML are refused with their place", "[import]") {
  const auto gpu = [](const std::string& inside) {
    return "<system version=\"1\">\n<cpu numaid=\"0\">\n" + inside + "\n</cpu></system>";
  };
  const auto pci = [&](const std::string& inside) {
    return gpu("<pci busid=\"a\" class=\"0x030200\">" + inside + "</pci>");
  };
  const std::vector<std::pair<std::string, std::string>> table{
      {"", "x.xml:1:1: error: not well-formed XML: No document element found"},
      {"<system><cpu>", "x.xml:1:13: error: not well-formed XML: Start-end tags mismatch"},
      {"<graphs version=\"1\"/>",
       "x.xml:1:2: error: the root element is <graphs>; an NCCL topology starts with <system> "
       "(this is a graph file, NCCL_GRAPH_DUMP_FILE)"},
      {"<system/>",
       "x.xml:1:2: error: no GPU found: a <pci> of class 0x0302.. or with a <gpu> inside, below "
       "a <cpu>"},
      {gpu("<pci busid=\"0000:00:16.0\"/>"),
       "x.xml:3:2: error: this <pci> has neither a class nor a <gpu> or <nic> inside, so NCCL "
       "would ask the machine what it is; add class=\"0x030200\" for a GPU or class=\"0x020700\" "
       "for a NIC"},
      {gpu("<pci class=\"0x030200\" link_speed=\"9 GT/s\"/>"),
       "x.xml:3:2: error: link_speed=\"9 GT/s\"; allowed: 2.5, 5, 8, 16, 32 or 64 GT/s"},
      {gpu("<pci class=\"0x030200\" link_width=\"x\"/>"),
       "x.xml:3:2: error: link_width=\"x\" is not a number up to 1e+06"},
      {pci("<gpu sm=\"90\"><nvlink target=\"b\" count=\"0\"/></gpu>"),
       "x.xml:3:47: error: count=\"0\"; allowed: 1 to 256"},
      {pci("<gpu sm=\"90\"><nvlink target=\"b\" count=\"4\" tclass=\"0x030200\"/></gpu>"),
       "x.xml:3:47: error: no GPU has busid \"b\""},
      {pci("<gpu sm=\"30\"><nvlink target=\"b\" count=\"4\"/></gpu>"),
       "x.xml:3:34: error: sm=\"30\" has no NVLink; known: 60 and up"},
  };
  for (const auto& [text, message] : table)
    REQUIRE_THROWS_WITH(import_nccl_xml(text, "x.xml", ImportDefaults{}), message);
}

TEST_CASE("deep nesting is refused, not followed", "[import]") {
  std::string text = "<system><cpu>";
  for (int i = 0; i < 100'000; ++i)
    text += "<pci>";
  for (int i = 0; i < 100'000; ++i)
    text += "</pci>";
  text += "</cpu></system>";
  REQUIRE_THROWS_WITH(import_nccl_xml(text, "x.xml", ImportDefaults{}),
                      "x.xml:1:330: error: nested deeper than 64 elements");
}

const std::string matrix =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\t0-55\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tNODE\tSYS\t0-55\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tPXB\t56-111\t1\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tNODE\t56-111\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\tSYS\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tSYS\tPXB\tNODE\tSYS\t X \n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

TEST_CASE("nvidia-smi topo -m becomes NUMA nodes, PCIe switches and an NVSwitch", "[import]") {
  const ImportedNode imported = import_nvidia_smi_topo(matrix, "topo.txt", defaults());
  const NodeTemplate& node = imported.node;
  CHECK(node.gpus.size() == 4);
  CHECK(node.nics.size() == 2);
  CHECK_THAT(link_between(node, "gpu 3", "nvswitch").link.capacity.in_bytes_per_second(),
             WithinRel(370.8e9));
  link_between(node, "gpu 0", "pcie 0");
  link_between(node, "nic 0", "pcie 0");
  link_between(node, "gpu 1", "cpu 0");
  link_between(node, "gpu 2", "pcie 1");
  link_between(node, "gpu 3", "cpu 1");
  CHECK_THAT(link_between(node, "cpu 0", "cpu 1").link.capacity.in_bytes_per_second(),
             WithinRel(22e9));
}

TEST_CASE("four A100 that are NV4 to each other are a mesh: 3 x 4 links are the 12 they have",
          "[import]") {
  const std::string text =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV4\tNV4\tNV4\t0-63\t0\nGPU1\tNV4\t X \tNV4\tNV4\t0-63\t0\n"
      "GPU2\tNV4\tNV4\t X \tNV4\t0-63\t0\nGPU3\tNV4\tNV4\tNV4\t X \t0-63\t0\n";
  ImportDefaults given = defaults();
  given.generation = Generation::ampere;
  const ImportedNode imported = import_nvidia_smi_topo(text, "topo.txt", given);
  CHECK_THAT(link_between(imported.node, "gpu 1", "gpu 3").link.capacity.in_bytes_per_second(),
             WithinRel(80e9));
}

TEST_CASE("mistakes in a topo -m matrix are refused with their place", "[import]") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"index, name\n0, H200\n",
       "topo.txt: error: no line starts with GPU0: not the output of `nvidia-smi topo -m`"},
      {"\tGPU0\tGPU1\nGPU0\t X \tNV4\n",
       "topo.txt:1:7: error: no row for GPU1: is the text cut off?"},
      {"\tGPU0\tGPU1\nGPU0\t X \n",
       "topo.txt:2:1: error: the row of GPU0 has 1 cells; the header names 2 devices"},
      {"\tGPU0\tGPU1\nGPU0\t X \tNVX\n",
       "topo.txt:2:10: error: \"NVX\" is no connection; allowed: X, NV1 to NV256, PIX, PXB, PHB, "
       "NODE, SYS"},
      {"\tGPU0\tGPU1\nGPU0\t X \tX\n", "topo.txt:2:10: error: X between two devices"},
      {"\tGPU0\tGPU0\n", "topo.txt:1:7: error: GPU0 is listed twice"},
      {"\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n",
       "topo.txt:1:7: error: GPU0 and GPU1 are connected differently in their two rows"},
      {"\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNV9\nGPU1\tNV18\t X \tNV9\nGPU2\tNV9\tNV9\t X \n",
       "topo.txt:1:2: error: up to 27 NVLinks on a GPU that has 18, and not the same to every "
       "peer: neither a mesh nor an NVSwitch"},
  };
  for (const auto& [text, message] : table)
    REQUIRE_THROWS_WITH(import_nvidia_smi_topo(text, "topo.txt", defaults()), message);
}

TEST_CASE("an imported node runs in a cluster", "[import]") {
  const TemporaryFile xml{"topology_test_node.xml", two_gpus};
  ClusterText text;
  text.node = R"(node:
  kind: imported
  file: topology_test_node.xml
  nvlink: {latency: 300 ns}
  pcie: {latency: 500 ns}
  nics: {latency: 300 ns}
)";
  text.fabric = "fabric:\n  kind: flat\n  switch_latency: 100 ns\n";
  const Cluster cluster = text.load();
  CHECK(cluster.gpus() == 16);
  CHECK(cluster.route(GpuId{0}, GpuId{1}).kind == PathKind::nvlink);
  // GPU 1 of the file's first socket, whose NIC sits on PCIe 4 x16: 24 GB/s.
  CHECK_THAT(cluster.route(GpuId{1}, GpuId{3}).bandwidth.in_bytes_per_second(), WithinRel(24e9));
}

}  // namespace
}  // namespace sim
