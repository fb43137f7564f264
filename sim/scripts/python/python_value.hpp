// Values of Python's recipes. Lists, dicts and objects are shared, as in Python, and owned by the
// Values that made them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scripts/python/python_syntax.hpp"

namespace sim::python {

struct Container;

struct Value {
  enum class Kind : std::uint8_t {
    unknown,  // nothing may follow from it
    none,
    boolean,  // whole: 0 or 1
    whole,
    real,
    text,
    symbol,  // text: a name of what is not read, as torch.bfloat16
    list,    // and tuples and sets
    dict,
    object,    // what a call of a symbol makes; text: the symbol. Its attributes may be set
    function,  // function, of the module number `whole`
  };
  Kind kind = Kind::unknown;
  std::int64_t whole = 0;
  double real = 0;
  std::string text;
  Container* items = nullptr;  // of lists, dicts and objects
  const Statement* function = nullptr;
  TextPlace place;  // in the file of the recipe

  bool is(Kind one) const { return kind == one; }
  bool is_number() const { return kind == Kind::whole || kind == Kind::boolean || is(Kind::real); }
};

struct Container {
  struct Entry {
    std::string key;  // as repr() has it; empty in lists; the name of an attribute
    Value value;
    Value key_value;
    TextPlace place;
  };
  std::vector<Entry> entries;

  const Entry* find(std::string_view key) const;
  void set(std::string key, Value value, TextPlace place, Value key_value = {});
  void erase(std::string_view key);
};

// Makes values; limits how much.
class Values {
 public:
  static constexpr std::size_t most_entries = 200'000;

  Value make(Value::Kind kind, TextPlace place, std::string text = {});
  // Throws TooMuch.
  void count(std::size_t entries);
  Value copy(const Value& value, int depth = 0);

 private:
  std::deque<Container> owned_;
  std::size_t entries_ = 0;
};
struct TooMuch {};

// The items of a list, or the keys of a dict; counted in `values`.
std::vector<Value> items_of(const Value& value, Values& values);

Value none_at(TextPlace place);
Value boolean_at(bool on, TextPlace place);
Value whole_at(std::int64_t number, TextPlace place);
Value text_at(std::string text, TextPlace place);
// A literal: 1_000, 3e-4, 0x10.
Value number_at(std::string_view digits, TextPlace place);

// As a key of a dict; none of what cannot be one.
std::optional<std::string> repr(const Value& value);
std::optional<bool> truth(const Value& value);
std::optional<bool> equal(const Value& a, const Value& b);
Value arithmetic(std::string_view sign, const Value& a, const Value& b, Values& values,
                 TextPlace place);
Value compare(std::string_view sign, const Value& a, const Value& b, TextPlace place);

}  // namespace sim::python
