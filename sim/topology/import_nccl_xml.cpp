// NCCL's topology XML. The rules are those of NVIDIA NCCL 2.30.7: src/graph/xml.cc for elements and
// classes, topo.cc and topo.h for rates.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <pugixml.hpp>

#include "sim/base/input_error.hpp"
#include "sim/topology/import.hpp"
#include "sim/topology/text_position.hpp"

namespace sim {
namespace {

constexpr int deepest = 64;  // real files nest about 8 deep
constexpr std::size_t most_gpus = 256;
constexpr std::size_t most_nics = 64;
constexpr std::size_t most_switches = 1024;

Bandwidth gigabytes(double value) {
  return Bandwidth::bytes_per_second(value * 1e9);
}

// NCCL's NVLink rate per link by compute capability (ncclTopoNVLinkBw, topo.h).
double nvlink_rate(int sm) {
  if (sm >= 100) return 40.1;
  if (sm >= 90) return 20.6;
  if (sm == 86) return 12;
  if (sm >= 70) return 20;
  return sm >= 60 ? 18 : 0;
}

class XmlImport {
 public:
  XmlImport(std::string_view text, const std::string& name, const ImportDefaults& defaults)
      : lines_{text, name}, defaults_{defaults} {
    const pugi::xml_parse_result result =
        file_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result)
      throw InputError(
          lines_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, result.offset))),
          fmt::format("not well-formed XML: {}", result.description()));
  }

  ImportedNode run() {
    const pugi::xml_node system = file_.document_element();
    if (!system || std::string_view(system.name()) != "system")
      fail(system, fmt::format("the root element is <{}>; an NCCL topology starts with <system>{}",
                               system.name(),
                               std::string_view(system.name()) == "graphs"
                                   ? " (this is a graph file, NCCL_GRAPH_DUMP_FILE)"
                                   : ""));
    for (const pugi::xml_node cpu : system.children("cpu"))
      add_cpu(cpu);
    if (gpus_.empty())
      fail(system, "no GPU found: a <pci> of class 0x0302.. or with a <gpu> inside, below a <cpu>");
    order_gpus();
    add_nvlinks();
    connect_sockets(system);
    result_.node = std::move(node_);
    return std::move(result_);
  }

 private:
  struct Gpu {
    pugi::xml_node pci, gpu;
    std::uint32_t part = 0;
    std::uint32_t cpu = 0;
    int dev = -1;
  };

  [[noreturn]] void fail(const pugi::xml_node& at, const std::string& what) const {
    const std::ptrdiff_t offset = at ? at.offset_debug() : 0;
    throw InputError(lines_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset))),
                     what);
  }

  double number(const pugi::xml_node& at, const char* key, double fallback, double most) const {
    const pugi::xml_attribute attribute = at.attribute(key);
    if (!attribute || *attribute.value() == '\0') return fallback;
    const char* const text = attribute.value();
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !std::isfinite(value) || std::abs(value) > most)
      fail(at, fmt::format("{}=\"{}\" is not a number up to {:g}", key,
                           std::string_view(text).substr(0, 40), most));
    return value;
  }
  int whole(const pugi::xml_node& at, const char* key, int fallback) const {
    const double value = number(at, key, fallback, 1e6);
    if (value != std::floor(value))
      fail(at, fmt::format("{}=\"{}\" is not a whole number", key, at.attribute(key).value()));
    return static_cast<int>(value);
  }

  void add_cpu(const pugi::xml_node& element) {
    const std::uint32_t part = node_.add_part(PartKind::cpu, fmt::format("cpu {}", cpus_.size()));
    cpus_.push_back(element);
    cpu_parts_.push_back(part);
    const std::string_view vendor = element.attribute("vendor").value();
    const std::string_view arch = element.attribute("arch").value();
    if (vendor == "GenuineIntel")
      result_.cpu_vendor = "intel";
    else if (vendor == "AuthenticAMD")
      result_.cpu_vendor = "amd";
    else if (arch == "arm64" || arch == "aarch64")
      result_.cpu_vendor = "arm";
    add_children(element, part, part, 1);
    for (const pugi::xml_node nic : element.children("nic"))
      add_nets(nic, part, {});
  }

  void add_children(const pugi::xml_node& parent, std::uint32_t part, std::uint32_t cpu,
                    int depth) {
    if (depth > deepest) fail(parent, fmt::format("nested deeper than {} elements", deepest));
    for (const pugi::xml_node pci : parent.children("pci"))
      add_pci(pci, part, cpu, depth);
  }

  // width * speed / 80 GB/s, speed in units of 100 Mb/s per lane (ncclTopoAddPci and kvDictPciGen).
  Link pci_link(const pugi::xml_node& pci) const {
    int width = whole(pci, "link_width", 16);
    if (width == 0) width = 16;  // virtual machines hide it
    if (width < 0 || width > 32)
      fail(pci, fmt::format("link_width=\"{}\"; allowed: 0 to 32", width));
    const std::string_view text = pci.attribute("link_speed").value();
    double gigatransfers = 8;  // NCCL's default for an empty or unknown speed
    if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      gigatransfers = std::strtod(std::string(text.substr(0, 16)).c_str(), nullptr);
      constexpr std::array known{2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
      if (std::find(known.begin(), known.end(), gigatransfers) == known.end())
        fail(pci, fmt::format("link_speed=\"{}\"; allowed: 2.5, 5, 8, 16, 32 or 64 GT/s",
                              text.substr(0, 40)));
    }
    return {LinkKind::pcie, gigabytes(width * gigatransfers * 7.5 / 80), defaults_.pcie_latency};
  }

  void add_pci(const pugi::xml_node& pci, std::uint32_t parent, std::uint32_t cpu, int depth) {
    const std::string_view kind = pci.attribute("class").value();
    if (pci.child("gpu") || kind.starts_with("0x03")) {
      add_gpu(pci, parent, cpu);
    } else if (pci.child("nic") || kind.starts_with("0x02")) {
      if (pci.child("nic"))
        for (const pugi::xml_node nic : pci.children("nic"))
          add_nets(nic, parent, pci);
      else
        add_nic(parent, pci_link(pci), {}, pci);
    } else if (pci.child("pci")) {
      if (++switches_ > most_switches)
        fail(pci, fmt::format("more than {} PCIe switches", most_switches));
      const std::uint32_t bridge =
          node_.add_part(PartKind::pcie_switch, fmt::format("pcie {}", switches_ - 1));
      node_.connect(bridge, parent, pci_link(pci));
      add_children(pci, bridge, cpu, depth + 1);
    } else if (kind.empty()) {
      fail(pci,
           "this <pci> has neither a class nor a <gpu> or <nic> inside, so NCCL would ask the "
           "machine what it is; add class=\"0x030200\" for a GPU or class=\"0x020700\" for a "
           "NIC");
    }
    // Anything else (0x0680: an NVSwitch, reached over nvlink elements; storage) carries no
    // traffic.
  }

  void add_gpu(const pugi::xml_node& pci, std::uint32_t parent, std::uint32_t cpu) {
    const pugi::xml_node gpu = pci.child("gpu");
    if (gpus_.size() >= most_gpus) fail(pci, fmt::format("more than {} GPUs", most_gpus));
    const std::uint32_t part = node_.add_part(PartKind::gpu, "gpu");
    node_.connect(part, parent, pci_link(pci));
    for (const pugi::xml_node c2c : gpu.children("c2c")) {
      // MB/s per link, links.
      const double rate = number(c2c, "bw", 0, 1e7) * number(c2c, "count", 1, 1000);
      if (!(rate > 0)) fail(c2c, "a <c2c> needs bw and count above 0");
      node_.connect(
          part, cpu,
          {LinkKind::pcie, Bandwidth::bytes_per_second(rate * 1e6), defaults_.pcie_latency});
    }
    gpus_.push_back({pci, gpu, part, cpu, gpu ? whole(gpu, "dev", -1) : -1});
  }

  void add_nets(const pugi::xml_node& nic, std::uint32_t parent, const pugi::xml_node& pci) {
    std::vector<pugi::xml_node> nets;
    for (const pugi::xml_node net : nic.children("net"))
      if (std::string_view(net.attribute("name").value()) != "lo") nets.push_back(net);
    if (nets.empty()) {
      if (nic.child("net")) {
        result_.notes.emplace_back("the loopback device \"lo\" is left out");
        return;
      }
      add_nic(parent, pci ? pci_link(pci) : Link{}, {}, nic);
      return;
    }
    // Ports of one NIC share its PCIe link.
    std::uint32_t below = parent;
    if (pci && nets.size() > 1) {
      below = node_.add_part(PartKind::pcie_switch, fmt::format("pcie {}", switches_++));
      node_.connect(below, parent, pci_link(pci));
    }
    for (const pugi::xml_node& net : nets)
      add_nic(below, pci ? pci_link(pci) : Link{}, net, net);
  }

  // Without a <pci> around it (a virtual device) a NIC hangs at the CPU by a link as fast as
  // itself.
  void add_nic(std::uint32_t parent, Link host, const pugi::xml_node& net,
               const pugi::xml_node& place) {
    if (node_.nics.size() >= most_nics) fail(place, fmt::format("more than {} NICs", most_nics));
    Link port{LinkKind::nic, defaults_.nic, defaults_.nic_latency};
    if (net) {
      double megabits = number(net, "speed", 10'000, 1e8);
      if (megabits <= 0) megabits = 10'000;  // NCCL's value for an unknown speed
      port.capacity = gigabytes(megabits / 8000);
      // Of a whole message, so half on each side.
      const double latency = number(net, "latency", 0, 1e6);
      if (latency < 0) fail(net, "latency is below 0");
      if (latency > 0) port.latency = duration_from_seconds(latency * 0.5e-6);
    }
    if (!(port.capacity > Bandwidth{}))
      fail(place, "this NIC has no <net> with a speed; state nics.bandwidth in the cluster file");
    if (!(host.capacity > Bandwidth{}))
      host = {LinkKind::pcie, port.capacity, defaults_.pcie_latency};
    node_.connect(node_.add_nic(), parent, host);
    result_.nics.push_back(port);
  }

  // GPUs are numbered by `dev` where all of them have it, else in file order.
  void order_gpus() {
    const bool numbered =
        std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.dev >= 0; });
    if (numbered)
      std::stable_sort(gpus_.begin(), gpus_.end(),
                       [](const Gpu& a, const Gpu& b) { return a.dev < b.dev; });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (numbered && i > 0 && gpus_[i].dev == gpus_[i - 1].dev)
        fail(gpus_[i].gpu, fmt::format("two GPUs have dev=\"{}\"", gpus_[i].dev));
      node_.gpus.push_back(gpus_[i].part);
      node_.parts[gpus_[i].part].name = fmt::format("gpu {}", i);
    }
  }

  double rate_of(const Gpu& gpu) const {
    const int sm = gpu.gpu ? whole(gpu.gpu, "sm", 0) : 0;
    if (sm == 0) return nccl_nvlink_bandwidth(defaults_.generation).in_bytes_per_second() / 1e9;
    const double rate = nvlink_rate(sm);
    if (rate <= 0) fail(gpu.gpu, fmt::format("sm=\"{}\" has no NVLink; known: 60 and up", sm));
    return rate;
  }

  std::uint32_t nvswitch() {
    if (!has_nvswitch_) nvswitch_ = node_.add_part(PartKind::nvswitch, "nvswitch");
    has_nvswitch_ = true;
    return nvswitch_;
  }

  void add_nvlinks() {
    bool named = false;
    for (const Gpu& gpu : gpus_) {
      int to_switch = 0;
      for (const pugi::xml_node link : gpu.gpu.children("nvlink")) {
        named = true;
        const int count = whole(link, "count", 1);
        if (count < 1 || count > 256)
          fail(link, fmt::format("count=\"{}\"; allowed: 1 to 256", count));
        const std::string_view target = link.attribute("target").value();
        const std::string_view kind = link.attribute("tclass").value();
        const auto peer = std::find_if(gpus_.begin(), gpus_.end(), [&](const Gpu& other) {
          return std::string_view(other.pci.attribute("busid").value()) == target;
        });
        if (peer != gpus_.end() && peer->part == gpu.part) fail(link, "a GPU linked to itself");
        if (peer != gpus_.end())
          node_.links.push_back({gpu.part, peer->part, nvlink(gpu, count), count});
        else if (kind.starts_with("0x03"))
          fail(link, fmt::format("no GPU has busid \"{}\"", target.substr(0, 40)));
        else if (kind.starts_with("0x068001"))
          fail(link, "NVLink to the CPU (POWER9) is not supported");
        else  // 0x0680 or, in virtual machines, the invisible fffffff:ff:ff.0
          to_switch += count;
      }
      if (to_switch > 0) node_.connect(gpu.part, nvswitch(), nvlink(gpu, to_switch), to_switch);
    }
    if (named || defaults_.nvlinks == 0) return;
    for (const Gpu& gpu : gpus_)
      node_.connect(gpu.part, nvswitch(), nvlink(gpu, defaults_.nvlinks), defaults_.nvlinks);
    result_.notes.push_back(
        fmt::format("the file names no NVLink: {} links of each GPU to an NVSwitch are assumed",
                    defaults_.nvlinks));
  }
  Link nvlink(const Gpu& gpu, int count) const {
    return {LinkKind::nvlink, gigabytes(rate_of(gpu) * count), defaults_.nvlink_latency};
  }

  // topo.h: AMD 16, ARM 6, POWER9 32; Intel by model: Broadwell 6, Skylake 10, Sapphire Rapids 22,
  // Emerald Rapids 40 GB/s (ncclTopoGetInterCpuBw).
  double socket_rate(const pugi::xml_node& cpu) const {
    const std::string_view arch = cpu.attribute("arch").value();
    if (result_.cpu_vendor == "amd") return 16;
    if (result_.cpu_vendor == "arm") return 6;
    if (arch == "ppc64") return 32;
    if (result_.cpu_vendor != "intel") return 0;
    const int model = whole(cpu, "modelid", 0);
    return model >= 0xCF ? 40 : model >= 0x8F ? 22 : model >= 0x55 ? 10 : 6;
  }

  void connect_sockets(const pugi::xml_node& system) {
    if (cpus_.size() < 2) return;
    Bandwidth rate = defaults_.socket_bandwidth;
    if (!(rate > Bandwidth{})) rate = gigabytes(socket_rate(cpus_.front()));
    if (!(rate > Bandwidth{}))
      fail(system,
           "the CPUs are not named (vendor, arch); state sockets.bandwidth in the cluster "
           "file");
    for (std::size_t i = 0; i < cpu_parts_.size(); ++i)
      for (std::size_t j = i + 1; j < cpu_parts_.size(); ++j)
        node_.connect(cpu_parts_[i], cpu_parts_[j], {LinkKind::socket, rate, Duration{}});
  }

  pugi::xml_document file_;
  TextLines lines_;
  const ImportDefaults& defaults_;
  ImportedNode result_;
  NodeTemplate node_;
  std::vector<Gpu> gpus_;
  std::vector<pugi::xml_node> cpus_;
  std::vector<std::uint32_t> cpu_parts_;
  std::size_t switches_ = 0;
  std::uint32_t nvswitch_ = 0;
  bool has_nvswitch_ = false;
};

}  // namespace

ImportedNode import_nccl_xml(std::string_view text, const std::string& name,
                             const ImportDefaults& defaults) {
  return XmlImport{text, name, defaults}.run();
}

}  // namespace sim
