// The matrix of `nvidia-smi topo -m`. Its legend defines the cells: X self; NV# a bonded set of #
// NVLinks; PIX at most one PCIe bridge; PXB several, without the CPU; PHB a PCIe host bridge; NODE
// between host bridges of one NUMA node; SYS between NUMA nodes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>

#include "sim/base/input_error.hpp"
#include "sim/topology/import.hpp"

namespace sim {
namespace {

constexpr std::size_t most_devices = 320;
constexpr std::size_t largest_file = std::size_t{16} << 20;

struct Token {
  std::string text;
  int line = 0, column = 0;
};
using TokenLine = std::vector<Token>;

// Words by line, without the terminal's colour and underline codes ("ESC [ ... letter"), which
// nvidia-smi writes even into a file.
std::vector<TokenLine> tokens_of(std::string_view text) {
  std::vector<TokenLine> lines(1);
  int column = 1;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i, ++column) {
    const char c = text[i];
    if (c == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~') && text[i] != '\n')
        ++i;
      if (i >= text.size() || text[i] != '\n') continue;
      --i;  // an unfinished code ends with its line
    } else if (c == '\n') {
      lines.emplace_back();
      column = 0;
      in_word = false;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      in_word = false;
    } else {
      if (!in_word) lines.back().push_back({{}, static_cast<int>(lines.size()), column});
      lines.back().back().text += c;
      in_word = true;
    }
  }
  return lines;
}

bool is_gpu(std::string_view name) {
  return name.size() > 3 && name.starts_with("GPU") &&
         std::all_of(name.begin() + 3, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

enum class Relation : std::uint8_t { unknown, self, nvlink, pix, pxb, phb, node, sys };

struct Cell {
  Relation relation = Relation::unknown;
  int links = 0;
};

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
      : name_{name}, defaults_{defaults}, lines_{tokens_of(text)} {}

  ImportedNode run() {
    read_header();
    read_rows();
    check_symmetric();
    place();
    add_nvlinks();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(int line, int column, const std::string& what) const {
    throw InputError({name_, line, column}, what);
  }
  [[noreturn]] void fail(const Token& at, const std::string& what) const {
    fail(at.line, at.column, what);
  }
  Cell& cell(std::size_t row, std::size_t column) { return cells_[row * devices_.size() + column]; }

  void read_header() {
    const auto header = std::find_if(lines_.begin(), lines_.end(), [](const TokenLine& line) {
      return !line.empty() && is_gpu(line.front().text);
    });
    if (header == lines_.end())
      fail(0, 0, "no line starts with GPU0: not the output of `nvidia-smi topo -m`");
    for (const Token& token : *header) {
      if (token.text == "CPU") break;  // "CPU Affinity", the first of the trailing columns
      if (devices_.size() >= most_devices)
        fail(token, fmt::format("more than {} devices", most_devices));
      if (std::any_of(devices_.begin(), devices_.end(),
                      [&](const Token& other) { return other.text == token.text; }))
        fail(token, fmt::format("{} is listed twice", token.text.substr(0, 40)));
      devices_.push_back(token);
    }
    while (gpus_ < devices_.size() && is_gpu(devices_[gpus_].text))
      ++gpus_;
    if (std::any_of(devices_.begin() + static_cast<std::ptrdiff_t>(gpus_), devices_.end(),
                    [](const Token& device) { return is_gpu(device.text); }))
      fail(devices_.front(), "the GPUs must come before the NICs");
    cells_.resize(devices_.size() * devices_.size());
    numa_.assign(devices_.size(), -1);
    next_line_ = static_cast<std::size_t>(header - lines_.begin()) + 1;
  }

  void read_rows() {
    std::vector<bool> seen(devices_.size());
    for (; next_line_ < lines_.size(); ++next_line_) {
      const TokenLine& line = lines_[next_line_];
      if (line.empty()) continue;
      const auto device = std::find_if(devices_.begin(), devices_.end(), [&](const Token& known) {
        return known.text == line.front().text;
      });
      if (device == devices_.end()) break;  // the legend
      const auto row = static_cast<std::size_t>(device - devices_.begin());
      if (seen[row]) fail(line.front(), fmt::format("a second row for {}", device->text));
      seen[row] = true;
      read_row(line, row);
    }
    for (std::size_t row = 0; row < gpus_; ++row)
      if (!seen[row])
        fail(devices_[row], fmt::format("no row for {}: is the text cut off?", devices_[row].text));
  }

  void read_row(const TokenLine& line, std::size_t row) {
    if (line.size() < devices_.size() + 1)
      fail(line.front(), fmt::format("the row of {} has {} cells; the header names {} devices",
                                     line.front().text, line.size() - 1, devices_.size()));
    for (std::size_t column = 0; column < devices_.size(); ++column)
      cell(row, column) = read_cell(line[column + 1], row == column);
    // What follows: CPU affinity, NUMA affinity, NUMA id of the GPU; each may be missing.
    if (line.size() < devices_.size() + 3) return;
    const std::string& numa = line[devices_.size() + 2].text;
    int value = -1;
    const auto [end, error] = std::from_chars(numa.data(), numa.data() + numa.size(), value);
    if (error == std::errc{} && end == numa.data() + numa.size() && value >= 0) numa_[row] = value;
  }

  Cell read_cell(const Token& token, bool diagonal) const {
    const std::string& text = token.text;
    if (diagonal != (text == "X"))
      fail(token, diagonal ? fmt::format("\"{}\" where a device meets itself; X is expected",
                                         text.substr(0, 40))
                           : "X between two devices");
    if (text == "X") return {Relation::self, 0};
    if (text.starts_with("NV")) {
      int links = 0;
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), links);
      if (error == std::errc{} && end == text.data() + text.size() && links >= 1 && links <= 256)
        return {Relation::nvlink, links};
    }
    static constexpr std::array<std::pair<std::string_view, Relation>, 5> relations{
        {{"PIX", Relation::pix},
         {"PXB", Relation::pxb},
         {"PHB", Relation::phb},
         {"NODE", Relation::node},
         {"SYS", Relation::sys}}};
    for (const auto& [known, relation] : relations)
      if (text == known) return {relation, 0};
    fail(token, fmt::format("\"{}\" is no connection; allowed: X, NV1 to NV256, PIX, PXB, PHB, "
                            "NODE, SYS",
                            text.substr(0, 40)));
  }

  void check_symmetric() {
    for (std::size_t a = 0; a < gpus_; ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (cell(a, b).relation != cell(b, a).relation || cell(a, b).links != cell(b, a).links)
          fail(devices_[a], fmt::format("{} and {} are connected differently in their two rows",
                                        devices_[b].text, devices_[a].text));
  }

  // Devices with one of these relations belong together. Rows of NICs may be cut off; those of GPUs
  // say the same.
  Groups grouped(Relation worst) {
    Groups groups{devices_.size()};
    for (std::size_t a = 0; a < devices_.size(); ++a)
      for (std::size_t b = 0; b < devices_.size(); ++b) {
        const Relation relation = cell(a, b).relation;
        if (relation >= Relation::pix && relation <= worst) groups.join(a, b);
      }
    return groups;
  }

  void place() {
    Groups sockets = grouped(Relation::node);
    // GPUs joined by NVLink hide their PCIe relation; the NUMA column still tells it.
    for (std::size_t a = 0; a < devices_.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (numa_[a] >= 0 && numa_[a] == numa_[b]) sockets.join(a, b);
    // Without NUMA column and NICs nothing tells GPUs behind NVLink apart: one socket.
    if (std::all_of(numa_.begin(), numa_.end(), [](int numa) { return numa < 0; }))
      for (std::size_t a = 0; a < gpus_; ++a)
        for (std::size_t b = 0; b < a; ++b)
          if (gpus_ == devices_.size() && cell(a, b).relation == Relation::nvlink)
            sockets.join(a, b);
    const Groups outer = grouped(Relation::pxb);
    const Groups inner = grouped(Relation::pix);
    const Link pcie{LinkKind::pcie, nccl_pcie_bandwidth(defaults_.pcie_generation, 16),
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
    for (std::size_t i = 0; i < devices_.size(); ++i) {
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
  }

  std::size_t members(const Groups& groups, std::size_t i) const {
    std::size_t count = 0;
    for (std::size_t j = 0; j < devices_.size(); ++j)
      count += groups.find(i) == groups.find(j);
    return count;
  }

  void add_device(std::size_t i, std::uint32_t root, const Link& pcie) {
    NodeTemplate& node = result_.node;
    if (i < gpus_) {
      node.connect(node.add_gpu(), root, pcie);
      return;
    }
    if (!(defaults_.nic > Bandwidth{}))
      fail(devices_[i],
           "nvidia-smi tells no speed of NICs; state nics.bandwidth in the cluster "
           "file");
    node.connect(node.add_nic(), root, pcie);
    result_.nics.push_back({LinkKind::nic, defaults_.nic, defaults_.nic_latency});
  }

  void connect_sockets(const std::map<std::size_t, std::uint32_t>& sockets) {
    if (sockets.size() < 2) return;
    if (!(defaults_.socket_bandwidth > Bandwidth{}))
      fail(devices_.front(),
           "the machine has several NUMA nodes (SYS); state sockets.bandwidth in "
           "the cluster file");
    for (auto a = sockets.begin(); a != sockets.end(); ++a)
      for (auto b = std::next(a); b != sockets.end(); ++b)
        result_.node.connect(a->second, b->second,
                             {LinkKind::socket, defaults_.socket_bandwidth, Duration{}});
  }

  // More links to the peers than a GPU has mean a switch: 8 GPUs that are all NV18 to each other
  // would need 126 links each.
  void add_nvlinks() {
    const double rate = nccl_nvlink_bandwidth(defaults_.generation).in_bytes_per_second();
    const int available = defaults_.generation == Generation::volta    ? 6
                          : defaults_.generation == Generation::ampere ? 12
                                                                       : 18;
    const auto bundle = [&](int links) {
      return Link{LinkKind::nvlink, Bandwidth::bytes_per_second(rate * links),
                  defaults_.nvlink_latency};
    };
    int most = 0;
    int common = -1;  // links of every pair, 0 if they differ
    for (std::size_t a = 0; a < gpus_; ++a) {
      int sum = 0;
      for (std::size_t b = 0; b < gpus_; ++b) {
        if (a == b) continue;
        const int links = cell(a, b).links;
        sum += links;
        common = common < 0 || common == links ? links : 0;
      }
      most = std::max(most, sum);
    }
    NodeTemplate& node = result_.node;
    if (most > available) {
      if (common <= 0)
        fail(devices_.front(),
             fmt::format("up to {} NVLinks on a GPU that has {}, and not the same to every peer: "
                         "neither a mesh nor an NVSwitch",
                         most, available));
      const std::uint32_t nvswitch = node.add_part(PartKind::nvswitch, "nvswitch");
      for (const std::uint32_t gpu : node.gpus)
        node.connect(gpu, nvswitch, bundle(common), common);
      return;
    }
    for (std::size_t a = 0; a < gpus_; ++a)
      for (std::size_t b = a + 1; b < gpus_; ++b)
        if (const int links = cell(a, b).links; links > 0)
          node.connect(node.gpus[a], node.gpus[b], bundle(links), links);
  }

  std::string name_;
  const ImportDefaults& defaults_;
  std::vector<TokenLine> lines_;
  std::size_t next_line_ = 0;
  std::vector<Token> devices_;  // GPUs first
  std::size_t gpus_ = 0;
  std::vector<Cell> cells_;
  std::vector<int> numa_;
  std::size_t switches_ = 0;
  ImportedNode result_;
};

}  // namespace

ImportedNode import_nvidia_smi_topo(std::string_view text, const std::string& name,
                                    const ImportDefaults& defaults) {
  return SmiImport{text, name, defaults}.run();
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
