#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/validation/csv.hpp"
#include "sim/validation/favourites.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

std::string rank_text(const GroupRank& group) {
  return group.rank ? fmt::format("{}", *group.rank) : std::string{"-"};
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:.1f}%", *value * 100) : std::string{"-"};
}

std::string summary(std::span<const GroupRank> ranks) {
  const auto count = [&](int most) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](const GroupRank& group) { return group.rank && *group.rank <= most; });
  };
  return fmt::format("{} groups: the truly fastest is first in {}, among the first {} in {}",
                     ranks.size(), count(1), favourites, count(favourites));
}

}  // namespace

std::string favourites_table(std::span<const GroupRank> ranks) {
  std::size_t width = 3;
  for (const GroupRank& group : ranks)
    width = std::max(width, group.job.size());
  std::string text = fmt::format("{:<{}}  {:>7}{:>5}{:>6}{:>8}{:>13}\n", "job", width, "layouts",
                                 "ran", "rank", "behind", "best of 3");
  for (const GroupRank& group : ranks)
    text += fmt::format("{:<{}}  {:>7}{:>5}{:>6}{:>8}{:>13}\n", group.job, width, group.layouts,
                        group.ran, rank_text(group), percent(group.first_behind),
                        percent(group.favourites_behind));
  return text + summary(ranks) +
         "\nrank: of the truly fastest in our order, among those forecast to fit; -: forecast not "
         "to"
         "\nbehind: how much slower, as measured, our first that ran is than the fastest\n";
}

std::string favourites_markdown(std::span<const GroupRank> ranks) {
  std::string text =
      "| set | job | layouts tried | ran | rank of the truly fastest | our first behind it | best "
      "of "
      "our first three behind it |\n|---|---|--:|--:|--:|--:|--:|\n";
  for (const GroupRank& group : ranks)
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", group.set, group.job,
                        group.layouts, group.ran, rank_text(group), percent(group.first_behind),
                        percent(group.favourites_behind));
  return text + "\n" + summary(ranks) + ".\n";
}

std::string favourites_csv(std::span<const GroupRank> ranks) {
  std::string text = "set,job,layouts,ran,rank,first_behind,favourites_behind\n";
  const auto number = [](const auto& value) {
    return value ? fmt::format("{}", *value) : std::string{};
  };
  for (const GroupRank& group : ranks)
    text += fmt::format("{},{},{},{},{},{},{}\n", csv_cell(group.set), csv_cell(group.job),
                        group.layouts, group.ran, number(group.rank), number(group.first_behind),
                        number(group.favourites_behind));
  return text;
}

std::string favourites_json(std::span<const GroupRank> ranks) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json groups = Json::array();
  for (const GroupRank& group : ranks)
    groups.push_back({{"set", group.set},
                      {"job", group.job},
                      {"layouts", group.layouts},
                      {"ran", group.ran},
                      {"rank", or_null(group.rank)},
                      {"first_behind", or_null(group.first_behind)},
                      {"favourites_behind", or_null(group.favourites_behind)}});
  return Json{{"groups", std::move(groups)}}.dump(2) + "\n";
}

}  // namespace sim
