#include "sim/config/key.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

namespace sim {

std::string_view unit_of(KeyType type) {
  switch (type) {
    case KeyType::size:
      return "MiB";
    case KeyType::bandwidth:
      return "GB/s";
    case KeyType::duration:
      return "us";
    case KeyType::rate:
      return "TFLOP/s";
    case KeyType::long_time:
      return "h";
    case KeyType::power:
      return "W";
    case KeyType::money:
      return "USD";
    default:
      return {};
  }
}

std::string allowed_text(const Key& key) {
  if (key.type == KeyType::word || key.type == KeyType::boolean)
    return fmt::format("{}", fmt::join(key.words, ", "));
  if (key.least && key.greatest) return fmt::format("{} to {}", *key.least, *key.greatest);
  if (key.least) return fmt::format("{} or more", *key.least);
  return {};
}

std::string default_text(const Key& key) {
  if (key.fallback.is_required) return "required";
  return key.fallback.value.empty() ? key.fallback.rule : key.fallback.value;
}

Key text_key(KeyType type, std::string path, KeyDefault fallback, std::string help,
             std::vector<std::string_view> words) {
  return {.path = std::move(path),
          .type = type,
          .unit = std::string{unit_of(type)},
          .help = std::move(help),
          .fallback = std::move(fallback),
          .words = std::move(words)};
}

Key quantity_key(KeyType type, std::string path, KeyDefault fallback, std::string help) {
  return text_key(type, std::move(path), std::move(fallback), std::move(help));
}

Key boolean_key(std::string path, KeyDefault fallback, std::string help) {
  return text_key(KeyType::boolean, std::move(path), std::move(fallback), std::move(help),
                  {"true", "false"});
}

Key integer_key(std::string path, IntegerRange range, std::string unit, KeyDefault fallback,
                std::string help) {
  Key key = text_key(KeyType::integer, std::move(path), std::move(fallback), std::move(help));
  key.unit = std::move(unit);
  key.least = static_cast<double>(range.min);
  if (range.max <= std::int64_t{1} << 53) key.greatest = static_cast<double>(range.max);
  return key;
}

Key number_key(std::string path, RealRange range, std::string unit, KeyDefault fallback,
               std::string help) {
  Key key = text_key(KeyType::number, std::move(path), std::move(fallback), std::move(help));
  key.unit = std::move(unit);
  key.least = range.min;
  if (range.max < std::numeric_limits<double>::max()) key.greatest = range.max;
  return key;
}

std::vector<Key> in_section(std::string_view section, std::vector<Key> keys) {
  for (Key& key : keys)
    key.path = fmt::format("{}.{}", section, key.path);
  return keys;
}

}  // namespace sim
