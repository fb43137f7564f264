// The output of ibnetdiscover (infiniband-diags): a block for each switch, with a line for each of
// its ports:
//
//   Switch  65 "S-0002c90300a10040"   # "leaf-1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
//   [1]  "H-a088c20300011100"[1](a088c20300011100)   # "node1 mlx5_0" lid 10 4xNDR
//   [33] "S-0002c90300b20040"[1]                     # "spine-1:MQM9700/U1" lid 3 4xNDR
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/topology/survey/survey.hpp"

namespace sim {
namespace {

constexpr std::size_t most_surveyed_switches = 1 << 16;

// Gb/s of a lane, as ibnetdiscover names speeds (infiniband-diags, libibmad dump of
// LinkSpeedActive; the InfiniBand Architecture Specification has the rates).
struct Speed {
  std::string_view name;
  double lane_gbps;
};
constexpr std::array<Speed, 9> speeds{{{"SDR", 2.5},
                                       {"DDR", 5},
                                       {"QDR", 10},
                                       {"FDR10", 10},
                                       {"FDR", 14},
                                       {"EDR", 25},
                                       {"HDR", 50},
                                       {"NDR", 100},
                                       {"XDR", 200}}};

// "4xNDR" is 400; 0: not such a word.
double gbps_of(std::string_view word) {
  int lanes = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), lanes);
  const std::size_t used = static_cast<std::size_t>(end - word.data());
  if (error != std::errc{} || lanes < 1 || lanes > 16 || used >= word.size() || word[used] != 'x')
    return 0;
  for (const Speed& speed : speeds)
    if (word.substr(used + 1) == speed.name) return lanes * speed.lane_gbps;
  return 0;
}

// The text between the first pair of quotes; nothing: there is none.
std::optional<std::string_view> quoted(std::string_view text) {
  const std::size_t begin = text.find('"');
  const std::size_t end = begin == std::string_view::npos ? begin : text.find('"', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(begin + 1, end - begin - 1);
}

// The host in "node1 mlx5_0" or "node1 HCA-1"; empty: a card that does not know its host, as
// "MT4129 ConnectX7   Mellanox Technologies".
std::string_view host_of(std::string_view description) {
  if (description.find("Technologies") != std::string_view::npos ||
      description.find("ConnectX") != std::string_view::npos)
    return {};
  return description.substr(0, description.find(' '));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_{text}, name_{name} {
    survey_.format = "ibnetdiscover";
    survey_.counts_links = true;
  }

  std::vector<FabricSurvey> read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      read_line(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    if (survey_.switches.empty()) throw InputError{{name_, 0, 0}, "no switch is listed"};
    drop_unlisted();
    set_levels(survey_);
    count_hosts();
    return {std::move(survey_)};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError{{name_, line_, 1}, what};
  }

  void read_line(std::string_view line) {
    const std::size_t hash = line.find('#');
    const std::string_view body = line.substr(0, hash);
    const std::string_view remark = hash == std::string_view::npos ? "" : line.substr(hash);
    if (line.starts_with("Switch")) {
      const auto id = quoted(body);
      if (!id) fail("a switch without its id in quotes");
      current_ = index_of(*id);
      listed_.insert(*current_);
      survey_.switches[*current_].name = quoted(remark).value_or(*id);
    } else if (line.starts_with("Ca") || line.starts_with("Rt")) {
      current_.reset();
    } else if (line.starts_with('[') && current_) {
      read_port(body, remark);
    }
  }

  void read_port(std::string_view body, std::string_view remark) {
    const auto peer = quoted(body);
    if (!peer) fail("a port of a switch without the id of its peer in quotes");
    const std::string_view description = quoted(remark).value_or("");
    const std::size_t space = remark.find_last_of(" \t");
    std::string_view last = space == std::string_view::npos ? remark : remark.substr(space + 1);
    while (last.ends_with('\r'))
      last.remove_suffix(1);
    const double gbps = gbps_of(last);
    SurveyedSwitch* here = &survey_.switches[*current_];
    if (peer->starts_with("S-")) {
      const std::size_t other = index_of(*peer);
      here = &survey_.switches[*current_];  // the list may have grown
      ++here->links[other];
      if (gbps > 0) here->link_gbps = gbps;
    } else if (peer->starts_with("H-")) {
      if (description.find("Aggregation Node") != std::string_view::npos)
        return void(++survey_.aggregation_ports);
      ++here->host_ports;
      if (gbps > 0) here->host_gbps = gbps;
      const std::string_view host = host_of(description);
      if (host.empty())
        ++survey_.unnamed_ports;
      else
        ++ports_of_[std::string{host}][*current_];
    }
  }

  std::size_t index_of(std::string_view id) {
    const auto [found, fresh] = known_.try_emplace(std::string{id}, survey_.switches.size());
    if (fresh) survey_.switches.push_back({.name = std::string{id}});
    if (survey_.switches.size() > most_surveyed_switches) fail("more than 65536 switches");
    return found->second;
  }

  // A peer that has no block of its own: the file is cut off, or shows a part of the fabric.
  void drop_unlisted() {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < survey_.switches.size(); ++i)
      missing += listed_.contains(i) ? 0 : 1;
    if (missing > 0)
      survey_.notes.push_back(fmt::format(
          "{} of {} switches are named as peers only: the file does not show all of the fabric",
          missing, survey_.switches.size()));
  }

  void count_hosts() {
    survey_.nodes = static_cast<std::int64_t>(ports_of_.size());
    survey_.one_leaf_per_node = survey_.one_leaf_per_port = !ports_of_.empty();
    for (const auto& [host, leaves] : ports_of_) {
      if (leaves.size() > 1) survey_.one_leaf_per_node = false;
      for (const auto& [leaf, ports] : leaves) {
        if (ports > 1) survey_.one_leaf_per_port = false;
        ++survey_.switches[leaf].nodes;
      }
    }
    if (!survey_.one_leaf_per_node) return;
    // Nodes of one port are at one leaf either way.
    bool several = false;
    for (const auto& [host, leaves] : ports_of_)
      several = several || leaves.begin()->second > 1;
    if (!several) survey_.one_leaf_per_port = false;
  }

  std::string_view text_;
  const std::string& name_;
  FabricSurvey survey_;
  std::map<std::string, std::size_t, std::less<>> known_;
  std::set<std::size_t> listed_;
  std::map<std::string, std::map<std::size_t, int>> ports_of_;  // host, leaf
  std::optional<std::size_t> current_;
  int line_ = 0;
};

}  // namespace

std::vector<FabricSurvey> survey_ibnetdiscover(std::string_view text, const std::string& name) {
  return Reader{text, name}.read();
}

}  // namespace sim
