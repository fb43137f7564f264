#include "sim/scripts/launch/launch_words.hpp"

#include <algorithm>
#include <array>

#include "sim/scripts/shell/shell_lexer.hpp"

namespace sim {
namespace {

// LauncherFlag is a name that launchers give to the number of processes.
struct LauncherFlag {
  std::string_view name, ours;
};
constexpr std::array launcher_flags{
    LauncherFlag{"--nproc-per-node", "--nproc-per-node"},
    LauncherFlag{"--ntasks-per-node", "--nproc-per-node"},
    LauncherFlag{"--num-gpus", "--nproc-per-node"},
    LauncherFlag{"--gpus-per-node", "--nproc-per-node"},
    LauncherFlag{"--nnodes", "--nnodes"},
    LauncherFlag{"--num-nodes", "--nnodes"},
    LauncherFlag{"--nodes", "--nnodes"},
    LauncherFlag{"-N", "--nnodes"},
    LauncherFlag{"--num-machines", "--nnodes"},
    LauncherFlag{"--num-processes", "--world-size"},
    LauncherFlag{"--ntasks", "--world-size"},
    LauncherFlag{"-np", "--world-size"},
};

// sbatch(1), output environment variables.
struct SlurmVariable {
  std::string_view option;
  const char* name;
};
constexpr std::array slurm_variables{SlurmVariable{"--nodes", "SLURM_NNODES"},
                                     SlurmVariable{"--nodes", "SLURM_JOB_NUM_NODES"},
                                     SlurmVariable{"-N", "SLURM_NNODES"},
                                     SlurmVariable{"-N", "SLURM_JOB_NUM_NODES"},
                                     SlurmVariable{"--gpus-per-node", "SLURM_GPUS_PER_NODE"},
                                     SlurmVariable{"--gpus-per-node", "SLURM_GPUS_ON_NODE"},
                                     SlurmVariable{"--ntasks-per-node", "SLURM_NTASKS_PER_NODE"}};

// "--gres=gpu:h100:8" is "--gpus-per-node=8", whole numbers of GPUs of the job are its tasks.
ShellText plain_slurm_word(const ShellText& word) {
  constexpr std::string_view gres = "--gres=gpu:", gpus = "--gpus=";
  ShellText made;
  if (word.text.starts_with(gres)) {
    made.add("--gpus-per-node=", word.at());
    made.add(word.part(word.text.rfind(':') + 1));
  } else if (word.text.starts_with(gpus)) {
    made.add("--ntasks=", word.at());
    made.add(word.part(gpus.size()));
  }
  return made.empty() ? word : made;
}

}  // namespace

std::string shell_flag_name(std::string_view text) {
  std::string name{text.substr(0, text.find_first_of("=\x01"))};
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::size_t behind_program(const std::vector<ShellText>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py")) return i + 1;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word == "-m") return i + 2;
    if ((word == "megatron" || word.ends_with("/megatron")) && !words[i + 1].text.starts_with("--"))
      return i + 2;
  }
  return 0;
}

std::string_view launcher_flag(std::string_view name) {
  const auto known = std::ranges::find(launcher_flags, name, &LauncherFlag::name);
  return known == launcher_flags.end() ? std::string_view{} : known->ours;
}

std::vector<ShellText> words_for_slurm(const ShellText& source) {
  constexpr std::string_view mark = "#SBATCH ";
  std::vector<ShellText> words;
  for (std::size_t at = 0; at < source.text.size();) {
    const std::size_t end = std::min(source.text.find('\n', at), source.text.size());
    const ShellText line = source.part(at, end - at);
    at = end + 1;
    if (!line.text.starts_with(mark)) continue;
    for (const ShellText& word : argument_words(line.part(mark.size())))
      words.push_back(plain_slurm_word(word));
  }
  const auto begins = [](std::string_view name) {
    return [name](const ShellText& word) { return shell_flag_name(word.text) == name; };
  };
  if (std::ranges::any_of(words, begins("--gpus-per-node")))
    std::erase_if(words, begins("--ntasks-per-node"));
  return words;
}

void set_slurm_variables(const std::vector<ShellText>& words, ShellVariables& variables) {
  const auto set = [&](const char* name, const ShellText& value) {
    if (variables.find(name) == nullptr) variables.set(name, {{value}, {}, false});
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].text.find('=');
    const bool apart = equals == std::string::npos;
    if (apart && i + 1 >= words.size()) break;
    const ShellText value = apart ? words[i + 1] : words[i].part(equals + 1);
    if (value.empty() || value.text.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string name = shell_flag_name(words[i].text);
    for (const SlurmVariable& variable : slurm_variables)
      if (name == variable.option) set(variable.name, value);
  }
}

}  // namespace sim
