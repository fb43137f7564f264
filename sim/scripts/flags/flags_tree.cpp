// Command-line flags as people keep them: a list of "--flag value"; arrays of a bash script; a
// whole script that starts a training (shell_script.hpp); the block of arguments that a training
// prints (arguments_block.cpp); YAML of arguments (arguments_yaml.cpp). The tree is one object:
// "--flag" to true (no value follows), to a text, or to a list of several. '_' in the name of a
// flag is '-'; of a flag that is given more than once the last one counts.
//
// A script has the flags of the command that trains: the one that starts a program with batches,
// layers or the like. Its launcher's number of processes becomes "--nproc-per-node", "--nnodes" and
// "--world-size". Without such a command they are all flags of all arrays and strings.
//
// A value that the file does not give stays as "$NAME": its reader has to refuse it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/flags/primus_yaml.hpp"
#include "sim/scripts/launch/launch_words.hpp"
#include "sim/scripts/launch/manifest.hpp"
#include "sim/scripts/script_parsers.hpp"
#include "sim/scripts/shell/script_source.hpp"
#include "sim/scripts/shell/shell_script.hpp"

namespace sim {
namespace {

using Origin = ShellUnknowns::Origin;

// of_training: flags by which the command that trains is told from one that converts or prepares.
constexpr std::array<std::string_view, 12> of_training{"--micro-batch-size",
                                                       "--global-batch-size",
                                                       "--num-layers",
                                                       "--hidden-size",
                                                       "--seq-length",
                                                       "--train-iters",
                                                       "--train-samples",
                                                       "--tensor-model-parallel-size",
                                                       "--pipeline-model-parallel-size",
                                                       "--lr",
                                                       "--bf16",
                                                       "--deepspeed"};

std::size_t training_flags(const std::vector<ShellText>& words, std::size_t begin) {
  std::size_t count = 0;
  for (std::size_t i = begin; i < words.size(); ++i)
    for (const ShellText& part : split_quoted_flag(words[i]))
      if (std::ranges::find(of_training, shell_flag_name(part.text)) != of_training.end()) ++count;
  return count;
}

class FlagsTree {
 public:
  FlagsTree(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
            std::vector<Remark>& remarks)
      : tree_{tree},
        files_{files},
        remarks_{remarks},
        source_{source_of(tree)},
        places_{tree.source()} {
    for (const Definition& definition : definitions)
      variables_.define(definition.name, definition.value);
  }

  void parse() {
    try {
      begins_with_flag() ? take_list() : take_job();
    } catch (const ShellProblem& problem) {
      tree_.fail(places_.of(problem.at), problem.what);
    }
    if (order_.empty()) tree_.fail({1, 0}, "there is no --flag in this file");
    for (const auto& [name, at] : variables_.taken_as_empty)
      remark(
          "$" + name,
          fmt::format("nothing in the file sets it, and a condition on line {} read it as empty; "
                      "else give --define {}=VALUE",
                      places_.of(at).line, name));
    tree_.open({1, 0}, ValueKind::object);
    for (const std::string& name : order_)
      add(name, flags_.at(name));
    tree_.close();
  }

 private:
  struct Value {
    TextPlace place;
    std::string text;
  };
  struct Flag {
    TextPlace place;
    std::vector<Value> values;
    bool takes_values = true;  // "--flag=value" has its value
    bool unsure = false;       // whether it is given is not known; its value says why
  };

  void remark(std::string about, std::string what) {
    remarks_.push_back({std::move(about), std::move(what)});
  }
  TextPlace place(const ShellText& text) const { return places_.of(text.at()); }
  std::string shown(std::string_view text) const { return variables_.unknowns.shown(text); }

  bool begins_with_flag() const {
    bool comment = false;
    for (const char c : source_.text) {
      if (c == '#') comment = true;
      if (c == '\n') comment = false;
      if (!comment && !is_shell_blank(c) && c != '\\') return c == '-';
    }
    return false;
  }

  void take_list() {
    ShellExpander expander{variables_};
    for (const ShellText& word : argument_words(source_))
      take_words(expander.fields(word));
  }

  // ---- Scripts, and what else starts a job.

  void take_job() {
    set_slurm_variables(words_for_slurm(source_), variables_);
    UnwrappedJob job = is_manifest(tree_.source())
                           ? unwrap_manifest(tree_, variables_, files_)
                           : UnwrappedJob{run_shell_script(source_, variables_, files_)};
    std::erase_if(job.outcome.commands,
                  [](const ShellCommand& command) { return !has_flags(command.words); });
    take_flags(job);
    take_environment();
  }
  static bool has_flags(const std::vector<ShellText>& words) {
    return std::ranges::any_of(words,
                               [](const ShellText& word) { return word.text.starts_with("--"); });
  }

  // take_environment() reads variables of PyTorch's allocator as if they were flags. Unknown values
  // are left out.
  void take_environment() {
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      const ShellVariable* variable = variables_.find(name);
      if (variable == nullptr || variable->values.size() != 1 || order_.empty()) continue;
      const ShellText& value = variable->values.front();
      if (value.empty() || variables_.unknowns.first(value.text)) continue;
      put("--pytorch-cuda-alloc-conf", {place(value), {{place(value), value.text}}, false});
    }
  }

  void take_flags(const UnwrappedJob& job) {
    const ShellOutcome& outcome = job.outcome;
    const std::vector<const ShellCommand*> trains = commands_that_train(outcome);
    if (outcome.lost && !trains.empty())
      tree_.fail(places_.of(*outcome.lost),
                 "the comment above ends the command, so the shell does not hand these flags on: "
                 "move the comment");
    if (trains.empty()) return take_loose(outcome);
    const ShellCommand& command = *trains.back();
    if (trains.size() > 1) refuse_two(*trains.front(), command);
    const std::size_t begin = behind_program(command.words);
    if (trains.size() == 1 || same_words(*trains.front(), command, true)) {
      take_launcher(command.words, begin);
      only_missing_ = true;
      take_batch_job();
      take_pods(job);
      only_missing_ = false;
      leave_open_counts();
    }
    take_words({command.words.begin() + static_cast<std::ptrdiff_t>(begin), command.words.end()});
    if (outcome.loose.empty()) return;
    tree_.fail(place(outcome.loose.front()), "this flag belongs to no command");
  }

  static std::vector<const ShellCommand*> commands_that_train(const ShellOutcome& outcome) {
    std::vector<const ShellCommand*> trains;
    for (const ShellCommand& command : outcome.commands) {
      const std::size_t begin = behind_program(command.words);
      const std::size_t flags = training_flags(command.words, begin);
      if (flags >= (begin > 0 ? 1U : 2U)) trains.push_back(&command);
    }
    // A checkpoint's converter says layers, too.
    const auto best = std::ranges::max_element(trains, {}, [](const ShellCommand* command) {
      return training_flags(command->words, behind_program(command->words));
    });
    if (best == trains.end()) return trains;
    const std::size_t most = training_flags((*best)->words, behind_program((*best)->words));
    std::erase_if(trains, [&](const ShellCommand* command) {
      return 2 * training_flags(command->words, behind_program(command->words)) < most;
    });
    return trains;
  }

  // Whether two commands hand on the same flags; `launcher`: and start as many processes.
  static bool same_words(const ShellCommand& first, const ShellCommand& last, bool launcher) {
    const auto texts = [&](const ShellCommand& command) {
      std::vector<std::string> all;
      const std::size_t begin = launcher ? 0 : behind_program(command.words);
      for (std::size_t i = begin; i < command.words.size(); ++i)
        all.push_back(command.words[i].text);
      return all;
    };
    return texts(first) == texts(last);
  }

  // Two that say the same are one.
  void refuse_two(const ShellCommand& first, const ShellCommand& last) const {
    if (same_words(first, last, false)) return;
    tree_.fail(places_.of(last.at),
               fmt::format("this command trains, and that on line {} does with other flags: leave "
                           "one of them in the file",
                           places_.of(first.at).line));
  }

  // Without a command: every array and string of flags that no other one holds.
  void take_loose(const ShellOutcome& outcome) {
    std::vector<std::string> held;
    for (const auto& [name, values] : outcome.flags)
      if (!is_part_of_another(name, values, outcome)) take_variable(values);
    current_.clear();
    take_words(outcome.loose);
    for (const ShellCommand& command : outcome.commands)
      if (order_.empty()) {
        const std::size_t begin = behind_program(command.words);
        take_launcher(command.words, begin);
        take_words(
            {command.words.begin() + static_cast<std::ptrdiff_t>(begin), command.words.end()});
      }
  }

  // A string's blanks part its words.
  void take_variable(const std::vector<ShellText>& values) {
    current_.clear();
    for (const ShellText& value : values) {
      ShellText rest = value;
      while (!rest.empty() && is_shell_blank(rest.text.front()))
        rest = rest.part(1);
      take_words({rest});
    }
  }

  // The same characters of the file stand in a later one.
  static bool is_part_of_another(const std::string& name, const std::vector<ShellText>& values,
                                 const ShellOutcome& outcome) {
    const std::uint32_t first = values.front().at();
    for (const auto& [other, texts] : outcome.flags) {
      if (other == name) continue;
      for (const ShellText& text : texts)
        if (std::ranges::find(text.from, first) != text.from.end() && !text.from.empty() &&
            (texts.size() > values.size() || text.text.size() > values.front().text.size()))
          return true;
    }
    return false;
  }

  // "#SBATCH --nodes=4": what Slurm is asked for, where no launcher says more.
  void take_batch_job() {
    std::vector<ShellText> words = words_for_slurm(source_);
    words.emplace_back();  // an option's value is the word behind it
    take_launcher(words, words.size());
  }

  // The GPUs of pods, where no launcher says more.
  void take_pods(const UnwrappedJob& job) {
    if (job.pods == 0) return;
    ShellText number;
    number.add(fmt::format("{}", job.pods), job.pods_at);
    launcher("--nnodes", number);
    number = {};
    number.add(fmt::format("{}", job.gpus_per_pod), job.pods_at);
    launcher("--nproc-per-node", number);
  }

  void take_launcher(const std::vector<ShellText>& words, std::size_t end) {
    for (const char* name : {"NPROC_PER_NODE", "NNODES"})
      if (end >= 2 && words[end - 2].text.ends_with("megatron"))
        if (const ShellVariable* variable = variables_.find(name); variable != nullptr)
          launcher(fmt::format("--{}", name), variable->values.front());
    std::vector<ShellText> parts;
    for (std::size_t i = 0; i < end; ++i)
      for (const ShellText& part : split_quoted_flag(words[i]))
        parts.push_back(part);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t equals = parts[i].text.find('=');
      if (equals != std::string::npos)
        launcher(shell_flag_name(parts[i].text), parts[i].part(equals + 1));
      else if (i + 1 < parts.size())
        launcher(shell_flag_name(parts[i].text), parts[i + 1]);
    }
  }

  // A count that is not known is left to --gpus, and so is the other one then.
  void leave_open_counts() {
    if (!open_nodes_ || flags_.contains("--nnodes")) return;
    flags_.erase("--nproc-per-node");
    std::erase(order_, "--nproc-per-node");
  }

  void launcher(std::string name, const ShellText& value) {
    std::ranges::transform(name, name.begin(), [upper = name.starts_with("--N")](char c) {
      return upper && c == '_' ? '-' : upper ? static_cast<char>(std::tolower(c)) : c;
    });
    const std::string_view known = launcher_flag(name);
    const bool number = !value.empty() && value.text.size() < 9 &&
                        value.text.find_first_not_of("0123456789") == std::string::npos;
    if (known == "--nnodes" && ShellUnknowns::has_mark(value.text)) open_nodes_ = true;
    if (known.empty() || !number) return;
    const bool said = flags_.contains(std::string{known}) || flags_.contains("--world-size");
    if (only_missing_ && said) return;
    Flag flag{place(value), {{place(value), value.text}}, false};
    put(std::string{known}, std::move(flag));
  }

  // ---- Flags.

  void take_words(const std::vector<ShellText>& words) {
    for (const ShellText& word : words)
      for (const ShellText& part : split_quoted_flag(word))
        take_word(part, current_);
  }

  void take_word(const ShellText& word, std::string& current) {
    if (is_flag(word.text)) return take_flag(word, current);
    Flag* flag = current.empty() ? nullptr : &flags_.at(current);
    const bool expects = flag != nullptr && flag->takes_values;
    if (ShellUnknowns::is_mark(word.text) && is_foreign(word, expects ? flag : nullptr, current))
      tree_.fail(place(word), fmt::format("the arguments in {} are not in this file: paste them, "
                                          "too",
                                          shown(word.text)));
    if (!expects)
      tree_.fail(place(word), fmt::format("'{}' is no flag: paste only the arguments, \"--flag "
                                          "value\", bash arrays of them, or the whole script",
                                          shown(word.text)));
    flag->values.push_back({place(word), shown(word.text)});
  }

  // Whether an unknown word may stand for flags: an array, or what stands where no value is due.
  bool is_foreign(const ShellText& word, const Flag* flag, const std::string& name) const {
    if (shown(word.text).ends_with("[@]}") || shown(word.text).ends_with("[*]}")) return true;
    if (flag == nullptr) return true;
    const bool list =
        name.find("data") != std::string::npos || name.find("path") != std::string::npos;
    return !flag->values.empty() && !list &&
           variables_.unknowns.origin(word.text) != Origin::something;
  }

  void take_flag(const ShellText& word, std::string& current) {
    std::string name = shell_flag_name(word.text);
    Flag flag{place(word), {}, true};
    // Whether it is given is not known.
    if (const auto why = variables_.unknowns.first(word.text.substr(0, word.text.find('=')))) {
      flag.values.push_back({place(word), *why});
      flag.unsure = true;
    } else if (const std::size_t equals = word.text.find('='); equals != std::string::npos) {
      const ShellText value = word.part(equals + 1);
      flag.values.push_back({value.empty() ? place(word) : place(value), shown(value.text)});
      flag.takes_values = false;
    }
    current = name;
    put(std::move(name), std::move(flag));
  }

  void put(std::string name, Flag flag) {
    const auto found = flags_.find(name);
    if (found == flags_.end()) {
      order_.push_back(name);
      flags_.emplace(std::move(name), std::move(flag));
      return;
    }
    remark(name, fmt::format("given on line {} and again on line {}, which counts",
                             found->second.place.line, flag.place.line));
    found->second = std::move(flag);
  }

  void add(const std::string& name, const Flag& flag) {
    tree_.add_key(flag.place, name);
    const std::size_t count = flag.unsure ? 1 : flag.values.size();
    if (count > 1) tree_.open(flag.values.front().place, ValueKind::list);
    for (std::size_t i = 0; i < count; ++i)
      tree_.add_scalar(flag.values[i].place, ValueKind::plain, flag.values[i].text);
    if (count > 1) tree_.close();
    if (count == 0) tree_.add_scalar(flag.place, ValueKind::plain, "true");
  }

  Tree& tree_;
  const ShellFiles& files_;
  std::vector<Remark>& remarks_;
  ShellText source_;
  Places places_;
  ShellVariables variables_;
  std::vector<std::string> order_;
  std::map<std::string, Flag> flags_;
  std::string current_;        // the flag that values belong to
  bool only_missing_ = false;  // counts of the launcher stand
  bool open_nodes_ = false;    // a launcher's number of nodes is not known
};

}  // namespace

void parse_flags_into(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
                      std::vector<Remark>& remarks) {
  if (is_arguments_block(tree.source())) return parse_arguments_block_into(tree);
  if (is_arguments_yaml(tree.source())) return parse_arguments_yaml_into(tree);
  if (!primus_framework(tree.source()).empty())
    return parse_primus_into(tree, definitions, files, remarks);
  FlagsTree{tree, definitions, files, remarks}.parse();
}

}  // namespace sim
