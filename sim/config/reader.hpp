// The strict reader: the only door through which files of the user enter. YAML and JSON become one
// read-only tree with positions; a reader marks every key it is asked for, and what nobody asked
// for is an error with the nearest known name. Mistakes are collected, not thrown one by one.
//
// Refused: duplicate keys, unknown keys, missing keys, wrong types, quantities without unit,
// numbers out of range, NaN and infinity, octal-looking integers (010), aliases to an enclosing
// node, nesting deeper than 64, files over 16 MiB, binary junk, several YAML documents in a file.
//
//   Document document = Document::load("scenario.yaml");
//   ObjectReader top = document.root_object();
//   const int layers = top.integer("layers", {.min = 1, .max = 10'000});
//   ObjectReader layout = top.object("layout");
//   ...
//   document.finish();   // throws InputError with every problem of the file, if there is any
//
// After a problem a reader returns a harmless value (the minimum, the first word, an empty object)
// so that reading can go on; nothing may be computed from it before finish().
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/config/change.hpp"

namespace sim {

class Tree;  // the parsed file: nodes with positions, and the problems found so far

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double min = 0;
  double max = std::numeric_limits<double>::max();
};

class ObjectReader;

// One value of the tree, of any kind. Cheap to copy; valid while its Document lives.
class ValueReader {
 public:
  ValueReader(Tree* tree, std::uint32_t node) : tree_{tree}, node_{node} {}

  bool is_object() const;
  bool is_list() const;
  bool is_scalar() const;

  std::string text() const;
  std::int64_t integer(IntegerRange range = {}) const;
  double real(RealRange range = {}) const;
  bool boolean() const;  // true or false only
  Bytes bytes() const;
  Bandwidth bandwidth() const;
  Duration duration() const;
  FlopRate flop_rate() const;
  Flops flops() const;
  std::vector<ValueReader> list() const;
  ObjectReader object() const;

  // The text of a scalar of any type, or nullopt: no problem is recorded.
  std::optional<std::string> peek_text() const;

  SourcePosition where() const;
  void problem(const std::string& what) const;  // records a problem at this value

 private:
  friend class ObjectReader;
  Tree* tree_;
  std::uint32_t node_;
};

class ObjectReader {
 public:
  ObjectReader(Tree* tree, std::uint32_t node) : tree_{tree}, node_{node} {}

  bool has(std::string_view key) const;  // present and not null; marks the key as known
  std::optional<ValueReader> find(std::string_view key) const;  // as has()
  ValueReader at(std::string_view key) const;  // a missing key is a problem at the object

  std::string text(std::string_view key) const { return at(key).text(); }
  std::int64_t integer(std::string_view key, IntegerRange range = {}) const;
  double real(std::string_view key, RealRange range = {}) const;
  bool boolean(std::string_view key) const { return at(key).boolean(); }
  Bytes bytes(std::string_view key) const { return at(key).bytes(); }
  Bandwidth bandwidth(std::string_view key) const { return at(key).bandwidth(); }
  Duration duration(std::string_view key) const { return at(key).duration(); }
  FlopRate flop_rate(std::string_view key) const { return at(key).flop_rate(); }
  Flops flops(std::string_view key) const { return at(key).flops(); }
  ObjectReader object(std::string_view key) const { return at(key).object(); }
  std::vector<ValueReader> list(std::string_view key) const { return at(key).list(); }

  // text_or() has a default for an absent key.
  std::string text_or(std::string_view key, std::string_view fallback) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                          IntegerRange range = {}) const;
  double real_or(std::string_view key, double fallback, RealRange range = {}) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  Bytes bytes_or(std::string_view key, Bytes fallback) const;
  Bandwidth bandwidth_or(std::string_view key, Bandwidth fallback) const;
  Duration duration_or(std::string_view key, Duration fallback) const;

  // A word of an enumeration that has words_of(); an unknown one is answered with the allowed
  // words and the nearest of them.
  template <class Enum>
  Enum word(std::string_view key) const {
    return word_of<Enum>(at(key));
  }
  template <class Enum>
  Enum word_or(std::string_view key, Enum fallback) const {
    const std::optional<ValueReader> value = find(key);
    return value ? word_of<Enum>(*value) : fallback;
  }

  // The keys in file order, marked as known: for maps whose keys are data.
  std::vector<std::string> keys() const;
  // unasked_keys() are those that nobody has asked for so far; they stay unknown.
  std::vector<std::string> unasked_keys() const;
  void ignore_unknown() const;  // for files of other programs (Hugging Face config.json)

  SourcePosition where() const;
  SourcePosition where(std::string_view key) const;  // of the value, or of the object if absent
  void problem(const std::string& what) const;
  void problem(std::string_view key, const std::string& what) const;  // at that key's value

 private:
  template <class Enum>
  static Enum word_of(const ValueReader& value) {
    const std::string text = value.text();
    if (const std::optional<Enum> found = from_word<Enum>(text)) return *found;
    std::vector<std::string_view> allowed;
    for (const auto& entry : words_of(Enum{}))
      allowed.push_back(entry.text);
    report_unknown_word(value, text, allowed);
    return words_of(Enum{})[0].value;
  }
  static void report_unknown_word(const ValueReader& value, const std::string& text,
                                  const std::vector<std::string_view>& allowed);

  Tree* tree_;
  std::uint32_t node_;
};

// Something that a reader of a whole file has to be told: "--lr" is given twice.
struct Remark {
  std::string about, what;
};

enum class Syntax : std::uint8_t { yaml, json, toml };

class Document {
 public:
  // Reads a file: ".json" as JSON (RFC 8259), anything else as YAML 1.2. Throws InputError when it
  // cannot be opened or parsed.
  static Document load(const std::string& path);
  static Document load(const std::string& path, Syntax syntax);
  static Document parse(std::string_view text, std::string name, Syntax syntax);
  static Document parse_yaml(std::string_view text, std::string name);
  static Document parse_json(std::string_view text, std::string name);

  // A tree that another reader has filled (sim/scripts), with what it has to say of the file.
  explicit Document(std::unique_ptr<Tree> tree, std::vector<Remark> remarks = {});
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  // Before anything is read. Throws InputError for a key in a section that does not exist.
  void change(std::span<const Change> changes);

  ObjectReader root_object() const;  // a root that is not an object throws InputError
  // Whether the root is an object with that key. Unlike ObjectReader::has, it makes no key known.
  bool root_has(std::string_view key) const;
  const std::string& name() const;
  const std::vector<Remark>& remarks() const { return remarks_; }
  // Reports every key that nobody asked for, then throws InputError if any problem was recorded.
  void finish() const;
  // problems() are those that finish() would throw. A key that nobody asked for here, but somebody
  // in `related`, is told where it belongs.
  std::vector<Problem> problems(const Document* related = nullptr) const;

 private:
  std::unique_ptr<Tree> tree_;
  std::vector<Remark> remarks_;
};

// `reference` as written in the file `from`: absolute, or relative to the folder of `from`.
std::string resolve_path(const std::string& from, const std::string& reference);

}  // namespace sim
