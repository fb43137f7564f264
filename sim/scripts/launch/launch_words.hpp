// Words of launchers (torchrun, srun, mpirun, deepspeed, accelerate) around the program that they
// start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/shell/shell_variables.hpp"

namespace sim {

// "--micro_batch_size=2" is "--micro-batch-size".
std::string shell_flag_name(std::string_view text);

// behind_program() is the word behind the program that a command starts: pretrain_gpt.py, "-m
// module", "megatron sft".
std::size_t behind_program(const std::vector<ShellText>& words);

// launcher_flag() is what a launcher's flag counts: "--nproc-per-node", "--nnodes" or
// "--world-size"; empty: nothing.
std::string_view launcher_flag(std::string_view name);

// The words of a script's lines "#SBATCH --nodes=4"; "--gres=gpu:8" is "--gpus-per-node=8" there,
// and beside it tasks are no GPUs.
std::vector<ShellText> words_for_slurm(const ShellText& source);

// The variables that Slurm sets from these words.
void set_slurm_variables(const std::vector<ShellText>& words, ShellVariables& variables);

}  // namespace sim
