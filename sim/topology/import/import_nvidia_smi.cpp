// A node from the matrix of `nvidia-smi topo -m` (smi_matrix.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/topology/import/import.hpp"
#include "sim/topology/import/smi_matrix.hpp"
#include "sim/topology/nvlink_balance.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_file = std::size_t{16} << 20;
constexpr int assumed_pcie = 4;

// Sets of devices that belong together, by number of the first member.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t i) const {
    while (parent_[i] != i)
      i = parent_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class SmiImport {
 public:
  SmiImport(std::string_view text, const std::string& name, const ImportDefaults& defaults)
      : name_{name}, defaults_{defaults}, matrix_{read_smi_matrix(text, name)} {}

  ImportedNode run() {
    result_.notes = matrix_.notes;
    place();
    add_nvlinks();
    tell_assumed();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const SmiToken& at, const std::string& what) const {
    throw InputError({name_, at.line, at.column}, what);
  }
  std::size_t devices() const { return matrix_.devices.size(); }

  // Devices with one of these relations belong together. Rows of NICs may be cut off; those of GPUs
  // say the same.
  Groups grouped(SmiRelation worst) const {
    Groups groups{devices()};
    for (std::size_t a = 0; a < devices(); ++a)
      for (std::size_t b = 0; b < devices(); ++b) {
        const SmiRelation relation = matrix_.cell(a, b).relation;
        if (relation >= SmiRelation::pix && relation <= worst) groups.join(a, b);
      }
    return groups;
  }

  static bool any_told(const std::vector<std::optional<NumberRanges>>& affinity) {
    return std::any_of(affinity.begin(), affinity.end(),
                       [](const auto& ranges) { return ranges.has_value(); });
  }

  // GPUs joined by NVLink hide their PCIe relation; the NUMA column still tells it, or the CPUs.
  Groups grouped_by_socket() const {
    Groups sockets = grouped(SmiRelation::node);
    const bool by_numa = any_told(matrix_.numa);
    const auto& affinity = by_numa ? matrix_.numa : matrix_.cpus;
    for (std::size_t a = 0; a < devices(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (affinity[a] && affinity[b] && share_number(*affinity[a], *affinity[b]))
          sockets.join(a, b);
    // Without affinity and NICs nothing tells GPUs behind NVLink apart: one socket.
    if (any_told(affinity) || matrix_.gpus != devices()) return sockets;
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (matrix_.cell(a, b).relation == SmiRelation::nvlink) sockets.join(a, b);
    return sockets;
  }

  void place() {
    const Groups sockets = grouped_by_socket();
    const Groups outer = grouped(SmiRelation::pxb);
    const Groups inner = grouped(SmiRelation::pix);
    const Link pcie{LinkKind::pcie,
                    nccl_pcie_bandwidth(defaults_.pcie_generation.value_or(assumed_pcie), 16),
                    defaults_.pcie_latency};
    std::map<std::size_t, std::uint32_t> socket_parts;
    std::map<std::size_t, std::uint32_t> outer_parts;
    std::map<std::size_t, std::uint32_t> inner_parts;
    NodeTemplate& node = result_.node;
    const auto part_for = [&](std::map<std::size_t, std::uint32_t>& parts, std::size_t group,
                              std::uint32_t parent) {
      const auto [slot, fresh] = parts.try_emplace(group);
      if (fresh) {
        slot->second = node.add_part(PartKind::pcie_switch, fmt::format("pcie {}", switches_++));
        node.connect(slot->second, parent, pcie);
      }
      return slot->second;
    };
    for (std::size_t i = 0; i < devices(); ++i) {
      const auto [socket, fresh] = socket_parts.try_emplace(sockets.find(i));
      if (fresh)
        socket->second =
            node.add_part(PartKind::cpu, fmt::format("cpu {}", socket_parts.size() - 1));
      std::uint32_t root = socket->second;
      if (members(outer, i) > 1) {
        root = part_for(outer_parts, outer.find(i), root);
        if (members(inner, i) > 1 && members(inner, i) < members(outer, i))
          root = part_for(inner_parts, inner.find(i), root);
      }
      add_device(i, root, pcie);
    }
    connect_sockets(socket_parts);
    tell_far_nics(sockets);
  }

  static std::size_t members(const Groups& groups, std::size_t i, std::size_t devices) {
    std::size_t count = 0;
    for (std::size_t j = 0; j < devices; ++j)
      count += groups.find(i) == groups.find(j);
    return count;
  }
  std::size_t members(const Groups& groups, std::size_t i) const {
    return members(groups, i, devices());
  }

  void add_device(std::size_t i, std::uint32_t root, const Link& pcie) {
    NodeTemplate& node = result_.node;
    if (i < matrix_.gpus) {
      node.connect(node.add_gpu(), root, pcie);
      return;
    }
    if (!(defaults_.nic > Bandwidth{}))
      fail(matrix_.devices[i],
           "nvidia-smi tells no speed of NICs; state nics.bandwidth in the cluster "
           "file");
    node.connect(node.add_nic(), root, pcie);
    result_.nics.push_back({LinkKind::nic, defaults_.nic, defaults_.nic_latency});
  }

  void connect_sockets(const std::map<std::size_t, std::uint32_t>& sockets) {
    if (sockets.size() < 2) return;
    if (!(defaults_.socket_bandwidth > Bandwidth{}))
      fail(matrix_.devices.front(),
           "the machine has several NUMA nodes (SYS); state sockets.bandwidth in "
           "the cluster file");
    if (!defaults_.rates_stated)
      result_.notes.push_back(fmt::format("the text tells no rate between sockets: {} is assumed",
                                          to_text(defaults_.socket_bandwidth)));
    for (auto a = sockets.begin(); a != sockets.end(); ++a)
      for (auto b = std::next(a); b != sockets.end(); ++b)
        result_.node.connect(a->second, b->second,
                             {LinkKind::socket, defaults_.socket_bandwidth, Duration{}});
  }

  // NICs that are SYS to every GPU.
  void tell_far_nics(const Groups& sockets) {
    std::vector<std::string> far;
    for (std::size_t nic = matrix_.gpus; nic < devices(); ++nic) {
      bool near = false;
      for (std::size_t gpu = 0; gpu < matrix_.gpus; ++gpu)
        near = near || sockets.find(gpu) == sockets.find(nic);
      if (!near) far.push_back(matrix_.devices[nic].text.substr(0, 40));
    }
    if (far.empty()) return;
    result_.notes.push_back(
        fmt::format("{} share{} no NUMA node with a GPU: the way between them "
                    "crosses sockets",
                    fmt::join(far, ", "), far.size() == 1 ? "s" : ""));
  }

  int links(std::size_t a, std::size_t b) const { return a == b ? 0 : matrix_.cell(a, b).links; }

  Link bundle(int links) {
    const Bandwidth one = nccl_nvlink_bandwidth(defaults_.generation);
    nvlink_used_ = true;
    return {LinkKind::nvlink, Bandwidth::bytes_per_second(one.in_bytes_per_second() * links),
            defaults_.nvlink_latency};
  }

  void add_nvlinks() {
    int most = 0;
    for (std::size_t a = 0; a < matrix_.gpus; ++a) {
      int sum = 0;
      for (std::size_t b = 0; b < matrix_.gpus; ++b)
        sum += links(a, b);
      most = std::max(most, sum);
    }
    // More links to the peers than a GPU has mean a switch: 8 GPUs that are all NV18 to each other
    // would need 126 links each.
    const int available = defaults_.generation == Generation::volta    ? 6
                          : defaults_.generation == Generation::ampere ? 12
                                                                       : 18;
    if (most > available)
      add_switch(most, available);
    else if (most > 0)
      add_mesh();
    else
      add_assumed_switch();
  }

  // A GPU has as many links to the switch as the widest of its row; a pair shows the fewer.
  void add_switch(int most, int available) {
    std::vector<int> own(matrix_.gpus);
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = 0; b < matrix_.gpus; ++b)
        own[a] = std::max(own[a], links(a, b));
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = 0; b < matrix_.gpus; ++b)
        if (a != b && links(a, b) != std::min(own[a], own[b]))
          fail(matrix_.devices.front(),
               fmt::format("up to {} NVLinks on a GPU that has {}, and not the same to every peer "
                           "({} to {}: {}): neither a mesh nor an NVSwitch",
                           most, available, matrix_.devices[a].text, matrix_.devices[b].text,
                           links(a, b)));
    settle(own, NvlinkShape::nvswitch);
    NodeTemplate& node = result_.node;
    const std::uint32_t nvswitch = node.add_part(PartKind::nvswitch, "nvswitch");
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      if (own[a] > 0) node.connect(node.gpus[a], nvswitch, bundle(own[a]), own[a]);
  }

  void add_mesh() {
    std::vector<int> sums(matrix_.gpus);
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = 0; b < matrix_.gpus; ++b)
        sums[a] += links(a, b);
    settle(sums, NvlinkShape::mesh);
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = a + 1; b < matrix_.gpus; ++b)
        if (const int count = links(a, b); count > 0)
          result_.node.connect(result_.node.gpus[a], result_.node.gpus[b], bundle(count), count);
  }

  void settle(const std::vector<int>& links, NvlinkShape shape) {
    std::vector<NvlinkCount> counts;
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      counts.push_back({matrix_.devices[a].text,
                        links[a],
                        {name_, matrix_.devices[a].line, matrix_.devices[a].column}});
    settle_nvlinks(counts, shape, defaults_.uneven_nvlink, result_.warnings);
  }

  void add_assumed_switch() {
    if (matrix_.gpus < 2 || defaults_.nvlinks == 0) return;
    NodeTemplate& node = result_.node;
    const std::uint32_t nvswitch = node.add_part(PartKind::nvswitch, "nvswitch");
    for (const std::uint32_t gpu : node.gpus)
      node.connect(gpu, nvswitch, bundle(defaults_.nvlinks), defaults_.nvlinks);
    result_.notes.push_back(
        fmt::format("the matrix names no NVLink: {} links of each GPU to an NVSwitch are assumed",
                    defaults_.nvlinks));
  }

  void tell_assumed() {
    std::vector<std::string>& notes = result_.notes;
    if (!defaults_.pcie_generation)
      notes.push_back(
          fmt::format("the text tells no PCIe speed: generation {} with 16 lanes ({}) is "
                      "assumed (node.pcie.generation)",
                      assumed_pcie, to_text(nccl_pcie_bandwidth(assumed_pcie, 16))));
    if (nvlink_used_ && !defaults_.generation_stated)
      notes.push_back(
          fmt::format("the text does not name the GPUs: {:g} GB/s per NVLink, of {}, is assumed",
                      nccl_nvlink_bandwidth(defaults_.generation).in_bytes_per_second() / 1e9,
                      word(defaults_.generation)));
    if (!result_.nics.empty() && !defaults_.rates_stated)
      notes.push_back(
          fmt::format("the text tells no speed of NICs: {} is assumed", to_text(defaults_.nic)));
    if (matrix_.grace)
      notes.emplace_back(
          "GPUs whose memory is a NUMA node (Grace): NVLink-C2C to the CPU and the other trays of "
          "an "
          "NVL72 are not in the text");
  }

  std::string name_;
  const ImportDefaults& defaults_;
  SmiMatrix matrix_;
  std::size_t switches_ = 0;
  bool nvlink_used_ = false;
  ImportedNode result_;
};

}  // namespace

ImportedNode import_nvidia_smi_topo(std::string_view text, const std::string& name,
                                    const ImportDefaults& defaults) {
  return SmiImport{text, name, defaults}.run();
}

ImportDefaults example_defaults() {
  return {.nvlink_latency = std::chrono::nanoseconds{300},
          .nic = Bandwidth::bits_per_second(400e9),
          .nic_latency = std::chrono::nanoseconds{300},
          .pcie_latency = std::chrono::nanoseconds{500},
          .socket_bandwidth = Bandwidth::bytes_per_second(22e9),
          .generation_stated = false,
          .rates_stated = false};
}

ImportedNode import_node(const std::string& path, const ImportDefaults& defaults) {
  std::ifstream file{path, std::ios::binary};
  if (!file) throw InputError({path, 0, 0}, "cannot be opened");
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (file && text.size() <= largest_file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > largest_file) throw InputError({path, 0, 0}, "larger than 16 MiB");
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw InputError({path, 0, 0}, "empty");
  return text[first] == '<' ? import_nccl_xml(text, path, defaults)
                            : import_nvidia_smi_topo(text, path, defaults);
}

}  // namespace sim
