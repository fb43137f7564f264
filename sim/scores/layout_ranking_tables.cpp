#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/rows/csv.hpp"
#include "sim/scores/cell_text.hpp"
#include "sim/scores/layout_ranking.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

std::string rank_text(std::optional<int> rank) {
  return rank ? fmt::format("{}", *rank) : std::string{"-"};
}

// first_text() says of our first how much slower it is than the fastest, as measured; or that it
// ran out of memory, and how much slower the next is that ran.
std::string first_text(bool fails, std::optional<double> behind) {
  return fails ? fmt::format("OOM, {}", percent_text(behind)) : percent_text(behind);
}

std::string summary(std::span<const GroupRank> ranks) {
  const auto count = [&](const auto& holds) {
    return std::count_if(ranks.begin(), ranks.end(), holds);
  };
  return fmt::format(
      "{} groups: the truly fastest is first in {}, among the first {} in {}; our first ran out of "
      "memory in {}, of those that leave the memory margin in {}",
      ranks.size(), count([](const GroupRank& group) { return group.rank == 1; }), favourites,
      count([](const GroupRank& group) { return group.in_favourites(); }),
      count([](const GroupRank& group) { return group.first_fails; }),
      count([](const GroupRank& group) {
        return group.with_margin ? group.with_margin->first_fails : group.first_fails;
      }));
}

// The columns behind the job.
std::vector<std::string> cells_of(const GroupRank& group) {
  const std::optional<GroupRank::WithMargin>& margin = group.with_margin;
  return {fmt::format("{}", group.layouts),
          fmt::format("{}", group.ran),
          rank_text(group.rank),
          first_text(group.first_fails, group.first_behind),
          percent_text(group.favourites_behind),
          margin ? percent_text(margin->margin) : "-",
          margin ? rank_text(margin->rank) : "-",
          margin ? first_text(margin->first_fails, margin->first_behind) : "-",
          margin ? percent_text(margin->favourites_behind) : "-"};
}

constexpr std::array heads{"layouts", "ran",   "rank",   "first",     "best of 3",
                           "margin",  "rank*", "first*", "best of 3*"};

}  // namespace

std::string favourites_table(std::span<const GroupRank> ranks) {
  std::size_t width = 3;
  for (const GroupRank& group : ranks)
    width = std::max(width, group.job.size());
  std::string text = fmt::format("{:<{}} ", "job", width);
  for (const char* head : heads)
    text += fmt::format("{:>12}", head);
  for (const GroupRank& group : ranks) {
    text += fmt::format("\n{:<{}} ", group.job, width);
    for (const std::string& cell : cells_of(group))
      text += fmt::format("{:>12}", cell);
  }
  return text + "\n" + summary(ranks) +
         "\nrank: of the truly fastest in our order, among those forecast to fit; -: forecast not "
         "to"
         "\nfirst, best of 3: how much slower, as measured, than the fastest; OOM: it ran out of "
         "memory, the next that ran"
         "\nmargin: of what a layout needs, by the rows of other sets; *: among those that leave "
         "it\n";
}

std::string favourites_markdown(std::span<const GroupRank> ranks) {
  std::string text =
      "| set | job | layouts tried | ran | rank of the truly fastest | our first behind it | best "
      "of our first three behind it | memory margin | rank among those that leave it | first of "
      "those | best of three of those |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const GroupRank& group : ranks) {
    text += fmt::format("| {} | {} |", group.set, group.job);
    for (const std::string& cell : cells_of(group))
      text += fmt::format(" {} |", cell);
    text += '\n';
  }
  return text + "\n" + summary(ranks) + ".\n";
}

std::string favourites_csv(std::span<const GroupRank> ranks) {
  std::string text =
      "set,job,layouts,ran,rank,first_behind,favourites_behind,first_fails,margin,margin_rank,"
      "margin_first_behind,margin_favourites_behind,margin_first_fails\n";
  const auto number = [](const auto& value) {
    return value ? fmt::format("{}", *value) : std::string{};
  };
  for (const GroupRank& group : ranks) {
    text += fmt::format("{},{},{},{},{},{},{},{}", csv_cell(group.set), csv_cell(group.job),
                        group.layouts, group.ran, number(group.rank), number(group.first_behind),
                        number(group.favourites_behind), group.first_fails);
    if (const auto& margin = group.with_margin)
      text += fmt::format(",{},{},{},{},{}\n", margin->margin, number(margin->rank),
                          number(margin->first_behind), number(margin->favourites_behind),
                          margin->first_fails);
    else
      text += ",,,,,\n";
  }
  return text;
}

std::string favourites_json(std::span<const GroupRank> ranks) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json groups = Json::array();
  for (const GroupRank& group : ranks) {
    groups.push_back({{"set", group.set},
                      {"job", group.job},
                      {"layouts", group.layouts},
                      {"ran", group.ran},
                      {"rank", or_null(group.rank)},
                      {"first_behind", or_null(group.first_behind)},
                      {"favourites_behind", or_null(group.favourites_behind)},
                      {"first_fails", group.first_fails}});
    if (const auto& margin = group.with_margin)
      groups.back()["with_margin"] = {{"margin", margin->margin},
                                      {"rank", or_null(margin->rank)},
                                      {"first_behind", or_null(margin->first_behind)},
                                      {"favourites_behind", or_null(margin->favourites_behind)},
                                      {"first_fails", margin->first_fails}};
  }
  return Json{{"groups", std::move(groups)}}.dump(2) + "\n";
}

}  // namespace sim
