// Parsers from scripts and flags to a tree. They throw InputError at the first place where the
// grammar is broken.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/config/tree.hpp"
#include "sim/scripts/definition.hpp"
#include "sim/scripts/shell/shell_script.hpp"

namespace sim {

void parse_python_into(Tree& tree);
void parse_flags_into(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
                      std::vector<Remark>& remarks);
void parse_variables_into(Tree& tree, std::span<const Definition> definitions,
                          const ShellFiles& files, std::vector<Remark>& remarks);
// Parts of it: whether the text is of that form, and what it says.
bool is_arguments_block(std::string_view text);
void parse_arguments_block_into(Tree& tree);
// The flag of an argument of Megatron-LM by its name in Python ("add_bias_linear" is
// "--disable-bias-linear"), and the value that this flag has then.
std::string flag_of_argument(std::string_view name);
std::string value_of_argument(std::string_view name, std::string_view value);
bool is_arguments_yaml(std::string_view text);
void parse_arguments_yaml_into(Tree& tree);

}  // namespace sim
