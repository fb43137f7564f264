// A walk over large JSON written by programs: records and traces of many megabytes, of which no
// tree is kept. The caller follows the structure; the first mistake throws InputError with its
// line and column. What people write by hand goes through reader.hpp, which collects mistakes.
//
//   JsonScan scan{text, "trace.json"};
//   scan.object([&](std::string_view key) {
//     if (key == "ranks") ranks = scan.integer({.min = 1});
//     else scan.skip();
//   });
//   scan.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"

namespace sim {

class JsonScan {
 public:
  enum class Kind : std::uint8_t { object, list, text, number, word };  // word: true, false, null

  // `text` outlives the scan.
  JsonScan(std::string_view text, std::string name);

  Kind peek();  // of the next value

  // Calls `entry(key)`, which reads the value, for each entry in the order of the file. `key` lives
  // until the next value is read.
  template <class Entry>
  void object(Entry entry) {
    open('{');
    for (bool first = true; next_key(first); first = false)
      entry(std::string_view{key_});
    close('}');
  }
  // Calls `item()`, which reads the value, for each.
  template <class Item>
  void list(Item item) {
    open('[');
    for (bool first = true; next_item(first); first = false)
      item();
    close(']');
  }

  std::string text();
  std::int64_t integer(IntegerRange range = {});  // a whole number, written without fraction
  double real(RealRange range = {});              // finite
  bool boolean();
  void skip();  // any value; also NaN and Infinity, which other programs write

  // The value that was read last, or is next.
  SourcePosition where() const;
  [[noreturn]] void fail(const std::string& what) const;  // there
  [[noreturn]] void unknown_key() const;                  // of the entry that is being read

  void finish();  // nothing may follow

 private:
  void open(char bracket);
  void close(char bracket);
  bool next_key(bool first);
  bool next_item(bool first);
  void skip_space();
  void read_text(std::string& into);
  std::string_view number();
  std::string_view bare_word();
  [[noreturn]] void fail_at(std::size_t place, const std::string& what) const;
  [[noreturn]] void fail_expecting(const char* wanted) const;
  char look() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  std::string name_;
  std::string key_;
  std::string scratch_;
  std::size_t at_ = 0;
  std::size_t value_ = 0;  // where the last value began
  std::size_t key_at_ = 0;
  int depth_ = 0;
};

// The whole file as text, that of a gzip file unpacked. Throws InputError: it cannot be opened, is
// damaged gzip, or is larger than `limit`.
std::string load_text(const std::string& path, std::size_t limit);

}  // namespace sim
