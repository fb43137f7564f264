// A mapping of the scenario file with the values of --set on top of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"

namespace sim {

// "layout.tensor_parallel=4" options as a YAML document of their own, named "--set", so that the
// strict reader checks them as it checks a file. What is no assignment goes to `problems`, the rest
// into the document.
Document overrides_document(const std::vector<std::string>& overrides,
                            std::vector<Problem>& problems);

// Reads each key from the upper mapping where that has it, else from the lower one. Either may be
// absent. A key is marked as known in both, so that what --set replaces is no unknown key.
class Layered {
 public:
  Layered(const ObjectReader& lower, std::optional<ObjectReader> upper)
      : lower_{lower}, upper_{upper}, blame_{lower} {}

  // The mapping that has `key`, or nullptr.
  const ObjectReader* holder(std::string_view key) const;
  // The uppermost mapping in which `key` is a single value, or nullptr.
  const ObjectReader* scalar_holder(std::string_view key) const;
  bool has(std::string_view key) const { return holder(key) != nullptr; }
  bool empty() const { return !lower_ && !upper_; }
  // The mappings that there are, the lower one first.
  template <class Visit>
  void each(Visit visit) const {
    if (lower_) visit(*lower_);
    if (upper_) visit(*upper_);
  }
  bool overridden(std::string_view key) const { return upper_ && upper_->has(key); }
  // text_of_file() is the single value that the lower mapping has for `key`, whatever is on top.
  std::optional<std::string> text_of_file(std::string_view key) const;
  // Whether `reader` is the upper mapping, that of --set.
  bool is_upper(const ObjectReader* reader) const { return upper_ && reader == &*upper_; }
  // A nested mapping; where a layer has none, or a single value, that layer is absent in it.
  Layered object(std::string_view key) const;
  // The same for a key that has no short form: a single value is a problem there, not an absence.
  Layered section(std::string_view key) const;
  // Records that `key` is missing, if it is. (Not in an absent mapping: that is a problem of its
  // own.)
  void require(std::string_view key) const;
  // Records a problem at the value of `key`, or at the mapping that should have it.
  void problem(std::string_view key, const std::string& what) const;

  std::string text_or(std::string_view key, std::string_view fallback) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, IntegerRange range) const;
  int int_or(std::string_view key, int fallback, IntegerRange range) const {
    return static_cast<int>(integer_or(key, fallback, range));
  }
  double real_or(std::string_view key, double fallback, RealRange range) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  Duration duration_or(std::string_view key, Duration fallback) const;
  Bandwidth bandwidth_or(std::string_view key, Bandwidth fallback) const;
  Bytes bytes_or(std::string_view key, Bytes fallback) const;
  template <class Enum>
  Enum word_or(std::string_view key, Enum fallback) const {
    const ObjectReader* reader = holder(key);
    return reader ? reader->word<Enum>(key) : fallback;
  }

 private:
  Layered(std::optional<ObjectReader> lower, std::optional<ObjectReader> upper, ObjectReader blame)
      : lower_{lower}, upper_{upper}, blame_{blame} {}

  std::optional<ObjectReader> lower_, upper_;
  ObjectReader blame_;  // of the file, for what is missing
};

}  // namespace sim
