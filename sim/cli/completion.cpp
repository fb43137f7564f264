// stepcast completion: shell completion, generated from the very commands and options that exist.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "sim/catalog/catalog.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/option_values.hpp"
#include "sim/config/data_files.hpp"

namespace sim {
namespace {

// The values of an option, or of the arguments of a command.
struct Values {
  std::string name;  // "--framework"; empty: of arguments
  std::vector<std::string> words;
};

struct Entry {
  std::string path;  // "topo show", empty for the program itself
  std::vector<std::string> words;
  std::vector<std::string> descriptions;
  std::vector<Values> values;
};

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\'' || c == ':' || c == '[' || c == ']') c = ' ';
  return text;
}

void collect(const Command& command, const std::string& path, std::vector<Entry>& entries) {
  Entry entry{path, {}, {}, {}};
  for (const Command& one : command.commands) {
    entry.words.push_back(one.name);
    entry.descriptions.push_back(one_line(one.help));
  }
  for (const OptionName& option : option_names(command)) {
    entry.words.push_back(option.name);
    entry.descriptions.push_back(one_line(option.help));
  }
  for (const Option& option : command.options)
    if (std::vector<std::string> words = option_values(option); !words.empty())
      entry.values.push_back(
          {option.name.starts_with("-") ? option_name(option) : "", std::move(words)});
  entries.push_back(std::move(entry));
  for (const Command& one : command.commands)
    collect(one, path.empty() ? one.name : path + ' ' + one.name, entries);
}

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

// The values of a key of --set, where there is a list of them.
std::vector<std::string> key_values(const Key& key) {
  if (key.path == "model") return data_files("models");
  if (key.path == "cluster" || key.path == "cluster.path") return data_files("topologies");
  if (key.type == KeyType::word || key.type == KeyType::boolean)
    return {key.words.begin(), key.words.end()};
  return {};
}

// Keys and values of --set. The shell splits words at "=": --set layout.schedule = 1f1b.
std::string set_cases() {
  std::string keys, values;
  for (const Key& key : key_catalog()) {
    if (key.only_in_file) continue;
    keys += (keys.empty() ? "" : " ") + key.path;
    if (const std::vector<std::string> words = key_values(key); !words.empty())
      values += fmt::format("      {}) values=\"{}\" ;;\n", key.path, fmt::join(words, " "));
  }
  return fmt::format(
      "  local before=\"${{COMP_WORDS[COMP_CWORD-1]}}\" key=\"\" values=\"\"\n"
      "  if [[ \"$before\" == --set ]]; then\n"
      "    compopt -o nospace 2>/dev/null\n"
      "    COMPREPLY=($(compgen -S = -W \"{}\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  if [[ \"$current\" == = ]]; then\n"
      "    key=\"$before\" current=\"\"\n"
      "  elif [[ \"$before\" == = ]]; then\n"
      "    key=\"${{COMP_WORDS[COMP_CWORD-2]}}\"\n"
      "  fi\n"
      "  if [[ -n \"$key\" ]]; then\n"
      "    case \"$key\" in\n"
      "{}"
      "    esac\n"
      "    COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n",
      keys, values);
}

// The values of options, by the path of the command and the word before.
std::string value_cases(const std::vector<Entry>& entries) {
  std::string cases;
  for (const Entry& entry : entries)
    for (const Values& values : entry.values)
      if (!values.name.empty())
        cases += fmt::format("    \"{} {}\") words=\"{}\" only=yes ;;\n", entry.path, values.name,
                             fmt::join(values.words, " "));
  return "  case \"$path ${before/#-o/--output}\" in\n" + cases + "  esac\n";
}

// The words that may stand behind a command: subcommands, options, values of its arguments.
std::string words_behind(const Entry& entry) {
  std::string words = spaced(entry.words);
  for (const Values& values : entry.values)
    if (values.name.empty()) words += ' ' + spaced(values.words);
  return words;
}

// The path of subcommands is what precedes the first option or file; both shells walk it alike.
std::string bash(const std::vector<Entry>& entries) {
  std::string text =
      "_stepcast() {\n"
      "  local word path=\"\" current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$path/$word\" in\n";
  for (const Entry& entry : entries)
    if (!entry.path.empty()) {
      const std::size_t cut = entry.path.rfind(' ');
      const std::string parent = cut == std::string::npos ? "" : entry.path.substr(0, cut);
      const std::string leaf = cut == std::string::npos ? entry.path : entry.path.substr(cut + 1);
      text += fmt::format("      \"{}/{}\") path=\"{}\" ;;\n", parent, leaf, entry.path);
    }
  text +=
      "    esac\n  done\n" + set_cases() + "  local words=\"\" only=\"\"\n  case \"$path\" in\n";
  for (const Entry& entry : entries)
    text += fmt::format("    \"{}\") words=\"{}\" ;;\n", entry.path, words_behind(entry));
  return text + "  esac\n" + value_cases(entries) +
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ \"$current\" == -* || -n \"$only\" ]] || COMPREPLY+=($(compgen -f -- "
         "\"$current\"))\n"
         "}\n"
         "complete -o filenames -F _stepcast stepcast\n";
}

std::string zsh(const std::vector<Entry>& entries) {
  return "#compdef stepcast\nautoload -U +X bashcompinit && bashcompinit\n" + bash(entries);
}

std::string fish(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    const std::string condition = entry.path.empty()
                                      ? "__fish_use_subcommand"
                                      : "__fish_seen_subcommand_from " +
                                            entry.path.substr(0, entry.path.find(' ')) +
                                            (entry.path.find(' ') == std::string::npos
                                                 ? ""
                                                 : "; and __fish_seen_subcommand_from " +
                                                       entry.path.substr(entry.path.find(' ') + 1));
    for (std::size_t i = 0; i < entry.words.size(); ++i) {
      const bool option = entry.words[i].starts_with("--");
      text += fmt::format("complete -c stepcast -n '{}' {} {} -d '{}'\n", condition,
                          option ? "-l" : "-a", option ? entry.words[i].substr(2) : entry.words[i],
                          entry.descriptions[i]);
    }
    for (const Values& values : entry.values)
      text += fmt::format("complete -c stepcast -n '{}' {}-x -a '{}'\n", condition,
                          values.name.empty() ? "" : "-l " + values.name.substr(2) + " ",
                          spaced(values.words));
  }
  return text;
}

Command script_command(const char* shell, const char* use,
                       std::string (*script)(const std::vector<Entry>&)) {
  return {.name = shell, .help = use, .run = [script] {
            std::vector<Entry> entries;
            collect(stepcast_program(), "", entries);
            print_result(script(entries));
            return ExitCode::done;
          }};
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .help = "a completion script for your shell",
          .commands = {script_command("bash", "use: source <(stepcast completion bash)", bash),
                       script_command("zsh", "use: source <(stepcast completion zsh)", zsh),
                       script_command("fish", "use: stepcast completion fish | source", fish)},
          .footer = "Example: source <(stepcast completion bash)"};
}

}  // namespace sim
