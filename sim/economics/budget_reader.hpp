// The keys of the section `budget`, read one after the other; each becomes an assumption.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "sim/economics/budget.hpp"
#include "sim/scenario/sources.hpp"

namespace sim::budget_reading {

inline constexpr const char* given = "given";

class Reader {
 public:
  Reader(const Layered& section, std::vector<Assumption>& assumptions)
      : top_{section}, assumptions_{assumptions} {
    const ObjectReader* holder = section.holder("sources");
    if (!holder) return;
    const ObjectReader sources = holder->object("sources");
    for (const std::string& key : sources.keys())
      sources_.emplace(key, Source{sources.text(key), sources.at(key)});
  }

  bool has(const std::string& key) const { return section_of(key).has(leaf_of(key)); }
  void problem(const std::string& key, const std::string& what) const {
    section_of(key).problem(leaf_of(key), what);
  }

  // The value at `key` through `parse`, or the default. `text` writes it.
  template <class Value, class Read, class Text>
  Value value(const std::string& key, const Value& fallback, const std::string& source, Read read,
              Text text) {
    const Layered section = section_of(key);
    const ObjectReader* holder = section.holder(leaf_of(key));
    Value result = holder ? read(holder->at(leaf_of(key))) : fallback;
    note(key, text(result), holder ? given : source);
    return result;
  }

  Seconds time(const std::string& key, Seconds fallback, const std::string& source,
               Seconds least = Seconds{0}) {
    const auto read = [&](const ValueReader& at) {
      const Seconds result = parsed(at, parse_time, Seconds{1});
      if (result < least)
        at.problem(fmt::format("{} is too short; at least {}", key, exact_text(least)));
      return std::max(result, least);
    };
    return value(key, fallback, source, read, [](Seconds t) { return exact_text(t); });
  }
  // One that has an end.
  Seconds finite_time(const std::string& key, Seconds fallback, const std::string& source,
                      Seconds least = Seconds{0}) {
    const Seconds result = time(key, fallback, source, least);
    constexpr Seconds longest{365 * 86400.0 * 1000};
    if (result <= longest) return result;
    problem(key, fmt::format("{} is too long; at most {}", key, exact_text(longest)));
    return longest;
  }
  Bandwidth bandwidth(const std::string& key, Bandwidth fallback, const std::string& source) {
    const auto read = [&](const ValueReader& at) {
      const Bandwidth result = at.bandwidth();
      if (result.in_bytes_per_second() < 1) at.problem("must be 1 B/s or more");
      return result;
    };
    return value(key, fallback, source, read, [](Bandwidth b) { return exact_text(b); });
  }
  double power(const std::string& key, double watts, const std::string& source) {
    const auto read = [](const ValueReader& at) { return parsed(at, parse_power, Power{}); };
    return value(key, Power{watts}, source, read, [](Power p) { return exact_text(p); }).watts;
  }
  double real(const std::string& key, double fallback, RealRange range, const std::string& source) {
    const auto read = [&](const ValueReader& at) { return at.real(range); };
    return value(key, fallback, source, read, [](double d) { return fmt::format("{}", d); });
  }
  std::int64_t integer(const std::string& key, std::int64_t fallback, IntegerRange range,
                       const std::string& source) {
    const auto read = [&](const ValueReader& at) { return at.integer(range); };
    return value(key, fallback, source, read, [](auto n) { return std::to_string(n); });
  }
  bool boolean(const std::string& key, bool fallback, const std::string& source) {
    const auto read = [](const ValueReader& at) { return at.boolean(); };
    return value(key, fallback, source, read, [](bool b) { return b ? "true" : "false"; });
  }
  template <class Enum>
  Enum word_of(const std::string& key, Enum fallback, const std::string& source) {
    const Layered section = section_of(key);
    const Enum result = section.word_or(leaf_of(key), fallback);
    note(key, std::string{word(result)}, section.has(leaf_of(key)) ? given : source);
    return result;
  }
  // All prices are in one currency.
  std::optional<double> price(const std::string& key, std::string& currency) {
    if (!has(key)) return std::nullopt;
    const auto read = [&](const ValueReader& at) {
      Money money = parsed(at, parse_money, Money{0, currency});
      if (currency.empty()) currency = money.currency;
      if (money.currency != currency)
        at.problem(fmt::format("this price is in {}, another in {}", money.currency, currency));
      return money;
    };
    return value(key, Money{}, given, read, [](const Money& m) { return exact_text(m); }).amount;
  }

  void note(const std::string& key, std::string text, std::string source) {
    if (const auto named = sources_.find(key); named != sources_.end()) {
      source = named->second.text;
      named->second.used = true;
    }
    assumptions_.push_back({key, std::move(text), std::move(source)});
  }
  void refuse_unused_sources() const {
    for (const auto& [key, source] : sources_)
      if (!source.used)
        source.where.problem(fmt::format("there is no assumption '{}' to have a source", key));
  }

 private:
  struct Source {
    std::string text;
    ValueReader where;
    bool used = false;
  };

  template <class Value>
  static Value parsed(const ValueReader& at, Parsed<Value> (*parse)(std::string_view),
                      Value harmless) {
    const std::string text = at.text();
    Parsed<Value> result = parse(text);
    if (const auto* value = std::get_if<Value>(&result)) return *value;
    at.problem(std::get<QuantityError>(result).problem);
    return harmless;
  }

  static std::string leaf_of(const std::string& key) {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? key : key.substr(dot + 1);
  }
  Layered section_of(const std::string& key) const {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? top_ : top_.section(key.substr(0, dot));
  }

  Layered top_;
  std::vector<Assumption>& assumptions_;
  std::map<std::string, Source> sources_;
};

}  // namespace sim::budget_reading
