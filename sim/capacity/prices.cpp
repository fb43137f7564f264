#include <fmt/format.h>

#include "sim/capacity/wish.hpp"
#include "sim/config/reader.hpp"

namespace sim {
namespace {

double price_at(const ObjectReader& holder, const std::string& key, PriceList& prices) {
  const Parsed<Money> parsed = parse_money(holder.text(key));
  if (const auto* wrong = std::get_if<QuantityError>(&parsed)) {
    holder.problem(key, wrong->problem);
    return 0;
  }
  const Money& money = std::get<Money>(parsed);
  if (!prices.currency.empty() && prices.currency != money.currency)
    holder.problem(key, fmt::format("is in {}, and others are in {}: one currency is needed",
                                    money.currency, prices.currency));
  prices.currency = money.currency;
  return money.amount;
}

}  // namespace

PriceList load_prices(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  PriceList prices;
  const ObjectReader hours = top.object("gpu_hour");
  for (const std::string& cluster : hours.keys())
    prices.gpu_hour[cluster] = price_at(hours, cluster, prices);
  if (top.has("kwh")) prices.kwh = price_at(top, "kwh", prices);
  document.finish();
  return prices;
}

}  // namespace sim
