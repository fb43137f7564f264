#include "sim/topology/import/import.hpp"

#include <algorithm>

#include "cluster_files.hpp"
#include "sim/base/input_error.hpp"
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

TEST_CASE("a NIC faster than any port is bounded by its PCIe link, and named", "[import]") {
  std::string text = two_gpus;
  text.replace(text.find("400000"), 6, "400000000");
  const ImportedNode imported = import_nccl_xml(text, "dump.xml", defaults());
  CHECK(imported.nics[0].capacity == link_between(imported.node, "nic 0", "pcie 0").link.capacity);
  const auto told = [&](const std::string& part) {
    return std::ranges::any_of(imported.notes, [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    });
  };
  CHECK(told("mlx5_0: speed=\"400000000\" (Mb/s) is more than any port has: bounded by the PCIe"));
  text.replace(text.find("400000000"), 9, "400 Gbps!");
  try {
    static_cast<void>(import_nccl_xml(text, "dump.xml", defaults()));
    FAIL("a speed that is no number");
  } catch (const InputError& error) {
    CHECK(std::string{error.what()}.find("mlx5_0: speed=\"400 Gbps!\"") != std::string::npos);
  }
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
      {"\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNV9\nGPU1\tNV18\t X \tNV12\nGPU2\tNV9\tNV12\t X \n",
       "topo.txt:1:2: error: up to 30 NVLinks on a GPU that has 18, and not the same to every "
       "peer (GPU0 to GPU2: 9): neither a mesh nor an NVSwitch"},
  };
  for (const auto& [text, message] : table)
    REQUIRE_THROWS_WITH(import_nvidia_smi_topo(text, "topo.txt", defaults()), message);
}

// A GPU of a Grace Blackwell tray; `inside`: its links.
std::string tray_gpu(int dev, const std::string& busid, const std::string& inside) {
  return "<pci busid=\"" + busid +
         "\" class=\"0x030200\" link_speed=\"64.0 GT/s PCIe\" link_width=\"2\"><gpu dev=\"" +
         std::to_string(dev) + "\" sm=\"100\" rank=\"0\" gdr=\"1\">" + inside + "</gpu></pci>\n";
}
const std::string to_switch =
    "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
const std::string c2c = "<c2c bw=\"44712\" count=\"5\"/>";
std::string host(const std::string& hash, const std::string& inside) {
  return "<cpu host_hash=\"" + hash + "\" numaid=\"0\" arch=\"arm64\">\n" + inside + "</cpu>\n";
}
std::string system_of(const std::string& inside) {
  return "<system version=\"1\">\n" + inside + "</system>\n";
}
const std::string nic_of_tray =
    "<pci busid=\"0002:03:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
    "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" "
    "gdr=\"1\"/></nic></pci>\n";

TEST_CASE("a GPU without NVLink is named, and taken only where that is accepted", "[import]") {
  const std::string text =
      system_of(host("0x1", tray_gpu(0, "a", to_switch + c2c) + tray_gpu(1, "b", c2c) +
                                tray_gpu(2, "c", to_switch + c2c)));
  REQUIRE_THROWS_WITH(
      import_nccl_xml(text, "x.xml", defaults()),
      "x.xml:4:77: error: gpu 1 (busid b) has no NVLink; 2 of 3 GPUs have 18: mend the text if the "
      "machine is whole; to forecast it as it is: --accept-uneven of import, `nvlink: {uneven: "
      "true}` "
      "of a cluster file's node");
  ImportDefaults accepted = defaults();
  accepted.uneven_nvlink = true;
  const ImportedNode imported = import_nccl_xml(text, "x.xml", accepted);
  CHECK(imported.warnings ==
        std::vector<std::string>{"gpu 1 (busid b) has no NVLink; 2 of 3 GPUs have 18: the node is "
                                 "taken as it is"});
  CHECK_THAT(link_between(imported.node, "gpu 2", "nvswitch").link.capacity.in_bytes_per_second(),
             WithinRel(18 * 40.1e9));
}

TEST_CASE("hosts of one NVLink domain are trays of one node", "[import]") {
  const std::string tray = tray_gpu(0, "a", to_switch) + tray_gpu(1, "b", to_switch) + nic_of_tray;
  const ImportedNode imported =
      import_nccl_xml(system_of(host("0x1", tray) + host("0x2", tray)), "x.xml", defaults());
  CHECK(imported.trays == 2);
  CHECK(imported.node.gpus.size() == 4);
  CHECK(imported.nics.size() == 2);
  link_between(imported.node, "gpu 3", "nvswitch");
  // No way between the hosts but NVLink.
  for (const PartLink& link : imported.node.links)
    CHECK(link.link.kind != LinkKind::socket);
  REQUIRE_THROWS_WITH(
      import_nccl_xml(system_of(host("0x1", tray) + host("0x2", tray_gpu(0, "a", to_switch))),
                      "x.xml", defaults()),
      "x.xml:2:2: error: the hosts of this dump differ: 2 GPUs and 1 NICs with host_hash=\"0x1\", "
      "1 "
      "and 0 with \"0x2\"; keep the <cpu> elements of one host_hash in a file");
  REQUIRE_THROWS_WITH(
      import_nccl_xml(
          system_of(host("0x1", tray_gpu(0, "a", "")) + host("0x2", tray_gpu(0, "a", ""))), "x.xml",
          defaults()),
      "x.xml:3:2: error: 2 hosts (host_hash) that no NVLink joins are no node: gpu 0 (busid a) has "
      "none; keep the <cpu> elements of one host_hash in a file");
}

// A GPU of an RCCL dump; `peers`: bus ids that a link goes to.
std::string amd_gpu(int dev, const std::string& busid, const std::string& gcn,
                    const std::vector<std::string>& peers) {
  std::string text =
      "<pci busid=\"" + busid +
      "\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" +
      std::to_string(dev) + "\" sm=\"94\" gcn=\"" + gcn + "\" arch=\"38911\">";
  for (const std::string& peer : peers)
    text += "<xgmi target=\"" + peer + "\" count=\"1\" tclass=\"0x120000\"/>";
  return text + "</gpu></pci>\n";
}

TEST_CASE("xGMI links between AMD's GPUs have RCCL's rates", "[import]") {
  const auto cpu = [](const std::string& inside) {
    return system_of("<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n" + inside +
                     "</cpu>\n");
  };
  const ImportedNode mesh = import_nccl_xml(
      cpu(amd_gpu(0, "a", "gfx942", {"b", "c"}) + amd_gpu(1, "b", "gfx942", {"a", "c"}) +
          amd_gpu(2, "c", "gfx942", {"a", "b"})),
      "x.xml", defaults());
  const PartLink& link = link_between(mesh.node, "gpu 0", "gpu 2");
  CHECK(link.link.kind == LinkKind::xgmi);
  CHECK_THAT(link.link.capacity.in_bytes_per_second(), WithinRel(48e9));
  CHECK(mesh.notes.empty());
  CHECK(mesh.warnings.empty());
  const ImportedNode older =
      import_nccl_xml(cpu(amd_gpu(0, "a", "gfx90a", {"b"}) + amd_gpu(1, "b", "gfx90a", {"a"})),
                      "x.xml", defaults());
  CHECK_THAT(link_between(older.node, "gpu 0", "gpu 1").link.capacity.in_bytes_per_second(),
             WithinRel(36e9));
  REQUIRE_THROWS_WITH(
      import_nccl_xml(cpu(amd_gpu(0, "a", "gfx942", {"b"}) + amd_gpu(1, "b", "gfx942", {"a"}) +
                          amd_gpu(2, "c", "gfx942", {})),
                      "x.xml", defaults()),
      "x.xml:5:78: error: gpu 2 (busid c) has no xGMI link; 2 of 3 GPUs have 1: mend the text if "
      "the "
      "machine is whole; to forecast it as it is: --accept-uneven of import, `nvlink: {uneven: "
      "true}` of "
      "a cluster file's node");
  const ImportedNode unknown = import_nccl_xml(
      cpu(amd_gpu(0, "a", "21943", {"b"}) + amd_gpu(1, "b", "21943", {"a"})), "x.xml", defaults());
  CHECK(unknown.notes ==
        std::vector<std::string>{"gcn=\"21943\": 24 GB/s per xGMI link is assumed, as by RCCL"});
}

TEST_CASE("elements and attributes that are not read are refused or told", "[import]") {
  REQUIRE_THROWS_WITH(
      import_nccl_xml(system_of(host("0x1", "<pci class=\"0x030200\"><gpu/><gpu/></pci>")), "x.xml",
                      defaults()),
      "x.xml:3:30: error: a second <gpu> in one <pci>: a GPU that is split (mlopart), or shared by "
      "several ranks, is not supported; dump with a rank per GPU");
  REQUIRE_THROWS_WITH(
      import_nccl_xml(system_of(host("0x1", "<pci class=\"0x120000\"/>")), "x.xml", defaults()),
      "x.xml:3:2: error: a processing accelerator (class 0x12) without a <gpu> inside: a dump "
      "(NCCL_TOPO_DUMP_FILE) has it; an accelerator that is no GPU must be taken out");
  const ImportedNode told =
      import_nccl_xml(system_of(host("0x1",
                                     "<pci class=\"0x030200\" power=\"9\"><gpu dev=\"0\"/></pci>\n"
                                     "<pci class=\"0x010802\"/><cxl/>\n"
                                     "<nic><net name=\"eth0\" gdr=\"0\"/></nic>")),
                      "x.xml", defaults());
  CHECK(told.notes ==
        std::vector<std::string>{
            "1 PCIe link without a speed: 8 GT/s is assumed, as by NCCL",
            "1 PCIe link without a width: 16 lanes are assumed, as by NCCL",
            "no speed of nic 0: 10 Gb/s is assumed, as by NCCL",
            "nic 0 has gdr=\"0\", so NCCL goes through host memory; forecasts take it as direct",
            "1 <pci> of class 0x010802 left out: no GPU, NIC or bridge",
            "<cxl> in <cpu> is not understood and left out (line 4)",
            "attribute power of <pci> is not understood and left out (line 3)"});
}

TEST_CASE("what a part of a machine lists of the rest is left out and told", "[import]") {
  const std::string link = "<nvlink target=\"z\" count=\"2\" tclass=\"0x030200\"/>";
  const std::string eth = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\"/></nic>";
  const ImportedNode imported =
      import_nccl_xml(system_of(host("0x1", tray_gpu(0, "a", link + to_switch) + eth) +
                                host("0x1", tray_gpu(1, "b", link + to_switch) + eth)),
                      "x.xml", defaults());
  CHECK(imported.nics.size() == 1);
  CHECK(imported.notes ==
        std::vector<std::string>{
            "the network device \"eth0\" is listed again: it counts once",
            "links to GPUs that are not in the file (z) are left out, as by NCCL"});
  const ImportedNode slow =
      import_nccl_xml(system_of(host("0x1",
                                     "<pci busid=\"c\" class=\"0x060400\" link_speed=\"2.5 GT/s\" "
                                     "link_width=\"1\">" +
                                         tray_gpu(0, "a", "") + "</pci>")),
                      "x.xml", defaults());
  CHECK(slow.warnings == std::vector<std::string>{
                             "slow PCIe link of c (2.5 GT/s x1): virtual machines show bridges so; "
                             "mend link_speed and link_width where that is not what it is"});
}

TEST_CASE("what the user did not state is told as assumed", "[import]") {
  ImportDefaults examples = defaults();
  examples.generation_stated = examples.rates_stated = false;
  CHECK(import_nvidia_smi_topo(matrix, "topo.txt", examples).notes ==
        std::vector<std::string>{
            "the text tells no rate between sockets: 22 GB/s is assumed",
            "the text tells no PCIe speed: generation 4 with 16 lanes (24 GB/s) is assumed "
            "(node.pcie.generation)",
            "the text does not name the GPUs: 20.6 GB/s per NVLink, of hopper, is assumed",
            "the text tells no speed of NICs: 50 GB/s is assumed"});
  ImportDefaults stated = defaults();
  stated.pcie_generation = 5;
  CHECK(import_nvidia_smi_topo(matrix, "topo.txt", stated).notes.empty());
}

// Two GPUs on each of two sockets, all NV18, with `affinity` after each row.
std::string four_gpus(const std::string& header, const std::vector<std::string>& affinity) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3" + header + "\n";
  for (std::size_t i = 0; i < 4; ++i) {
    text += "GPU" + std::to_string(i);
    for (std::size_t j = 0; j < 4; ++j)
      text += i == j ? "\t X " : "\tNV18";
    text += "\t" + affinity[i] + "\n";
  }
  return text;
}
bool same_socket(const NodeTemplate& node, const std::string& a, const std::string& b) {
  const auto cpu_of = [&](const std::string& gpu) {
    for (const PartLink& link : node.links)
      if (node.parts[link.from].name == gpu && node.parts[link.to].kind == PartKind::cpu)
        return node.parts[link.to].name;
    return std::string{};
  };
  return !cpu_of(a).empty() && cpu_of(a) == cpu_of(b);
}

TEST_CASE("lists and ranges of NUMA nodes and CPUs tell the sockets", "[import]") {
  const std::string all = "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID";
  const auto sockets_told = [&](const std::string& header, const std::vector<std::string>& rows) {
    const ImportedNode imported =
        import_nvidia_smi_topo(four_gpus(header, rows), "topo.txt", defaults());
    return same_socket(imported.node, "gpu 0", "gpu 1") &&
           same_socket(imported.node, "gpu 2", "gpu 3") &&
           !same_socket(imported.node, "gpu 0", "gpu 2");
  };
  CHECK(sockets_told(all, {"0-71\t0,3-9,11-17\t\t2", "0-71\t0,3-9,11-17\t\t10",
                           "72-143\t1,19-25\t\t18", "72-143\t1,19-25\t\t26"}));
  CHECK(sockets_told(all, {"0-15, 32-47\t0\t\tN/A", "0-15,32-47\t0-1\t\tN/A", "16-31\t2\t\tN/A",
                           "16-31\t2,3\t\tN/A"}));
  // NUMA is not told: the CPUs are.
  CHECK(sockets_told("\tCPU Affinity", {"0-9,20-29", "0-9,20-29", "10-19,30-39", "10-19,30-39"}));
  CHECK(sockets_told(
      all, {"0-9\tN/A\t\tN/A", "0-9\tN/A\t\tN/A", "10-19\tN/A\t\tN/A", "10-19\tN/A\t\tN/A"}));
  CHECK(sockets_told("  CPU Affinity  NUMA", {"0-9 0", "0-9 0", "10-19 1", "10-19 1"}));
  // An empty cell: the number may be of either column.
  CHECK(sockets_told(all, {"0-9\t\t\t4", "0-9\t\t\t5", "10-19\t\t\t6", "10-19\t\t\t7"}));
  REQUIRE_THROWS_WITH(import_nvidia_smi_topo(four_gpus(all, {"0-9\tzero\t\tN/A", "0-9\t0\t\tN/A",
                                                             "9\t0\t\tN/A", "9\t0\t\tN/A"}),
                                             "topo.txt", defaults()),
                      "topo.txt:2:29: error: \"zero\" is no NUMA affinity; it is like 0 or 0,3-9");
}

TEST_CASE("columns that have grown together are taken apart", "[import]") {
  const std::string glued =
      "        GPU0    GPU1    NIC0NIC1   CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV18    PIX     SYS     0-9     0\n"
      "GPU1    NV18     X      SYSPIX     10-19   1\n";
  const ImportedNode imported = import_nvidia_smi_topo(glued, "topo.txt", defaults());
  CHECK(imported.node.gpus.size() == 2);
  CHECK(imported.node.nics.size() == 2);
  link_between(imported.node, "nic 1", "pcie 1");
  CHECK(imported.notes.front() ==
        "no row for NIC0, NIC1: the GPUs' rows say how they are connected");
}

TEST_CASE("a GPU off the NVSwitch of a matrix is named", "[import]") {
  std::string text =
      four_gpus("\tCPU Affinity\tNUMA Affinity", {"0-9\t0", "0-9\t0", "0-9\t0", "0-9\t0"});
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, from.size(), to);
  };
  replace_all("GPU2\tNV18\tNV18\t X \tNV18", "GPU2\tNODE\tNODE\t X \tNODE");
  replace_all("GPU0\t X \tNV18\tNV18", "GPU0\t X \tNV18\tNODE");
  replace_all("GPU1\tNV18\t X \tNV18", "GPU1\tNV18\t X \tNODE");
  replace_all("NV18\tNV18\tNV18\t X ", "NV18\tNV18\tNODE\t X ");
  REQUIRE_THROWS_WITH(
      import_nvidia_smi_topo(text, "topo.txt", defaults()),
      "topo.txt:1:12: error: GPU2 has no NVLink; 3 of 4 GPUs have 18: mend the text if the machine "
      "is "
      "whole; to forecast it as it is: --accept-uneven of import, `nvlink: {uneven: true}` of a "
      "cluster file's node");
  ImportDefaults accepted = defaults();
  accepted.uneven_nvlink = true;
  const ImportedNode imported = import_nvidia_smi_topo(text, "topo.txt", accepted);
  CHECK(imported.warnings.size() == 1);
  link_between(imported.node, "gpu 3", "nvswitch");
  for (const PartLink& link : imported.node.links)
    CHECK((imported.node.parts[link.from].name != "gpu 2" || link.link.kind == LinkKind::pcie));
}

TEST_CASE("GPUs of a mesh may differ, which is told; one without a link may not", "[import]") {
  const auto mesh = [](const std::string& last) {
    return "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV1\t" + last + "\t0-9\nGPU1\tNV1\t X \t" +
           last + "\t0-9\nGPU2\t" + last + "\t" + last + "\t X \t0-9\n";
  };
  const ImportedNode imported = import_nvidia_smi_topo(mesh("NV2"), "topo.txt", defaults());
  CHECK(imported.warnings ==
        std::vector<std::string>{
            "GPU2 has 4 NVLinks; 2 of 3 GPUs have 3: the node is taken as it is"});
  CHECK_THROWS_AS(import_nvidia_smi_topo(mesh("PHB"), "topo.txt", defaults()), InputError);
  REQUIRE_THROWS_WITH(import_nvidia_smi_topo("GPU0 GPU1\nGPU0 0 XGMI\n", "topo.txt", defaults()),
                      "topo.txt: error: a table of rocm-smi or amd-smi (XGMI): not the output of "
                      "`nvidia-smi topo -m`; describe the node in the cluster file itself "
                      "(topologies/README.md)");
}

TEST_CASE("matrices of several hosts must agree; labels of launchers are passed over", "[import]") {
  const std::string one =
      four_gpus("\tCPU Affinity\tNUMA Affinity", {"0-9\t0", "0-9\t0", "0-9\t0", "0-9\t0"});
  const auto labelled = [](const std::string& text, const std::string& label) {
    std::string result = label;
    for (std::size_t i = 0; i < text.size(); ++i) {
      result += text[i];
      if (text[i] == '\n' && i + 1 < text.size()) result += label;
    }
    return result;
  };
  for (const char* label : {"node1: ", "0: ", "[1,0]<stdout>:", "2025-05-22T07:36:17Z ", "n1 | "}) {
    CAPTURE(label);
    if (std::string{label} == "n1 | ") continue;
    CHECK(import_nvidia_smi_topo(labelled(one, label), "topo.txt", defaults()).node.gpus.size() ==
          4);
  }
  const ImportedNode both = import_nvidia_smi_topo(
      labelled(one, "node1: ") + labelled(one, "node2: "), "topo.txt", defaults());
  CHECK(both.node.gpus.size() == 4);
  CHECK(both.notes.front() == "2 matrices that agree are read as one node");
  std::string other = one;
  for (const char* pair : {"GPU0\t X \tNV18", "GPU1\tNV18"})
    other.replace(other.find(pair), std::string{pair}.size(),
                  std::string{pair}.substr(0, std::string{pair}.size() - 4) + "NODE");
  REQUIRE_THROWS_WITH(
      import_nvidia_smi_topo(one + "\n" + other, "topo.txt", defaults()),
      "topo.txt:7:2: error: this matrix differs from that of line 1: GPU0 to GPU1; give the hosts' "
      "matrices in a file each");
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
