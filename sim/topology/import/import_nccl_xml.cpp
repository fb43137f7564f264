// NCCL's topology XML. The rules are those of NVIDIA NCCL 2.30.7: src/graph/xml.cc for elements and
// classes, topo.cc and topo.h for rates.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/topology/import/import.hpp"
#include "sim/topology/import/xml_vocabulary.hpp"
#include "sim/topology/nvlink_balance.hpp"
#include "sim/topology/text_position.hpp"

namespace sim {
namespace {

constexpr int deepest = 64;  // real files nest about 8 deep
constexpr std::size_t most_gpus = 256;
constexpr std::size_t most_nics = 1024;
constexpr std::size_t most_hosts = 64;
constexpr std::size_t most_switches = 1024;
// Mb/s: two ports of 1.6 Tb/s, the fastest of IEEE 802.3dj, that NCCL merges into one device.
constexpr double fastest_port = 3.2e6;

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

std::string counted(int number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
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
    check_hosts();
    connect_sockets(system);
    tell_assumed();
    const std::vector<std::string> unread = unread_xml(system, lines_);
    result_.notes.insert(result_.notes.end(), unread.begin(), unread.end());
    result_.node = std::move(node_);
    return std::move(result_);
  }

 private:
  struct Gpu {
    pugi::xml_node pci, gpu;
    std::uint32_t part = 0;
    std::uint32_t cpu = 0;
    int dev = -1;
    std::size_t host = 0;
  };
  struct Cpu {
    pugi::xml_node element;
    std::uint32_t part = 0;
    std::size_t host = 0;
  };

  [[noreturn]] void fail(const pugi::xml_node& at, const std::string& what) const {
    const std::ptrdiff_t offset = at ? at.offset_debug() : 0;
    throw InputError(lines_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset))),
                     what);
  }

  // "cxi0: " where an element has a name.
  static std::string named(const pugi::xml_node& at) {
    const std::string_view name = at.attribute("name").value();
    return name.empty() ? std::string{} : fmt::format("{}: ", name.substr(0, 40));
  }

  double number(const pugi::xml_node& at, const char* key, double fallback, double most) const {
    const pugi::xml_attribute attribute = at.attribute(key);
    if (!attribute || *attribute.value() == '\0') return fallback;
    const char* const text = attribute.value();
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !std::isfinite(value) || std::abs(value) > most)
      fail(at, fmt::format("{}{}=\"{}\" is not a number up to {:g}", named(at), key,
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
    const std::string host = element.attribute("host_hash").value();
    host_ =
        static_cast<std::size_t>(std::find(hosts_.begin(), hosts_.end(), host) - hosts_.begin());
    if (host_ == hosts_.size()) hosts_.push_back(host);
    if (hosts_.size() > most_hosts)
      fail(element, fmt::format("more than {} hosts (host_hash)", most_hosts));
    cpus_.push_back({element, part, host_});
    const std::string_view vendor = element.attribute("vendor").value();
    const std::string_view arch = element.attribute("arch").value();
    if (vendor == "GenuineIntel")
      result_.cpu_vendor = "intel";
    else if (vendor == "AuthenticAMD" || vendor == "AMD")
      result_.cpu_vendor = "amd";
    else if (arch == "arm64" || arch == "aarch64")
      result_.cpu_vendor = "arm";
    else if (!vendor.empty() || !arch.empty())
      unknown_cpus_.insert(fmt::format("{} {}", vendor.substr(0, 40), arch.substr(0, 40)));
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
  Link pci_link(const pugi::xml_node& pci) {
    int width = whole(pci, "link_width", 0);
    if (width == 0) {  // virtual machines hide it
      width = 16;
      ++widths_assumed_;
    }
    if (width < 0 || width > 32)
      fail(pci, fmt::format("link_width=\"{}\"; allowed: 0 to 32", width));
    const std::string_view text = pci.attribute("link_speed").value();
    double gigatransfers = 8;  // NCCL's default for an empty or unknown speed
    if (text.empty() || text.front() < '0' || text.front() > '9') {
      ++speeds_assumed_;
    } else {
      gigatransfers = std::strtod(std::string(text.substr(0, 16)).c_str(), nullptr);
      constexpr std::array known{2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
      if (std::find(known.begin(), known.end(), gigatransfers) == known.end())
        fail(pci, fmt::format("link_speed=\"{}\"; allowed: 2.5, 5, 8, 16, 32 or 64 GT/s",
                              text.substr(0, 40)));
    }
    const double rate = width * gigatransfers * 7.5 / 80;
    if (rate < 2)  // x1, or x2 of the first generations
      slow_pcie_.push_back(fmt::format(
          "{} ({:g} GT/s x{})", std::string_view{pci.attribute("busid").value()}.substr(0, 40),
          gigatransfers, width));
    return {LinkKind::pcie, gigabytes(rate), defaults_.pcie_latency};
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
      joined_switches_ = joined_switches_ || pci.child("pcilink");
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
    } else {
      leave_out(pci, kind);
    }
  }

  // Leaves out parts that carry no traffic: an NVSwitch (0x0680, reached over nvlink elements),
  // storage.
  void leave_out(const pugi::xml_node& pci, std::string_view kind) {
    if (kind.starts_with("0x12"))
      fail(pci,
           "a processing accelerator (class 0x12) without a <gpu> inside: a dump "
           "(NCCL_TOPO_DUMP_FILE) has it; an accelerator that is no GPU must be taken out");
    if (!kind.starts_with("0x0680")) ++left_out_[std::string{kind.substr(0, 40)}];
  }

  void add_gpu(const pugi::xml_node& pci, std::uint32_t parent, std::uint32_t cpu) {
    const pugi::xml_node gpu = pci.child("gpu");
    if (gpu.next_sibling("gpu"))
      fail(
          gpu.next_sibling("gpu"),
          "a second <gpu> in one <pci>: a GPU that is split (mlopart), or shared by several ranks, "
          "is not supported; dump with a rank per GPU");
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
    gpus_.push_back({pci, gpu, part, cpu, gpu ? whole(gpu, "dev", -1) : -1, host_});
  }

  void add_nets(const pugi::xml_node& nic, std::uint32_t parent, const pugi::xml_node& pci) {
    std::vector<pugi::xml_node> nets;
    for (const pugi::xml_node net : nic.children("net"))
      if (std::string_view(net.attribute("name").value()) != "lo" && first_listing(net))
        nets.push_back(net);
    if (nets.empty()) {
      if (nic.child("net") && std::string_view(nic.child("net").attribute("name").value()) != "lo")
        return;
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

  // A virtual device stands below each <cpu>: NCCL has one of a name, number and port.
  bool first_listing(const pugi::xml_node& net) {
    const std::string_view name = net.attribute("name").value();
    const std::string_view dev = net.attribute("dev").value();
    if (name.empty() || dev.empty()) return true;
    const bool fresh =
        nets_.insert(fmt::format("{} {} {} {}", host_, name, dev, net.attribute("port").value()))
            .second;
    if (!fresh)
      result_.notes.push_back(fmt::format(
          "the network device \"{}\" is listed again: it counts once", name.substr(0, 40)));
    return fresh;
  }

  // Mb/s of a port whose file says more than any has: what its PCIe link carries. RCCL's dumps of
  // HPE Slingshot say kb/s (ROCm/rccl at 0cbce2a7, tools/topo_expl/models).
  double bounded(double megabits, const Link& host, const pugi::xml_node& net) {
    if (!(host.capacity > Bandwidth{}))
      fail(net,
           fmt::format("{}speed=\"{:.0f}\" (Mb/s) is more than any port has, and no <pci> around "
                       "it bounds it; allowed: up to {:.0f}",
                       named(net), megabits, fastest_port));
    const std::string name{net.attribute("name").value()};
    fast_nics_[fmt::format("speed=\"{:.0f}\" (Mb/s) is more than any port has: bounded by the PCIe "
                           "link, {}",
                           megabits, to_text(host.capacity))]
        .push_back(name.empty() ? fmt::format("nic {}", node_.nics.size()) : name.substr(0, 40));
    return host.capacity.in_bytes_per_second() * 8e-6;
  }

  // Without a <pci> around it (a virtual device) a NIC hangs at the CPU by a link as fast as
  // itself.
  void add_nic(std::uint32_t parent, Link host, const pugi::xml_node& net,
               const pugi::xml_node& place) {
    if (node_.nics.size() >= most_nics) fail(place, fmt::format("more than {} NICs", most_nics));
    Link port{LinkKind::nic, defaults_.nic, defaults_.nic_latency};
    if (!net && !defaults_.rates_stated) ++nics_assumed_;
    if (net) {
      double megabits = number(net, "speed", 0, 1e15);
      if (megabits > fastest_port) megabits = bounded(megabits, host, net);
      if (megabits <= 0) {  // NCCL's value for an unknown speed
        megabits = 10'000;
        slow_nics_.push_back(node_.nics.size());
      }
      if (std::string_view(net.attribute("gdr").value()) == "0")
        without_gdr_.push_back(node_.nics.size());
      port.capacity = gigabytes(megabits / 8000);
      // The latency is of a whole message, so half on each side.
      const double latency = number(net, "latency", 0, 1e6);
      if (latency < 0) fail(net, named(net) + "latency is below 0");
      if (latency > 0) port.latency = duration_from_seconds(latency * 0.5e-6);
    }
    if (!(port.capacity > Bandwidth{}))
      fail(place, "this NIC has no <net> with a speed; state nics.bandwidth in the cluster file");
    if (!(host.capacity > Bandwidth{}))
      host = {LinkKind::pcie, port.capacity, defaults_.pcie_latency};
    ++nics_of_host_[host_];
    node_.connect(node_.add_nic(), parent, host);
    result_.nics.push_back(port);
  }

  // GPUs are numbered by host and `dev` where all of them have it, else in file order.
  void order_gpus() {
    const bool numbered =
        std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.dev >= 0; });
    std::stable_sort(gpus_.begin(), gpus_.end(), [&](const Gpu& a, const Gpu& b) {
      if (a.host != b.host) return a.host < b.host;
      return numbered && a.dev < b.dev;
    });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (numbered && i > 0 && gpus_[i].dev == gpus_[i - 1].dev &&
          gpus_[i].host == gpus_[i - 1].host)
        fail(gpus_[i].gpu, fmt::format("two GPUs have dev=\"{}\"", gpus_[i].dev));
      node_.gpus.push_back(gpus_[i].part);
      node_.parts[gpus_[i].part].name = fmt::format("gpu {}", i);
    }
  }

  double rate_of(const Gpu& gpu) {
    const int sm = gpu.gpu ? whole(gpu.gpu, "sm", 0) : 0;
    generation_assumed_ = generation_assumed_ || sm == 0;
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
    std::vector<NvlinkCount> counts;
    for (const Gpu& gpu : gpus_)
      counts.push_back({gpu_name(gpu), add_nvlinks(gpu), place(gpu)});
    const bool named = std::any_of(counts.begin(), counts.end(),
                                   [](const NvlinkCount& count) { return count.links > 0; });
    if (named) {
      check_both_ways();
      const NvlinkShape mesh = has_xgmi_ ? NvlinkShape::xgmi : NvlinkShape::mesh;
      settle_nvlinks(counts, has_nvswitch_ ? NvlinkShape::nvswitch : mesh, defaults_.uneven_nvlink,
                     result_.warnings);
    }
    if (named || defaults_.nvlinks == 0) return;
    for (const Gpu& gpu : gpus_)
      node_.connect(gpu.part, nvswitch(), nvlink(gpu, defaults_.nvlinks), defaults_.nvlinks);
    result_.notes.push_back(
        fmt::format("the file names no NVLink: {} links of each GPU to an NVSwitch are assumed",
                    defaults_.nvlinks));
  }

  // The links of one GPU, in its direction; their number, with those to GPUs that are not in the
  // file.
  int add_nvlinks(const Gpu& gpu) {
    int to_switch = 0;
    int to_peers = 0;
    for (const pugi::xml_node link : gpu.gpu.children()) {
      const std::string_view name = link.name();
      if (name != "nvlink" && name != "xgmi") continue;
      const int count = whole(link, "count", 1);
      if (count < 1 || count > 256)
        fail(link, fmt::format("count=\"{}\"; allowed: 1 to 256", count));
      const std::string_view target = link.attribute("target").value();
      const std::string_view kind = link.attribute("tclass").value();
      const auto peer = std::find_if(gpus_.begin(), gpus_.end(), [&](const Gpu& other) {
        return other.host == gpu.host && busid(other) == target;
      });
      if (peer != gpus_.end() && peer->part == gpu.part) fail(link, "a GPU linked to itself");
      if (peer != gpus_.end()) {
        const Link bundle = name == "xgmi" ? xgmi(gpu, count) : nvlink(gpu, count);
        node_.links.push_back({gpu.part, peer->part, bundle, count});
        to_peers += count;
      } else if (kind.starts_with("0x03") || kind.starts_with("0x12")) {
        absent_peers_.insert(std::string{target.substr(0, 40)});  // as NCCL drops them
        to_peers += count;
      } else if (kind.starts_with("0x068001")) {
        fail(link, "NVLink to the CPU (POWER9) is not supported");
      } else if (name == "xgmi") {
        fail(link,
             fmt::format("<xgmi> to \"{}\", which is no GPU of the file", target.substr(0, 40)));
      } else {  // 0x0680 or, in virtual machines, the invisible fffffff:ff:ff.0
        to_switch += count;
      }
    }
    if (to_switch > 0) node_.connect(gpu.part, nvswitch(), nvlink(gpu, to_switch), to_switch);
    return to_switch + to_peers;
  }

  // RCCL's rate per link (ncclTopoXGMISpeed, src/graph/topo.h at 0cbce2a): gfx90a 36, gfx94x 48,
  // else 24 GB/s; gfx95x by the generation's links.
  Link xgmi(const Gpu& gpu, int count) {
    has_xgmi_ = true;
    const std::string_view gcn = gpu.gpu.attribute("gcn").value();
    const auto is = [&](std::string_view name) { return gcn.find(name) != std::string_view::npos; };
    double rate = 24;
    const auto of = [](Generation generation) {
      return nccl_nvlink_bandwidth(generation).in_bytes_per_second() / 1e9;
    };
    if (is("gfx94"))
      rate = of(Generation::cdna3);
    else if (is("gfx95"))
      rate = of(Generation::cdna4);
    else if (is("gfx90a"))
      rate = of(Generation::cdna2);
    else if (!is("gfx906") && !is("gfx908"))
      xgmi_assumed_.insert(std::string{gcn.substr(0, 40)});
    return {LinkKind::xgmi, gigabytes(rate * count), defaults_.nvlink_latency};
  }

  static std::string_view busid(const Gpu& gpu) { return gpu.pci.attribute("busid").value(); }
  std::string gpu_name(const Gpu& gpu) const {
    return fmt::format("{} (busid {})", node_.parts[gpu.part].name, busid(gpu).substr(0, 40));
  }
  SourcePosition place(const Gpu& gpu) const {
    const pugi::xml_node at = gpu.gpu ? gpu.gpu : gpu.pci;
    return lines_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at.offset_debug())));
  }

  // Links between two GPUs stand with both of them.
  void check_both_ways() const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> links;
    for (const PartLink& link : node_.links)
      if (joins_gpus(link.link.kind)) links[{link.from, link.to}] += link.bundled;
    for (const Gpu& gpu : gpus_)
      for (const Gpu& other : gpus_) {
        const auto forth = links.find({gpu.part, other.part});
        const auto back = links.find({other.part, gpu.part});
        if (forth == links.end() || (back != links.end() && back->second == forth->second))
          continue;
        fail(gpu.gpu,
             fmt::format("{} lists {} links to {}, which lists {} back", gpu_name(gpu),
                         forth->second, gpu_name(other), back == links.end() ? 0 : back->second));
      }
  }

  // NCCL joins the dumps of hosts that share one NVLink domain (multi-node NVLink): trays.
  void check_hosts() {
    result_.trays = static_cast<int>(hosts_.size());
    if (hosts_.size() < 2) return;
    const auto count = [&](std::size_t host) {
      return std::count_if(gpus_.begin(), gpus_.end(),
                           [&](const Gpu& gpu) { return gpu.host == host; });
    };
    for (std::size_t host = 1; host < hosts_.size(); ++host)
      if (count(host) != count(0) || nics_of_host_[host] != nics_of_host_[0])
        fail(cpus_.front().element,
             fmt::format(
                 "the hosts of this dump differ: {} GPUs and {} NICs with host_hash=\"{}\", {} "
                 "and {} with \"{}\"; keep the <cpu> elements of one host_hash in a file",
                 count(0), nics_of_host_[0], hosts_[0].substr(0, 40), count(host),
                 nics_of_host_[host], hosts_[host].substr(0, 40)));
    for (const Gpu& gpu : gpus_)
      if (!gpu.gpu.child("nvlink"))
        fail(gpu.pci, fmt::format("{} hosts (host_hash) that no NVLink joins are no node: {} has "
                                  "none; keep the <cpu> elements of one host_hash in a file",
                                  hosts_.size(), gpu_name(gpu)));
    result_.notes.push_back(
        fmt::format("{} hosts (host_hash) are trays of one NVLink domain", hosts_.size()));
  }

  void tell_assumed() {
    std::vector<std::string>& notes = result_.notes;
    if (speeds_assumed_ > 0)
      notes.push_back(fmt::format("{} without a speed: 8 GT/s is assumed, as by NCCL",
                                  counted(speeds_assumed_, "PCIe link")));
    if (widths_assumed_ > 0)
      notes.push_back(fmt::format("{} without a width: 16 lanes are assumed, as by NCCL",
                                  counted(widths_assumed_, "PCIe link")));
    if (!slow_nics_.empty())
      notes.push_back(fmt::format("no speed of nic {}: 10 Gb/s is assumed, as by NCCL",
                                  fmt::join(slow_nics_, ", ")));
    for (const auto& [what, nics] : fast_nics_)
      notes.push_back(fmt::format("{}: {}", fmt::join(nics, ", "), what));
    if (nics_assumed_ > 0)
      notes.push_back(fmt::format("{} without a <net>: {} is assumed",
                                  counted(nics_assumed_, "NIC"), to_text(defaults_.nic)));
    if (!without_gdr_.empty())
      notes.push_back(
          fmt::format("nic {} has gdr=\"0\", so NCCL goes through host memory; forecasts "
                      "take it as direct",
                      fmt::join(without_gdr_, ", ")));
    if (generation_assumed_ && !defaults_.generation_stated)
      notes.push_back(
          fmt::format("GPUs without sm: {:g} GB/s per NVLink, of {}, is assumed",
                      nccl_nvlink_bandwidth(defaults_.generation).in_bytes_per_second() / 1e9,
                      word(defaults_.generation)));
    if (!absent_peers_.empty())
      notes.push_back(
          fmt::format("links to GPUs that are not in the file ({}) are left out, as by "
                      "NCCL",
                      fmt::join(absent_peers_, ", ")));
    for (const std::string& gcn : xgmi_assumed_)
      notes.push_back(fmt::format("gcn=\"{}\": 24 GB/s per xGMI link is assumed, as by RCCL", gcn));
    if (joined_switches_)
      notes.emplace_back("PCIe switches that a <pcilink> joins are taken as separate ones");
    if (!slow_pcie_.empty())
      result_.warnings.push_back(fmt::format(
          "slow PCIe link of {}: virtual machines show bridges so; mend link_speed and link_width "
          "where that is not what it is",
          fmt::join(slow_pcie_, ", ")));
    for (const auto& [kind, count] : left_out_)
      notes.push_back(
          fmt::format("{} <pci> of class {} left out: no GPU, NIC or bridge", count, kind));
    for (const std::string& cpu : unknown_cpus_)
      notes.push_back(fmt::format("the CPU \"{}\" is not known", cpu));
  }

  Link nvlink(const Gpu& gpu, int count) {
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
    const bool several = std::any_of(cpus_.begin(), cpus_.end(), [&](const Cpu& cpu) {
      return cpu.host == cpus_.front().host && cpu.part != cpus_.front().part;
    });
    if (!several && hosts_.size() == cpus_.size()) return;
    Bandwidth rate = defaults_.socket_bandwidth;
    const bool by_cpu = !(rate > Bandwidth{});
    if (by_cpu) rate = gigabytes(socket_rate(cpus_.front().element));
    if (!(rate > Bandwidth{}))
      fail(system,
           "the CPUs are not named (vendor, arch); state sockets.bandwidth in the cluster "
           "file");
    if (by_cpu || !defaults_.rates_stated)
      result_.notes.push_back(fmt::format("{} between sockets is assumed{}", to_text(rate),
                                          by_cpu ? ", NCCL's value for this CPU" : ""));
    for (std::size_t i = 0; i < cpus_.size(); ++i)
      for (std::size_t j = i + 1; j < cpus_.size(); ++j)
        if (cpus_[i].host == cpus_[j].host)
          node_.connect(cpus_[i].part, cpus_[j].part, {LinkKind::socket, rate, Duration{}});
  }

  pugi::xml_document file_;
  TextLines lines_;
  const ImportDefaults& defaults_;
  ImportedNode result_;
  NodeTemplate node_;
  std::vector<Gpu> gpus_;
  std::vector<Cpu> cpus_;
  std::vector<std::string> hosts_;  // host_hash, in file order
  std::map<std::size_t, int> nics_of_host_;
  std::size_t host_ = 0;  // of the <cpu> that is being read
  int speeds_assumed_ = 0, widths_assumed_ = 0, nics_assumed_ = 0;
  bool generation_assumed_ = false, joined_switches_ = false, has_xgmi_ = false;
  std::vector<std::size_t> slow_nics_, without_gdr_;
  std::map<std::string, std::vector<std::string>> fast_nics_;  // by what is told of them
  std::map<std::string, int> left_out_;
  std::set<std::string> nets_, absent_peers_, xgmi_assumed_;
  std::vector<std::string> slow_pcie_;
  std::set<std::string> unknown_cpus_;
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
