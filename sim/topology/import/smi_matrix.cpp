#include "sim/topology/import/smi_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

constexpr std::size_t most_devices = 320;
constexpr std::size_t most_matrices = 256;

[[noreturn]] void fail(const std::string& name, const SmiToken& at, const std::string& what) {
  throw InputError({name, at.line, at.column}, what);
}

struct Header {
  std::size_t line = 0;   // index in the lines
  std::size_t label = 0;  // words before the matrix: a launcher's label
};

// "node1:", "12:", "|", "2025-05-22T07:36:17Z", "[node1]": what launchers write before a line.
bool is_label(const SmiToken& token) {
  const std::string& text = token.text;
  return text.ends_with(':') || text.ends_with('|') || text.ends_with('>') || text.ends_with(']') ||
         (text.front() >= '0' && text.front() <= '9');
}

// A header names a GPU first and then what is no connection; a row of GPU0 goes on with X.
std::optional<std::size_t> header_label(const SmiLine& line) {
  const auto gpu = std::find_if(line.begin(), line.end(), [](const SmiToken& token) {
    return is_gpu(split_names(token).front().text);
  });
  if (gpu == line.end() || !std::all_of(line.begin(), gpu, is_label)) return std::nullopt;
  const auto label = static_cast<std::size_t>(gpu - line.begin());
  if (split_names(*gpu).size() > 1 || gpu + 1 == line.end()) return label;
  const std::string& next = (gpu + 1)->text;
  const bool number = next.find_first_of("0123456789") != std::string::npos;
  const bool column = number || next == "CPU" || next == "NUMA" || next == "GPU";
  if (!column || is_cell(next)) return std::nullopt;
  return label;
}

std::string label_of(const SmiLine& line, std::size_t words) {
  std::string label;
  for (std::size_t i = 0; i < std::min(words, line.size()); ++i)
    label += line[i].text + ' ';
  return label;
}

// One matrix, from its header on.
class MatrixReader {
 public:
  // `labelled`: lines of another label belong to another matrix.
  MatrixReader(const std::vector<SmiLine>& lines, const Header& header, const std::string& name,
               bool labelled)
      : lines_{lines}, header_{header}, name_{name}, labelled_{labelled} {}

  SmiMatrix read() {
    read_header();
    read_rows();
    check_symmetric();
    return std::move(matrix_);
  }

 private:
  SmiCell& cell(std::size_t row, std::size_t column) {
    return matrix_.cells[row * matrix_.devices.size() + column];
  }

  void read_header() {
    const SmiLine& line = lines_[header_.line];
    std::vector<SmiToken>& devices = matrix_.devices;
    std::size_t i = header_.label;
    // "CPU Affinity", "NUMA Affinity", "GPU NUMA ID": the trailing columns.
    for (; i < line.size() && line[i].text != "CPU" && line[i].text != "NUMA"; ++i) {
      if (line[i].text == "GPU" && i + 1 < line.size() && line[i + 1].text == "NUMA") break;
      for (const SmiToken& device : split_names(line[i])) {
        if (devices.size() >= most_devices)
          fail(name_, device, fmt::format("more than {} devices", most_devices));
        if (std::any_of(devices.begin(), devices.end(),
                        [&](const SmiToken& other) { return other.text == device.text; }))
          fail(name_, device, fmt::format("{} is listed twice", device.text.substr(0, 40)));
        devices.push_back(device);
      }
    }
    for (; i < line.size(); ++i) {
      const bool numa = line[i].text == "NUMA" && line[i - 1].text != "GPU";
      const bool id = line[i].text == "NUMA" && !numa;  // GPU NUMA ID
      tail_columns_ += numa || id || line[i].text == "CPU";
      cpu_column_ = cpu_column_ || line[i].text == "CPU";
      numa_column_ = numa_column_ || numa;
    }
    while (matrix_.gpus < devices.size() && is_gpu(devices[matrix_.gpus].text))
      ++matrix_.gpus;
    if (std::any_of(devices.begin() + static_cast<std::ptrdiff_t>(matrix_.gpus), devices.end(),
                    [](const SmiToken& device) { return is_gpu(device.text); }))
      fail(name_, devices.front(), "the GPUs must come before the NICs");
    matrix_.cells.resize(devices.size() * devices.size());
    matrix_.numa.resize(devices.size());
    matrix_.cpus.resize(devices.size());
  }

  void read_rows() {
    const std::vector<SmiToken>& devices = matrix_.devices;
    std::vector<bool> seen(devices.size());
    const std::string label = label_of(lines_[header_.line], header_.label);
    for (std::size_t n = header_.line + 1; n < lines_.size(); ++n) {
      const SmiLine& line = lines_[n];
      if (line.size() <= header_.label) continue;
      if (labelled_ && label_of(line, header_.label) != label) continue;
      const auto device = std::find_if(devices.begin(), devices.end(), [&](const SmiToken& known) {
        return known.text == line[header_.label].text;
      });
      if (device == devices.end()) break;  // the legend
      const auto row = static_cast<std::size_t>(device - devices.begin());
      if (header_label(line) == header_.label) break;  // the next matrix
      if (seen[row])
        fail(name_, line[header_.label], fmt::format("a second row for {}", device->text));
      seen[row] = true;
      read_row({line.begin() + static_cast<std::ptrdiff_t>(header_.label), line.end()}, row);
    }
    check_seen(seen);
  }

  void check_seen(const std::vector<bool>& seen) {
    std::vector<std::string> missing;
    for (std::size_t row = 0; row < seen.size(); ++row) {
      const SmiToken& device = matrix_.devices[row];
      if (seen[row]) continue;
      if (row < matrix_.gpus)
        fail(name_, device, fmt::format("no row for {}: is the text cut off?", device.text));
      missing.push_back(device.text.substr(0, 40));
    }
    if (!missing.empty())
      matrix_.notes.push_back(fmt::format(
          "no row for {}: the GPUs' rows say how they are connected", fmt::join(missing, ", ")));
  }

  void read_row(const SmiLine& line, std::size_t row) {
    const std::size_t count = matrix_.devices.size();
    std::vector<SmiToken> cells;
    std::size_t next = 1;
    for (; next < line.size() && cells.size() < count; ++next)
      for (const SmiToken& part : split_cells(line[next]))
        cells.push_back(part);
    if (cells.size() != count)
      fail(name_, line.front(),
           fmt::format("the row of {} has {} cells; the header names {} devices", line.front().text,
                       cells.size(), count));
    for (std::size_t column = 0; column < count; ++column)
      cell(row, column) = read_cell(cells[column], row == column);
    std::vector<SmiToken> tail;  // "0-15, 32-47" is one cell
    for (; next < line.size(); ++next) {
      if (!tail.empty() && tail.back().text.ends_with(','))
        tail.back().text += line[next].text;
      else
        tail.push_back(line[next]);
    }
    read_tail(tail, row);
  }

  // CPU affinity, NUMA affinity, NUMA id of the GPU; each may be missing, and empty cells leave
  // nothing behind.
  void read_tail(const std::vector<SmiToken>& tail, std::size_t row) {
    if (tail.empty()) return;
    const std::size_t columns = tail_columns_ > 0 ? tail_columns_ : tail.size();
    const bool cpu = cpu_column_ || tail_columns_ == 0;
    const bool numa = numa_column_ || (tail_columns_ == 0 && tail.size() > 1);
    if (cpu) read_cpus(tail.front(), row);
    const std::size_t at = cpu ? 1 : 0;
    if (!numa || tail.size() <= at) return;
    const SmiToken& affinity = tail[at];
    if (affinity.text == "N/A" || affinity.text == "n/a") return;
    const auto ranges = number_ranges(affinity.text);
    if (!ranges)
      fail(name_, affinity,
           fmt::format("\"{}\" is no NUMA affinity; it is like 0 or 0,3-9",
                       affinity.text.substr(0, 40)));
    if (tail.size() < columns && columns > at + 1) {
      matrix_.notes.push_back(fmt::format(
          "{} has {} of {} cells after the matrix: which is its NUMA node cannot be told",
          matrix_.devices[row].text, tail.size(), columns));
      return;
    }
    matrix_.numa[row] = ranges;
    if (tail.size() > at + 1 && number_ranges(tail[at + 1].text)) matrix_.grace = true;
  }

  void read_cpus(const SmiToken& affinity, std::size_t row) {
    matrix_.cpus[row] = number_ranges(affinity.text);
    if (!matrix_.cpus[row] && affinity.text != "N/A" && affinity.text != "n/a")
      matrix_.notes.push_back(fmt::format("the CPU affinity \"{}\" of {} is no list of CPUs",
                                          affinity.text.substr(0, 40), matrix_.devices[row].text));
  }

  SmiCell read_cell(const SmiToken& token, bool diagonal) const {
    const std::string& text = token.text;
    if (diagonal != (text == "X"))
      fail(name_, token,
           diagonal ? fmt::format("\"{}\" where a device meets itself; X is expected",
                                  text.substr(0, 40))
                    : "X between two devices");
    if (text == "X") return {SmiRelation::self, 0};
    if (text.starts_with("NV")) {
      int links = 0;
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), links);
      if (error == std::errc{} && end == text.data() + text.size() && links >= 1 && links <= 256)
        return {SmiRelation::nvlink, links};
    }
    static constexpr std::array<std::pair<std::string_view, SmiRelation>, 6> relations{
        {{"PIX", SmiRelation::pix},
         {"PXB", SmiRelation::pxb},
         {"PHB", SmiRelation::phb},
         {"NODE", SmiRelation::node},
         {"SYS", SmiRelation::sys},
         {"SOC", SmiRelation::sys}}};
    for (const auto& [known, relation] : relations)
      if (text == known) return {relation, 0};
    fail(name_, token,
         fmt::format("\"{}\" is no connection; allowed: X, NV1 to NV256, PIX, PXB, PHB, "
                     "NODE, SYS",
                     text.substr(0, 40)));
  }

  void check_symmetric() const {
    for (std::size_t a = 0; a < matrix_.gpus; ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (!(matrix_.cell(a, b) == matrix_.cell(b, a)))
          fail(name_, matrix_.devices[a],
               fmt::format("{} and {} are connected differently in their two rows",
                           matrix_.devices[b].text, matrix_.devices[a].text));
  }

  const std::vector<SmiLine>& lines_;
  Header header_;
  const std::string& name_;
  bool labelled_ = false;
  SmiMatrix matrix_;
  std::size_t tail_columns_ = 0;
  bool cpu_column_ = false, numa_column_ = false;
};

// Hosts whose matrices differ are nodes of different kinds.
void require_equal(const SmiMatrix& first, const SmiMatrix& other, const std::string& name) {
  const auto differ = [&](const std::string& what) {
    fail(name, other.devices.front(),
         fmt::format("this matrix differs from that of line {}: {}; give the hosts' matrices in a "
                     "file each",
                     first.devices.front().line, what));
  };
  if (first.devices.size() != other.devices.size())
    differ(fmt::format("{} devices, {} there", other.devices.size(), first.devices.size()));
  for (std::size_t i = 0; i < first.devices.size(); ++i)
    if (first.devices[i].text != other.devices[i].text)
      differ(fmt::format("{}, {} there", other.devices[i].text.substr(0, 40),
                         first.devices[i].text.substr(0, 40)));
  for (std::size_t a = 0; a < first.gpus; ++a)
    for (std::size_t b = 0; b < first.devices.size(); ++b)
      if (!(first.cell(a, b) == other.cell(a, b)))
        differ(fmt::format("{} to {}", first.devices[a].text, first.devices[b].text.substr(0, 40)));
}

}  // namespace

SmiMatrix read_smi_matrix(std::string_view text, const std::string& name) {
  if (text.find("XGMI") != std::string_view::npos)
    throw InputError(
        {name, 0, 0},
        "a table of rocm-smi or amd-smi (XGMI): not the output of `nvidia-smi topo -m`; "
        "describe the node in the cluster file itself (topologies/README.md)");
  const std::vector<SmiLine> lines = smi_lines(text);
  std::vector<Header> headers;
  for (std::size_t i = 0; i < lines.size() && headers.size() <= most_matrices; ++i)
    if (const auto label = header_label(lines[i])) headers.push_back({i, *label});
  if (headers.empty())
    throw InputError({name, 0, 0},
                     "no line starts with GPU0: not the output of `nvidia-smi topo -m`");
  if (headers.size() > most_matrices)
    fail(name, lines[headers.back().line].front(),
         fmt::format("more than {} matrices", most_matrices));
  const auto label = [&](const Header& header) {
    return label_of(lines[header.line], header.label);
  };
  const bool labelled = std::any_of(headers.begin(), headers.end(), [&](const Header& header) {
    return label(header) != label(headers.front());
  });
  SmiMatrix first = MatrixReader{lines, headers.front(), name, labelled}.read();
  for (std::size_t i = 1; i < headers.size(); ++i)
    require_equal(first, MatrixReader{lines, headers[i], name, labelled}.read(), name);
  if (headers.size() > 1)
    first.notes.push_back(
        fmt::format("{} matrices that agree are read as one node", headers.size()));
  return first;
}

}  // namespace sim
