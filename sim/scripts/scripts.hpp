// Scripts and lists of flags as documents of the strict reader (sim/config/reader.hpp). They are
// read, and nothing of them runs. All throw InputError when a file cannot be opened or parsed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/config/reader.hpp"
#include "sim/scripts/definition.hpp"

namespace sim {

// Command-line flags in a file, as flags/flags_tree.cpp describes them. Scripts that it sources are
// read where they lie beside it.
Document load_flags(const std::string& path, std::span<const Definition> definitions);
Document parse_flags(std::string_view text, std::string name,
                     std::span<const Definition> definitions = {});

// The variables that a shell script leaves set, as shell/variables_tree.cpp describes them.
Document load_variables(const std::string& path, std::span<const Definition> definitions);
Document parse_variables(std::string_view text, std::string name);

// Functions that build a torchtitan configuration, as python/python_trainer.cpp describes them.
Document load_python(const std::string& path);
Document parse_python(std::string_view text, std::string name);

// The text of a file that the file at `path` names, relative to it; a path from the root of another
// machine is tried by its last name, and what is not there one folder up and in configs/. Nothing:
// it is not there, or no text of up to 1 MiB.
std::optional<std::string> text_beside(const std::string& path, std::string_view named);

}  // namespace sim
