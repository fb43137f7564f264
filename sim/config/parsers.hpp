// From text to tree. The parsers throw InputError at the first place where the grammar is broken.
#pragma once

#include <span>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/config/shell_script.hpp"
#include "sim/config/tree.hpp"

namespace sim {

void parse_yaml_into(Tree& tree);
void parse_json_into(Tree& tree);
void parse_toml_into(Tree& tree);
void parse_python_into(Tree& tree);
void parse_flags_into(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
                      std::vector<Remark>& remarks);
void parse_variables_into(Tree& tree, std::span<const Definition> definitions,
                          const ShellFiles& files, std::vector<Remark>& remarks);
// Parts of it: whether the text is of that form, and what it says.
bool is_arguments_block(std::string_view text);
void parse_arguments_block_into(Tree& tree);
bool is_arguments_yaml(std::string_view text);
void parse_arguments_yaml_into(Tree& tree);

}  // namespace sim
