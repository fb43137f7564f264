// Scanners of a record's entries: numbers in their ranges, rows of them, and words by number.
// Room-internal; record_read.cpp says which entry holds what.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/json_scan.hpp"
#include "sim/timeline/record_format.hpp"

namespace sim {

class RecordScan {
 public:
  RecordScan(std::string_view text, const std::string& name) : scan_{text, name} {}

 protected:
  static constexpr std::int64_t most_ranks = 1 << 24;
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  // Times in a record: 11 days of picoseconds, so that sums of a few stay within 64 bits.
  static constexpr std::int64_t longest = std::int64_t{1'000'000} * 1'000'000'000'000;
  static constexpr std::int64_t largest_size = std::int64_t{1} << 50;

  template <class Entry>
  void object(std::vector<std::string_view> all, Entry entry) {
    Keys keys{scan_, std::move(all)};
    scan_.object([&](std::string_view key) {
      const std::string kept{key};
      keys.take(kept);
      entry(kept);
    });
    keys.done();
  }

  template <class Number>
  Number number(std::int64_t least, std::int64_t greatest) {
    return static_cast<Number>(scan_.integer({.min = least, .max = greatest}));
  }
  Duration duration() { return Duration{scan_.integer({.min = 0, .max = longest})}; }
  Bytes bytes() { return Bytes{scan_.integer({.min = 0, .max = largest_size})}; }
  bool flag() { return scan_.integer({.min = 0, .max = 1}) == 1; }

  // Calls column(i) for each entry of a list of exactly `count`.
  template <class Column>
  void row(std::size_t count, Column column) {
    std::size_t at = 0;
    scan_.list([&] {
      if (at >= count) scan_.fail(fmt::format("expected {} numbers", count));
      column(at++);
    });
    if (at != count) scan_.fail(fmt::format("expected {} numbers", count));
  }

  template <class Enum>
  void read_list(std::vector<Enum>& into) {
    scan_.list([&] {
      const std::string text = scan_.text();
      const std::optional<Enum> value = from_word<Enum>(text);
      if (!value) scan_.fail(fmt::format("unknown word \"{}\"", text));
      into.push_back(*value);
    });
  }
  void read_words() {
    if (version_ == 0) scan_.fail("\"version\" must come before \"words\"");
    if (version_ == 1) attentions_ = {AttentionKernel::unfused, AttentionKernel::flash};
    std::vector<std::string_view> lists{"kind", "stream", "pass", "dtype", "operation", "group"};
    if (version_ > 1) lists.emplace_back("attention");
    object(std::move(lists), [&](std::string_view key) {
      if (key == "kind")
        read_list(kinds_);
      else if (key == "stream")
        read_list(streams_);
      else if (key == "pass")
        read_list(passes_);
      else if (key == "dtype")
        read_list(dtypes_);
      else if (key == "operation")
        read_list(operations_);
      else if (key == "group")
        read_list(groups_);
      else
        read_list(attentions_);
    });
  }
  template <class Enum>
  Enum word(const std::vector<Enum>& list) {
    if (list.empty()) scan_.fail("\"words\" must come before what uses them");
    return list[number<std::size_t>(0, static_cast<std::int64_t>(list.size()) - 1)];
  }

  // Every entry of an object once.
  class Keys {
   public:
    Keys(JsonScan& scan, std::vector<std::string_view> all)
        : scan_{scan}, missing_{std::move(all)} {}
    void take(std::string_view key) {
      const auto found = std::find(missing_.begin(), missing_.end(), key);
      if (found == missing_.end()) scan_.unknown_key();
      missing_.erase(found);
    }
    void done() const {
      if (!missing_.empty()) scan_.fail(fmt::format("\"{}\" is missing", missing_.front()));
    }

   private:
    JsonScan& scan_;
    std::vector<std::string_view> missing_;
  };

  JsonScan scan_;
  std::int64_t version_ = 0;
  std::vector<OpKind> kinds_;
  std::vector<Stream> streams_;
  std::vector<Pass> passes_;
  std::vector<DType> dtypes_;
  std::vector<CollectiveKind> operations_;
  std::vector<GroupRole> groups_;
  std::vector<AttentionKernel> attentions_;
};

}  // namespace sim
