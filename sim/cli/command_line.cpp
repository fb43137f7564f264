#include "sim/cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <sstream>

#include "sim/cli/outputs.hpp"

namespace sim {
namespace {

// As CLI11 says it.
constexpr const char* help_text = "Print this help message and exit";
constexpr const char* version_text = "Display program version information and exit";

ReadValue read_word(const WordValue& value) {
  return [value](const std::string& word) {
    if (std::find(value.words.begin(), value.words.end(), word) == value.words.end())
      throw std::invalid_argument(
          fmt::format("'{}' is none of {}", word, fmt::join(value.words, ", ")));
    value.set(word);
  };
}

// Adds an option of one kind of destination.
struct Adder {
  CLI::App& app;
  const Option& option;

  template <class T>
  CLI::Option* operator()(T* into) const {
    return app.add_option(option.name, *into, option.help);
  }
  CLI::Option* operator()(bool* into) const {
    return app.add_flag(option.name, *into, option.help);
  }
  CLI::Option* operator()(const WordValue& into) const { return (*this)(read_word(into)); }
  CLI::Option* operator()(const ReadValue& into) const {
    const auto read = [into, name = option_name(option)](const std::string& text) {
      try {
        into(text);
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError{name, error.what()};
      }
    };
    return app.add_option_function<std::string>(option.name, read, option.help);
  }
};

struct Checker {
  CLI::Option& option;

  void operator()(std::monostate) const {}
  void operator()(CountFrom range) const { option.check(CLI::Range(range.least, range.most)); }
  void operator()(NumberFrom range) const {
    check([range](double number) { return number >= range.least && number <= range.most; },
          fmt::format("{} to {}", range.least, range.most));
  }
  void operator()(Positive) const {
    check([](double number) { return number > 0 && std::isfinite(number); }, "numbers above 0");
  }
  void operator()(NonNegative) const {
    check([](double number) { return number >= 0 && std::isfinite(number); },
          "0 and numbers above it");
  }
  void operator()(const OneOf& words) const { option.check(CLI::IsMember(words)); }

 private:
  // CLI::Range takes "nan" for a number within it.
  template <class Test>
  void check(Test is_allowed, const std::string& allowed) const {
    option.check([is_allowed, allowed](const std::string& text) {
      double number = 0;
      if (CLI::detail::lexical_cast(text, number) && is_allowed(number)) return std::string{};
      return fmt::format("'{}' is out of range; allowed: {}", text, allowed);
    });
  }
};

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(Adder{app, option}, option.into);
  if (!option.form.empty()) added->option_text(option.form);
  if (option.repeated) added->allow_extra_args(false);
  if (option.required) added->required();
  if (option.hidden) added->group("");
  std::visit(Checker{*added}, option.check);
}

// " Needs: --results", in the order of the options. (CLI11 has them by the address of its objects.)
std::string relations(const Command& command, const Option& option) {
  std::string needs, excludes;
  for (const Option& other : command.options) {
    if (other.hidden) continue;
    const std::string name = option_name(other);
    if (among(option.needs, name)) needs += ' ' + name;
    if (among(option.excludes, name) || among(other.excludes, option_name(option)))
      excludes += ' ' + name;
  }
  if (!needs.empty()) needs.insert(0, " Needs:");
  if (!excludes.empty()) excludes.insert(0, " Excludes:");
  return needs + excludes;
}

// relate() sets what an option asks of others, once all are there.
void relate(CLI::App& app, const Command& command, const Option& option) {
  CLI::Option* added = app.get_option(option_name(option));
  for (const std::string& other : option.needs)
    added->needs(app.get_option(other));
  for (const std::string& other : option.excludes)
    added->excludes(app.get_option(other));
  const std::string text = relations(command, option);
  if (!option.form.empty() || text.empty()) return;
  const bool flag = std::holds_alternative<bool*>(option.into);
  added->option_text(flag ? text.substr(1) : added->get_type_name() + text);
}

using Path = std::vector<const Command*>;

// `footer`: of a command without one of its own.
void fill(CLI::App& app, const Command& command, const std::string& footer) {
  const std::string& own = command.footer.empty() ? footer : command.footer;
  app.footer(own);
  for (const std::string& alias : command.aliases)
    app.alias(alias);
  if (command.any_arguments) app.allow_extras();
  for (const Option& option : command.options)
    add_option(app, option);
  for (const Option& option : command.options)
    relate(app, command, option);
  for (const Command& one : command.commands)
    fill(*app.add_subcommand(one.name, one.help), one, own);
  if (!command.commands.empty()) app.require_subcommand(command.run ? 0 : 1, 1);
}

Path path_of(const CLI::App& app, const Command& program) {
  Path path{&program};
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    const std::vector<Command>& commands = path.back()->commands;
    const auto same = [&](const Command& one) { return one.name == at->get_name(); };
    path.push_back(&*std::find_if(commands.begin(), commands.end(), same));
  }
  return path;
}

// unmet_relation() names what given options need and lack, or exclude; empty: nothing. CLI11 has no
// names of hidden ones.
std::string unmet_relation(const CLI::App& app, const Command& command) {
  const auto given = [&](const std::string& name) { return app.count(name) > 0; };
  for (const Option& option : command.options) {
    const std::string name = option_name(option);
    if (!given(name)) continue;
    for (const std::string& other : option.needs)
      if (!given(other)) return fmt::format("{} requires {}", name, other);
    for (const Option& other : command.options) {
      const std::string other_name = option_name(other);
      const bool excluded = among(option.excludes, other_name) || among(other.excludes, name);
      if (excluded && given(other_name)) return fmt::format("{} excludes {}", name, other_name);
    }
  }
  return {};
}

// Its code, for its name may be that of a command.
bool is(const CLI::ParseError& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

// problem_of() says what is wrong, in the parser's words where it has them.
std::string problem_of(const CLI::ParseError& error, const CLI::App& app, const Path& path) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty())
    at = at->get_subcommands().front();
  const bool relation =
      is(error, CLI::ExitCodes::ExcludesError) || is(error, CLI::ExitCodes::RequiresError);
  const std::string unmet = relation ? unmet_relation(*at, *path.back()) : "";
  return unmet.empty() ? error.what() : unmet;
}

UsageError::Kind kind_of(const CLI::ParseError& error) {
  if (is(error, CLI::ExitCodes::ExtrasError)) return UsageError::Kind::unexpected;
  if (is(error, CLI::ExitCodes::RequiredError)) return UsageError::Kind::missing;
  return UsageError::Kind::unfit;
}

// An option of a command with commands of its own would go unheard before one of them.
void require_options_behind(const CLI::App& app, const Path& path) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i + 1 < path.size(); ++i, at = at->get_subcommands().front())
    for (const Option& option : path[i]->options)
      if (at->count(option_name(option)) > 0)
        throw UsageError{fmt::format("{} stands before '{}': options go behind the command",
                                     option_name(option), path[i + 1]->name),
                         UsageError::Kind::unfit,
                         {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i) + 1}};
}

void require_outputs(const CLI::App& app, const Path& path) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty())
    at = at->get_subcommands().front();
  const std::string problem = output_problem(
      *path.back(), [&](const Option& option) { return at->count(option_name(option)) > 0; });
  if (!problem.empty()) throw UsageError{problem, UsageError::Kind::unfit, path};
}

}  // namespace

std::string option_name(const Option& option) {
  return option.name.substr(option.name.rfind(',') + 1);
}

Options joined(std::initializer_list<Options> groups) {
  Options all;
  for (const Options& group : groups)
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

std::vector<OptionName> option_names(const Command& command) {
  std::vector<OptionName> all{{"--help", help_text}};
  if (!command.version.empty()) all.push_back({"--version", version_text});
  for (const Option& option : command.options) {
    std::istringstream names{option.name};
    for (std::string name; std::getline(names, name, ',');)
      if (name.starts_with("--")) all.push_back({name, option.help});
  }
  return all;
}

Asked read_arguments(const Command& program, const std::vector<std::string>& arguments) {
  CLI::App app{program.help, program.name};
  if (!program.version.empty()) app.set_version_flag("--version", program.version, version_text);
  fill(app, program, program.footer);
  try {
    app.parse(std::vector<std::string>{arguments.rbegin(), arguments.rend()});  // CLI11's order
  } catch (const CLI::ParseError& error) {
    if (!is(error, CLI::ExitCodes::Success)) {
      const Path path = path_of(app, program);
      throw UsageError{problem_of(error, app, path), kind_of(error), path};
    }
    std::ostringstream text;
    app.exit(error, text, text);
    return {.text = text.str()};
  }
  const Path path = path_of(app, program);
  require_options_behind(app, path);
  require_outputs(app, path);
  return {.text = {}, .command = path.back()};
}

}  // namespace sim
