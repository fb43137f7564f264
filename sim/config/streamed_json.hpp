// JsonScan for files larger than memory: the same walk over JSON, of which one block at a time is
// read. What the caller does not ask for is passed over.
//
//   const std::unique_ptr<ByteSource> source = open_file("trace.json.gz");
//   StreamedJson scan{*source};
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/config/byte_source.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {

class StreamedJson {
 public:
  using Kind = JsonScan::Kind;

  // `source` outlives the scan, which reads it from where it is.
  explicit StreamedJson(ByteSource& source);

  // The begin of the input: up to a block of it. Before anything else is read.
  std::string_view head() const { return {begin_, static_cast<std::size_t>(end_ - begin_)}; }

  Kind peek();  // of the next value

  // Calls `entry(key)`, which reads the value, for each entry in the order of the file. `key` lives
  // until the next key is read.
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

  void text_into(std::string& text);  // replaces it
  // The number as it is written; it lives until the next value is read.
  std::string_view number();
  std::int64_t integer(IntegerRange range = {});
  double real(RealRange range = {});
  std::string_view word();  // true, false, null, ...; lives as a number does
  void skip();              // any value; also NaN and Infinity, which other programs write

  SourcePosition where() const;  // of the value that was read last, or is next
  std::uint64_t consumed() const { return before_ + static_cast<std::uint64_t>(at_ - begin_); }
  [[noreturn]] void fail(const std::string& what) const;  // there
  void finish();                                          // nothing may follow

 private:
  void open(char bracket);
  void close(char bracket);
  bool next_key(bool first);
  bool next_item(bool first);
  void skip_space();
  void read_text(std::string* into);
  void skip_digits();
  // Has `count` bytes in the buffer, or all that are left.
  void ensure(std::size_t count) {
    if (static_cast<std::size_t>(end_ - at_) < count && !ended_) refill();
  }
  void refill();
  void mark_value() { value_ = at_; }
  struct Place {
    int line = 1;
    std::uint64_t line_begin = 0;  // the byte
  };
  Place place_of(const char* at) const;
  SourcePosition position_of(const char* at) const;
  [[noreturn]] void fail_here(const std::string& what) const;
  [[noreturn]] void fail_expecting(const char* wanted) const;

  ByteSource& source_;
  std::vector<char> buffer_;
  const char* begin_ = nullptr;  // of the buffer
  const char* at_ = nullptr;
  const char* end_ = nullptr;     // of what is in it; a zero follows
  const char* value_ = nullptr;   // where the last value began; nullptr: before the buffer
  SourcePosition last_value_{};   // where value_ is nullptr
  std::uint64_t before_ = 0;      // bytes before the buffer
  int line_ = 1;                  // of the buffer's begin
  std::uint64_t line_begin_ = 0;  // byte at which it began
  std::string key_;
  int depth_ = 0;
  bool ended_ = false;
};

}  // namespace sim
