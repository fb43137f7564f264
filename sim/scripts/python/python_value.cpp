#include "sim/scripts/python/python_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sim::python {
namespace {

using Kind = Value::Kind;

constexpr std::size_t most_text = 100'000;

double as_real(const Value& value) {
  return value.is(Kind::real) ? value.real : static_cast<double>(value.whole);
}

Value real_at(double number, TextPlace place) {
  Value made;
  if (!std::isfinite(number)) return made;
  made.kind = Kind::real;
  made.real = number;
  made.place = place;
  return made;
}

Value whole_result(std::string_view sign, std::int64_t a, std::int64_t b, TextPlace place) {
  std::int64_t made = 0;
  const bool divides = sign == "//" || sign == "%";
  if (divides && (b == 0 || (b == -1 && a == INT64_MIN))) return {};
  if (sign == "+" && !__builtin_add_overflow(a, b, &made)) return whole_at(made, place);
  if (sign == "-" && !__builtin_sub_overflow(a, b, &made)) return whole_at(made, place);
  if (sign == "*" && !__builtin_mul_overflow(a, b, &made)) return whole_at(made, place);
  // Python rounds down.
  const auto quotient = [&] { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); };
  if (sign == "//") return whole_at(quotient(), place);
  if (sign == "%") return whole_at(a - quotient() * b, place);
  if (sign == "**" && b >= 0 && b < 64) {
    made = 1;
    for (std::int64_t i = 0; i < b; ++i)
      if (__builtin_mul_overflow(made, a, &made)) return {};
    return whole_at(made, place);
  }
  if (sign == "/" && b != 0) return real_at(static_cast<double>(a) / static_cast<double>(b), place);
  return {};
}

Value repeated(const Value& list, std::int64_t times, Values& values, TextPlace place) {
  if (list.is(Kind::text)) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
    if (count > most_text || list.text.size() * count > most_text) return {};
    Value made = text_at("", place);
    for (std::size_t i = 0; i < count; ++i)
      made.text += list.text;
    return made;
  }
  Value made = values.make(Kind::list, place);
  for (std::int64_t i = 0; i < times; ++i) {
    values.count(list.items->entries.size() + 1);
    for (const Container::Entry& entry : list.items->entries)
      made.items->entries.push_back(entry);
  }
  return made;
}

Value joined(const Value& a, const Value& b, Values& values, TextPlace place) {
  Value made = values.make(Kind::list, place);
  values.count(a.items->entries.size() + b.items->entries.size());
  for (const Value* part : {&a, &b})
    for (const Container::Entry& entry : part->items->entries)
      made.items->entries.push_back(entry);
  return made;
}

std::optional<bool> equal_items(const Value& a, const Value& b, int depth);
std::optional<bool> equal_values(const Value& a, const Value& b, int depth) {
  if (a.is(Kind::unknown) || b.is(Kind::unknown) || depth > 16) return std::nullopt;
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real)) return as_real(a) == as_real(b);
    return a.whole == b.whole;
  }
  if (a.is(Kind::symbol) || b.is(Kind::symbol)) {
    if (a.kind == b.kind && a.text == b.text) return true;
    if (a.is(Kind::none) || b.is(Kind::none)) return false;
    return std::nullopt;  // torch.float might be torch.float32
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::none:
      return true;
    case Kind::text:
      return a.text == b.text;
    case Kind::list:
      return equal_items(a, b, depth);
    case Kind::function:
      return a.function == b.function;
    default:
      return a.items == b.items ? std::optional{true} : std::nullopt;
  }
}
std::optional<bool> equal_items(const Value& a, const Value& b, int depth) {
  const auto& left = a.items->entries;
  const auto& right = b.items->entries;
  if (left.size() != right.size()) return false;
  bool sure = true;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::optional<bool> same = equal_values(left[i].value, right[i].value, depth + 1);
    if (same && !*same) return false;
    sure = sure && same;
  }
  return sure ? std::optional{true} : std::nullopt;
}

std::optional<bool> contains(const Value& all, const Value& one) {
  if (all.is(Kind::text) && one.is(Kind::text)) return all.text.find(one.text) != std::string::npos;
  if (all.is(Kind::dict)) {
    const std::optional<std::string> key = repr(one);
    return key ? std::optional{all.items->find(*key) != nullptr} : std::nullopt;
  }
  if (!all.is(Kind::list)) return std::nullopt;
  bool sure = true;
  for (const Container::Entry& entry : all.items->entries) {
    const std::optional<bool> same = equal(entry.value, one);
    if (same && *same) return true;
    sure = sure && same;
  }
  return sure ? std::optional{false} : std::nullopt;
}

std::optional<bool> ordered(std::string_view sign, const Value& a, const Value& b) {
  const auto decide = [&](const auto& x, const auto& y) -> bool {
    return sign == "<" ? x < y : sign == "<=" ? x <= y : sign == ">" ? x > y : x >= y;
  };
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real)) return decide(as_real(a), as_real(b));
    return decide(a.whole, b.whole);
  }
  if (a.is(Kind::text) && b.is(Kind::text)) return decide(a.text, b.text);
  return std::nullopt;
}

}  // namespace

const Container::Entry* Container::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

void Container::set(std::string key, Value value, TextPlace place, Value key_value) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  if (found == entries.end()) {
    entries.push_back({std::move(key), std::move(value), std::move(key_value), place});
  } else {
    found->value = std::move(value);
    found->place = place;
  }
}

void Container::erase(std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

Value Values::make(Kind kind, TextPlace place, std::string text) {
  count(1);
  Value made;
  made.kind = kind;
  made.place = place;
  made.text = std::move(text);
  made.items = &owned_.emplace_back();
  return made;
}

void Values::count(std::size_t entries) {
  entries_ += entries;
  if (entries_ > most_entries) throw TooMuch{};
}

std::vector<Value> items_of(const Value& value, Values& values) {
  std::vector<Value> items;
  if (value.items == nullptr) return items;
  values.count(value.items->entries.size());
  for (const Container::Entry& entry : value.items->entries)
    items.push_back(value.is(Value::Kind::dict) ? entry.key_value : entry.value);
  return items;
}

Value Values::copy(const Value& value, int depth) {
  if (value.items == nullptr) return value;
  if (depth > 32) throw TooMuch{};
  Value made = make(value.kind, value.place, value.text);
  count(value.items->entries.size());
  for (const Container::Entry& entry : value.items->entries)
    made.items->entries.push_back(
        {entry.key, copy(entry.value, depth + 1), entry.key_value, entry.place});
  return made;
}

Value none_at(TextPlace place) {
  Value made;
  made.kind = Kind::none;
  made.place = place;
  return made;
}

Value boolean_at(bool on, TextPlace place) {
  Value made;
  made.kind = Kind::boolean;
  made.whole = on ? 1 : 0;
  made.place = place;
  return made;
}

Value whole_at(std::int64_t number, TextPlace place) {
  Value made;
  made.kind = Kind::whole;
  made.whole = number;
  made.place = place;
  return made;
}

Value text_at(std::string text, TextPlace place) {
  Value made;
  made.kind = Kind::text;
  made.text = std::move(text);
  made.place = place;
  return made;
}

Value number_at(std::string_view digits, TextPlace place) {
  const char* const end = digits.data() + digits.size();
  const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
  std::int64_t whole = 0;
  const auto read = std::from_chars(digits.data() + (hex ? 2 : 0), end, whole, hex ? 16 : 10);
  if (read.ec == std::errc{} && read.ptr == end) return whole_at(whole, place);
  double real = 0;
  const auto fraction = std::from_chars(digits.data(), end, real);
  if (fraction.ec != std::errc{} || fraction.ptr != end) return {};
  return real_at(real, place);
}

std::optional<std::string> repr(const Value& value) {
  switch (value.kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
    case Kind::whole:
      return fmt::format("{}", value.whole);
    case Kind::real:
      return fmt::format("{}", value.real);
    case Kind::text:
      return "'" + value.text + "'";
    case Kind::symbol:
      return value.text;
    case Kind::list: {
      std::string all = "(";
      for (const Container::Entry& entry : value.items->entries) {
        if (entry.value.is(Kind::list)) return std::nullopt;
        const std::optional<std::string> one = repr(entry.value);
        if (!one || all.size() > 1000) return std::nullopt;
        all += *one + ", ";
      }
      return all + ")";
    }
    default:
      return std::nullopt;
  }
}

std::optional<bool> truth(const Value& value) {
  switch (value.kind) {
    case Kind::unknown:
    case Kind::symbol:
      return std::nullopt;
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::whole:
      return value.whole != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::text:
      return !value.text.empty();
    case Kind::list:
    case Kind::dict:
      return !value.items->entries.empty();
    case Kind::object:
    case Kind::function:
      return true;
  }
  return std::nullopt;
}

std::optional<bool> equal(const Value& a, const Value& b) {
  return equal_values(a, b, 0);
}

Value arithmetic(std::string_view sign, const Value& a, const Value& b, Values& values,
                 TextPlace place) {
  if (sign == "*" && b.is(Kind::whole) && (a.is(Kind::list) || a.is(Kind::text)))
    return repeated(a, b.whole, values, place);
  if (sign == "*" && a.is(Kind::whole) && (b.is(Kind::list) || b.is(Kind::text)))
    return repeated(b, a.whole, values, place);
  if (sign == "+" && a.is(Kind::list) && b.is(Kind::list)) return joined(a, b, values, place);
  if (sign == "+" && a.is(Kind::text) && b.is(Kind::text))
    return a.text.size() + b.text.size() > most_text ? Value{} : text_at(a.text + b.text, place);
  if (!a.is_number() || !b.is_number()) return {};
  if (!a.is(Kind::real) && !b.is(Kind::real)) return whole_result(sign, a.whole, b.whole, place);
  const double x = as_real(a), y = as_real(b);
  if (sign == "+") return real_at(x + y, place);
  if (sign == "-") return real_at(x - y, place);
  if (sign == "*") return real_at(x * y, place);
  if (sign == "/" && y != 0) return real_at(x / y, place);
  if (sign == "//" && y != 0) return real_at(std::floor(x / y), place);
  if (sign == "**") return real_at(std::pow(x, y), place);
  return {};
}

Value compare(std::string_view sign, const Value& a, const Value& b, TextPlace place) {
  std::optional<bool> holds;
  const bool negated = sign == "!=" || sign == "not in" || sign == "is not";
  if (sign == "==" || sign == "!=" || sign == "is" || sign == "is not")
    holds = equal(a, b);
  else if (sign == "in" || sign == "not in")
    holds = contains(b, a);
  else
    holds = ordered(sign, a, b);
  if (!holds) return {};
  return boolean_at(*holds != negated, place);
}

}  // namespace sim::python
