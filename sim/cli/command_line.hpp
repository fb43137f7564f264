// The command line as data: a command is a name, its options and what it does. One translation unit
// (command_line.cpp) reads arguments by it, with CLI11; completion and the texts of mistakes are
// made from the same data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/words.hpp"

namespace sim {

// Exit codes, as the README documents them.
enum class ExitCode : int {
  done = 0,
  failed = 1,
  usage = 2,
  invalid_input = 3,
  does_not_fit = 4,
  bound_exceeded = 5,
  interrupted = 130,
};

// A value that must be one of some words.
struct WordValue {
  std::vector<std::string> words;
  std::function<void(const std::string& word)> set;
};
// A value that is read by a function, which throws std::invalid_argument with what is wrong.
using ReadValue = std::function<void(const std::string& text)>;

// Destination is where the value of an option goes. A bool is a flag; a list takes several values,
// see `repeated`.
using Destination =
    std::variant<std::string*, int*, std::int64_t*, double*, bool*, std::optional<int>*,
                 std::optional<std::string>*, std::vector<std::string>*, WordValue, ReadValue>;

// Check is what a value must be: one of the following.
struct CountFrom {
  std::int64_t least, most;
};
struct NumberFrom {
  double least, most;
};
struct Positive {};
struct NonNegative {};
using OneOf = std::vector<std::string>;
using Check = std::variant<std::monostate, CountFrom, NumberFrom, Positive, NonNegative, OneOf>;

// Output is what a command writes under the name that an option gives.
enum class Output : std::uint8_t { none, file, folder };

struct Option {
  std::string name;  // "--trace", "-o,--output"; without dashes: a positional argument
  Destination into;
  std::string form = {};  // of the value, in the help: FILE; empty: its type
  std::string help = {};
  Output writes = Output::none;
  Check check = {};
  bool required = false;
  bool repeated = false;  // a list: one value each time the option is given, not all that follow
  bool hidden = false;    // from the help
  std::vector<std::string> needs = {}, excludes = {};  // names of other options
};
using Options = std::vector<Option>;

// The name of an option in messages: the last one that it has.
std::string option_name(const Option& option);

struct Command {
  std::string name;
  std::string help = {};
  Options options = {};
  std::vector<Command> commands = {};
  std::string footer = {};                // of the help; empty: that of the command it belongs to
  std::function<ExitCode()> run = {};     // empty: one of `commands` is required
  bool any_arguments = false;             // what comes behind it is not looked at
  std::string version = {};               // of the program, for --version
  std::vector<std::string> aliases = {};  // further names
};

// Options of several groups, in order.
Options joined(std::initializer_list<Options> groups);

inline bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The words of an enumeration (sim/base/words.hpp) as the value of an option.
template <class Enum>
std::vector<std::string> words_in_order() {
  std::vector<std::string> words;
  for (const auto& entry : words_of(Enum{}))
    words.emplace_back(entry.text);
  return words;
}
// `Target`: the enumeration, or an optional of it. `words`: those that are allowed.
template <class Enum, class Target>
WordValue word_value(Target& target, std::vector<std::string> words = words_in_order<Enum>()) {
  return {std::move(words),
          [&target](const std::string& word) { target = *from_word<Enum>(word); }};
}

// Every long name of the options of a command, --help among them, with what it is for.
struct OptionName {
  std::string name, help;
};
std::vector<OptionName> option_names(const Command& command);

// Arguments that make no sense for a command.
class UsageError : public std::runtime_error {
 public:
  // An argument that nothing takes; something that is missing; options or values that do not fit.
  enum class Kind { unexpected, missing, unfit };
  UsageError(const std::string& what, Kind kind, std::vector<const Command*> path)
      : std::runtime_error{what}, kind_{kind}, path_{std::move(path)} {}
  Kind kind() const { return kind_; }
  // The program, then the commands that were recognised. They belong to the program that was read.
  const std::vector<const Command*>& path() const { return path_; }

 private:
  Kind kind_;
  std::vector<const Command*> path_;
};

// Asked is what a command line asks for: text to print (help, version), or a command to run.
struct Asked {
  std::string text;
  const Command* command = nullptr;
};

// Reads `arguments`, without the program's name, into the destinations of the options. Throws
// UsageError. What is returned points into `program`.
Asked read_arguments(const Command& program, const std::vector<std::string>& arguments);

}  // namespace sim
