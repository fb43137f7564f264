#include "ui/topology/loads.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"

namespace ui {
namespace {

std::string spaced_words(std::string_view words) {
  std::string text{words};
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// "ranks 0-7", "ranks 0, 64, 128, 192, … (16)".
std::string ranks_text(const std::vector<sim::RankId>& ranks) {
  constexpr std::size_t most = 4;
  bool run = ranks.size() > 2;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    run = run && ranks[i].value == ranks.front().value + i;
  if (run) return fmt::format("ranks {}-{}", ranks.front().value, ranks.back().value);
  std::string text = "ranks";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i)
    text += fmt::format("{} {}", i > 0 ? "," : "", ranks[i].value);
  if (ranks.size() > most) text += fmt::format(", … ({})", ranks.size());
  return text;
}

std::string user_text(const sim::LinkUser& user) {
  const char* plural = user.channels == 1 ? "" : "s";
  if (user.point_to_point)
    return fmt::format("{} pair{}: rank {} to {}", sim::grouped(user.channels), plural,
                       user.ranks.front().value, user.ranks.back().value);
  return fmt::format("{} group{}: {}", sim::grouped(user.channels), plural, ranks_text(user.ranks));
}

}  // namespace

std::size_t TierLoad::busiest() const {
  return static_cast<std::size_t>(std::max_element(use.begin(), use.end()) - use.begin());
}

ClusterLoads::ClusterLoads(ResultPtr result, const sim::Control& control)
    : result_{std::move(result)},
      graph_{sim::topology_graph(result_->scenario.cluster)},
      traffic_{*result_->forecast.plan, result_->scenario.cluster, result_->scenario.options,
               result_->forecast.timeline, control} {
  for (const sim::LinkTier& tier : graph_.links)
    tiers_.push_back(load_of(tier));
}

TierLoad ClusterLoads::load_of(const sim::LinkTier& tier) const {
  const double step = sim::in_seconds(result_->forecast.report.step_time);
  TierLoad load;
  load.title = fmt::format("{} → {}", spaced_words(graph_.parts[tier.from].name),
                           spaced_words(graph_.parts[tier.to].name));
  load.use.reserve(tier.links.size());
  double sum = 0;
  for (const sim::LinkId id : tier.links) {
    const sim::LinkLoad* of = traffic_.load(id);
    const double room = result_->scenario.cluster.link(id).capacity.in_bytes_per_second() * step;
    const double use = of && room > 0 ? static_cast<double>(of->carried.count()) / room : 0;
    if (of) {
      load.carried += of->carried;
      ++load.loaded;
    }
    load.use.push_back(static_cast<float>(use));
    load.most = std::max(load.most, use);
    sum += use;
  }
  load.mean = tier.links.empty() ? 0 : sum / static_cast<double>(tier.links.size());
  return load;
}

std::vector<std::pair<std::string, std::string>> ClusterLoads::facts(const LinkAt& at) const {
  const sim::LinkId link = id(at);
  const sim::Cluster& cluster = result_->scenario.cluster;
  const sim::Link& of = cluster.link(link);
  std::vector<std::pair<std::string, std::string>> facts{{"link", cluster.link_name(link)},
                                                         {"kind", spaced_words(sim::word(of.kind))},
                                                         {"capacity", sim::to_text(of.capacity)},
                                                         {"latency", sim::precise(of.latency)}};
  const sim::LinkLoad* load = traffic_.load(link);
  if (!load) {
    facts.emplace_back("carried", "nothing in this step");
    return facts;
  }
  const double step = sim::in_seconds(result_->forecast.report.step_time);
  const double use = static_cast<double>(tiers_[at.tier].use[at.link]);
  facts.emplace_back("carried", fmt::format("{} in the step", sim::to_text(load->carried)));
  facts.emplace_back("use", fmt::format("{:.1f} % of capacity × step", 100 * use));
  facts.emplace_back("busy", fmt::format("{}, {:.1f} % of the step", sim::precise(load->busy),
                                         100 * sim::to_seconds(load->busy) / step));
  facts.emplace_back("alike", load->represents == 1
                                  ? std::string{"no other link carries the same"}
                                  : fmt::format("{} links carry the same",
                                                sim::grouped(std::uint64_t{load->represents})));
  for (const sim::LinkUser& user : traffic_.users(link))
    facts.emplace_back(spaced_words(user.purpose), user_text(user));
  return facts;
}

std::optional<LinkAt> ClusterLoads::next_other(const LinkAt& at, bool forward) const {
  const std::vector<float>& use = tiers_[at.tier].use;
  const std::ptrdiff_t step = forward ? 1 : -1;
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(at.link) + step;
       i >= 0 && i < std::ssize(use); i += step)
    if (use[static_cast<std::size_t>(i)] != use[at.link])
      return LinkAt{at.tier, static_cast<std::size_t>(i)};
  return std::nullopt;
}

std::string loads_csv(const ClusterLoads& loads) {
  std::string text =
      "from,to,kind,links,loaded_links,capacity_bytes_per_s,most_use,mean_use,carried_bytes\n";
  for (std::size_t i = 0; i < loads.tiers().size(); ++i) {
    const TierLoad& load = loads.tiers()[i];
    const sim::LinkTier& tier = loads.graph().links[i];
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", loads.graph().parts[tier.from].name,
                        loads.graph().parts[tier.to].name, sim::word(tier.kind), tier.links.size(),
                        load.loaded, tier.most.in_bytes_per_second(), load.most, load.mean,
                        load.carried.count());
  }
  return text;
}

std::vector<float> most_per_column(std::span<const float> use, int columns) {
  std::vector<float> most(static_cast<std::size_t>(std::max(0, columns)), -1);
  if (use.empty()) return most;
  for (std::size_t column = 0; column < most.size(); ++column) {
    const std::size_t from = column * use.size() / most.size();
    const std::size_t to = std::max(from + 1, (column + 1) * use.size() / most.size());
    for (std::size_t i = from; i < to; ++i)
      most[column] = std::max(most[column], use[i]);
  }
  return most;
}

}  // namespace ui
