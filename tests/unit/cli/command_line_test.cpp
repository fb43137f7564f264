#include "sim/cli/command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/cli/command.hpp"
#include "sim/cli/usage.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace sim {
namespace {

struct Values {
  std::string file, from = "auto";
  int nodes = 0;
  std::int64_t count = 0;
  double seconds = 1;
  bool quick = false;
  std::optional<int> rank;
  std::vector<std::string> sets, logs;
  OutputFormat output = OutputFormat::table;
  std::string read, trace, folder;
};

Options options_into(Values& values) {
  const auto read = [&values](const std::string& text) {
    if (text == "bad") throw std::invalid_argument("is bad");
    values.read = text;
  };
  return {{.name = "FILE", .into = &values.file, .required = true},
          {.name = "--from", .into = &values.from, .check = OneOf{"auto", "bytes"}},
          {.name = "--nodes", .into = &values.nodes, .form = "N", .check = CountFrom{1, 8}},
          {.name = "--count", .into = &values.count, .check = Positive{}},
          {.name = "--seconds", .into = &values.seconds, .check = NumberFrom{0.5, 2}},
          {.name = "--quick", .into = &values.quick, .excludes = {"--nodes"}},
          {.name = "--rank", .into = &values.rank, .check = NonNegative{}},
          {.name = "--set", .into = &values.sets, .repeated = true},
          {.name = "--logs", .into = &values.logs},
          {.name = "-o,--output", .into = word_value<OutputFormat>(values.output)},
          {.name = "--trace", .into = &values.trace, .writes = Output::file},
          {.name = "--folder", .into = &values.folder, .writes = Output::folder},
          {.name = "--read", .into = read, .needs = {"--count"}},
          {.name = "--secret", .into = &values.read, .hidden = true, .excludes = {"--rank"}}};
}

ExitCode nothing() {
  return ExitCode::done;
}

Command program_into(Values& values) {
  return {.name = "tool",
          .help = "A tool.",
          .commands = {{.name = "copy", .options = options_into(values), .run = nothing},
                       {.name = "group", .commands = {{.name = "inner", .run = nothing}}},
                       {.name = "both",
                        .commands = {{.name = "inner", .run = nothing}},
                        .run = nothing}},
          .footer = "Example: tool copy a",
          .version = "tool 1"};
}

Values read(const std::vector<std::string>& arguments) {
  Values values;
  const Command program = program_into(values);
  REQUIRE(read_arguments(program, arguments).command == &program.commands.front());
  return values;
}

// The text that a user sees.
std::string refused(const std::vector<std::string>& arguments) {
  Values values;
  const Command program = program_into(values);
  try {
    read_arguments(program, arguments);
  } catch (const UsageError& error) {
    return usage_error_text(error, arguments);
  }
  return "nothing was refused";
}

std::string help(const std::vector<std::string>& arguments) {
  Values values;
  const Command program = program_into(values);
  const Asked asked = read_arguments(program, arguments);
  REQUIRE(asked.command == nullptr);
  return asked.text;
}

std::string mistake(const std::string& path, const std::string& what) {
  return path + ": " + what + "\nExample: tool copy a\nRun '" + path +
         " --help' for what there is.\n";
}

}  // namespace

TEST_CASE("every kind of option puts its value where the command wants it", "[cli]") {
  const Values values =
      read({"copy", "a", "--from=bytes", "--nodes", "3", "--count", "5000000000", "--seconds",
            "0.5", "--rank", "0", "--output", "json", "--read", "x"});
  CHECK(values.file == "a");
  CHECK(values.from == "bytes");
  CHECK(values.nodes == 3);
  CHECK(values.count == 5000000000);
  CHECK(values.seconds == 0.5);
  CHECK(values.rank == 0);
  CHECK(values.output == OutputFormat::json);
  CHECK(values.read == "x");
  CHECK_FALSE(values.quick);
  CHECK(read({"copy", "--quick", "a"}).quick);
  CHECK_FALSE(read({"copy", "a"}).rank.has_value());
}

TEST_CASE("a repeated option takes one value each time, another list all that follow", "[cli]") {
  const Values values = read({"copy", "--set", "x=1", "a", "--set", "y=2", "--logs", "b", "c"});
  CHECK(values.file == "a");
  CHECK(values.sets == std::vector<std::string>{"x=1", "y=2"});
  CHECK(values.logs == std::vector<std::string>{"b", "c"});
}

TEST_CASE("mistakes in values name the option and what is allowed", "[cli]") {
  const auto error = [](const std::string& option, const std::string& value) {
    return refused({"copy", "a", option, value});
  };
  CHECK(error("--output", "xml") ==
        mistake("tool copy", "--output: 'xml' is none of table, json, csv, md, html"));
  CHECK(error("--read", "bad") == mistake("tool copy", "--read: is bad"));
  CHECK(error("--from", "x") == mistake("tool copy", "--from: x not in {auto,bytes}"));
  CHECK(refused({"copy", "a", "--set"}) == mistake("tool copy", "--set needs a value"));
  for (const char* nodes : {"0", "9", "x"})
    CHECK(error("--nodes", nodes).find("--nodes") != std::string::npos);
  CHECK(error("--seconds", "3").find("--seconds") != std::string::npos);
  CHECK(error("--count", "0").find("--count") != std::string::npos);
  CHECK(error("--rank", "-1").find("--rank") != std::string::npos);
}

TEST_CASE("options that exclude or need one another are refused in either order", "[cli]") {
  CHECK(refused({"copy", "a", "--quick", "--nodes", "2"}) ==
        mistake("tool copy", "--nodes excludes --quick"));
  CHECK(refused({"copy", "a", "--nodes", "2", "--quick"}) ==
        mistake("tool copy", "--nodes excludes --quick"));
  CHECK(refused({"copy", "a", "--secret", "x", "--rank", "1"}) ==
        mistake("tool copy", "--rank excludes --secret"));
  CHECK(refused({"copy", "a", "--read", "x"}) == mistake("tool copy", "--read requires --count"));
}

TEST_CASE("options of a command do not go unheard before one of its own commands", "[cli]") {
  std::string file;
  const Command program{
      .name = "tool",
      .commands = {{.name = "both",
                    .options = {{.name = "--file", .into = &file}},
                    .commands = {{.name = "inner", .run = nothing},
                                 {.name = "any", .run = nothing, .any_arguments = true}},
                    .run = nothing}}};
  CHECK_THROWS_WITH(read_arguments(program, {"both", "--file", "x", "inner"}),
                    "--file stands before 'inner': options go behind the command");
  CHECK_THROWS_AS(read_arguments(program, {"both", "inner", "--more"}), UsageError);
  const Command* any = read_arguments(program, {"both", "any", "--more", "x"}).command;
  REQUIRE(any != nullptr);
  CHECK(any->name == "any");
}

TEST_CASE("what is unknown is told with the nearest name", "[cli]") {
  CHECK(refused({"copy", "a", "--node", "2"})
            .starts_with("tool copy: unknown option '--node'; did you mean '--nodes'?"));
  CHECK(refused({"cop"}).starts_with("tool: unknown command 'cop'; did you mean 'copy'?"));
  CHECK(refused({}) == mistake("tool", "a command is required: copy, group, both"));
  CHECK(refused({"group"}) == mistake("tool group", "a command is required: inner"));
}

TEST_CASE("a command with commands of its own may run without them if it says so", "[cli]") {
  Values values;
  const Command program = program_into(values);
  const Command& both = program.commands.back();
  CHECK(read_arguments(program, {"both"}).command == &both);
  CHECK(read_arguments(program, {"both", "inner"}).command == &both.commands.front());
}

TEST_CASE("the help lists what options ask of one another in their order", "[cli]") {
  const std::string text = help({"copy", "--help"});
  CHECK(text.find("--quick Excludes: --nodes") != std::string::npos);
  CHECK(text.find("--nodes N") != std::string::npos);
  CHECK(text.find("--secret") == std::string::npos);
  CHECK(text.ends_with("Example: tool copy a\n"));
  CHECK(help({"--version"}) == "tool 1\n");
}

TEST_CASE("the names of options are those of the help", "[cli]") {
  for (const Command& command : stepcast_program().commands) {
    const Command program{.name = "tool", .commands = {command}};
    const std::string text = read_arguments(program, {command.name, "--help"}).text;
    for (const OptionName& option : option_names(command)) {
      const auto same = [&](const Option& one) { return one.name == option.name && one.hidden; };
      const bool hidden = std::any_of(command.options.begin(), command.options.end(), same);
      CAPTURE(command.name, option.name);
      CHECK((text.find(option.name) != std::string::npos) != hidden);
    }
  }
}

TEST_CASE("an output without a name is a mistake", "[cli]") {
  CHECK(refused({"copy", "a", "--trace", ""}) ==
        mistake("tool copy", "--trace is empty: the name of a file is wanted"));
  CHECK(refused({"copy", "a", "--folder", ""}) ==
        mistake("tool copy", "--folder is empty: the name of a folder is wanted"));
}

TEST_CASE("an output that another argument names is refused, however it is spelt", "[cli]") {
  namespace fs = std::filesystem;
  const fs::path folder = test::temporary_path("outputs");
  fs::create_directory(folder);
  const std::string file = (folder / "a.yaml").string();
  std::ofstream{file} << "x: 1";
  const std::string link = (folder / "link.yaml").string(), hard = (folder / "b.yaml").string();
  fs::create_symlink(file, link);
  fs::create_hard_link(file, hard);
  const std::string detour = (folder / "." / "a.yaml").string();
  const auto problem = [](const std::string& value, const char* of) {
    return mistake("tool copy", "--trace would overwrite '" + value + "', which " + of +
                                    " names, too: choose another file");
  };
  for (const std::string& output : {file, link, hard, detour}) {
    CHECK(refused({"copy", file, "--trace", output}) == problem(file, "FILE"));
    CHECK(refused({"copy", "x", "--set", "model=" + file, "--trace", output}) ==
          problem("model=" + file, "--set"));
  }
  const std::string made = (folder / "made").string();  // no file yet
  CHECK(refused({"copy", "x", "--read", "y", "--count", "1", "--trace", made, "--logs", made}) ==
        problem(made, "--logs"));
  CHECK(read({"copy", file, "--trace", made}).trace == made);
  CHECK(read({"copy", "/dev/null", "--trace", "/dev/null"}).trace == "/dev/null");
  fs::remove_all(folder);
}

}  // namespace sim
