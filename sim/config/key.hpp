// A key of an input file, described for people and programs: a row of a catalogue. The rows of all
// keys stand in sim/catalog; tests hold them against what the readers ask for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/config/reader.hpp"

namespace sim {

enum class KeyType : std::uint8_t {
  integer,
  number,
  boolean,
  word,       // one of `words`
  text,       // free text, or a form of its own, which `help` describes
  file,       // the path of a file
  size,       // "25 MiB"
  bandwidth,  // "50 GB/s", "400 Gbps"
  duration,   // "2.5 us"
  rate,       // "989 TFLOP/s"
  long_time,  // of a budget: "10 min", "60 d", "never"
  power,      // "700 W"
  money,      // "2.50 USD"
  list,       // "[tp, cp, dp, pp]"
};
constexpr auto words_of(KeyType) {
  return std::array{Word{KeyType::integer, "integer"},     Word{KeyType::number, "number"},
                    Word{KeyType::boolean, "boolean"},     Word{KeyType::word, "word"},
                    Word{KeyType::text, "text"},           Word{KeyType::file, "file"},
                    Word{KeyType::size, "size"},           Word{KeyType::bandwidth, "bandwidth"},
                    Word{KeyType::duration, "duration"},   Word{KeyType::rate, "rate"},
                    Word{KeyType::long_time, "long_time"}, Word{KeyType::power, "power"},
                    Word{KeyType::money, "money"},         Word{KeyType::list, "list"}};
}

// The unit of a quantity: one of the units that its values have. Empty for other types.
std::string_view unit_of(KeyType type);

// KeyDefault is what holds where the file is silent: a value, or a rule that says what it follows.
struct KeyDefault {
  // NOLINTNEXTLINE(google-explicit-constructor): rows of tables are written with it
  KeyDefault(const char* text) : value{text} {}
  static KeyDefault follows(std::string text) { return {"", std::move(text), false}; }
  static KeyDefault required() { return {"", "", true}; }

  std::string value;  // as it would be written in the file; empty: `rule` says
  std::string rule;
  bool is_required = false;

 private:
  KeyDefault(std::string text, std::string what, bool must)
      : value{std::move(text)}, rule{std::move(what)}, is_required{must} {}
};

struct Key {
  std::string path;  // "layout.tensor_parallel", as --set takes it
  KeyType type = KeyType::text;
  std::string
      unit;  // what a number counts ("GPUs"), or the unit of a quantity ("MiB"); may be empty
  std::string help;  // one line
  KeyDefault fallback{""};
  std::optional<double> least{}, greatest{};  // of a number; absent: no limit
  std::vector<std::string_view> words{};      // of a word all; else allowed in the place of a value
  bool only_in_file = false;                  // --set does not take it
};

// "1 to 64", "0 or more", "none, full"; empty where every value of the type is allowed.
std::string allowed_text(const Key& key);
// The default as a reader sees it: "1", "the GPUs left", "required".
std::string default_text(const Key& key);

// Rows of a table. Values beyond 2^53 are no limits.
Key integer_key(std::string path, IntegerRange range, std::string unit, KeyDefault fallback,
                std::string help);
Key number_key(std::string path, RealRange range, std::string unit, KeyDefault fallback,
               std::string help);
Key boolean_key(std::string path, KeyDefault fallback, std::string help);
Key quantity_key(KeyType type, std::string path, KeyDefault fallback, std::string help);
Key text_key(KeyType type, std::string path, KeyDefault fallback, std::string help,
             std::vector<std::string_view> words = {});
template <class Enum>
Key word_key(std::string path, KeyDefault fallback, std::string help) {
  std::vector<std::string_view> words;
  for (const auto& entry : words_of(Enum{}))
    words.push_back(entry.text);
  return text_key(KeyType::word, std::move(path), std::move(fallback), std::move(help),
                  std::move(words));
}
// The same rows in a section: "tensor_parallel" becomes "layout.tensor_parallel".
std::vector<Key> in_section(std::string_view section, std::vector<Key> keys);

}  // namespace sim
